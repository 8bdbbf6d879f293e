// A region is entered again while something of its scope is in use.
use isorb_scope::Region;
fn main() {
    let mut region = Region::new(64);
    let scope = region.enter();
    let kept = scope.str("x").unwrap();
    let again = region.enter();
    println!("{kept} {}", again.used());
}
