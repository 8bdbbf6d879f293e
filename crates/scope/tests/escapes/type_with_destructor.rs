// A type with a destructor is placed where leaving must be O(1).
use isorb_scope::Region;
fn main() {
    let mut region = Region::new(64);
    let scope = region.enter();
    scope.slice(&[String::new()]).unwrap();
}
