// A kept value may not borrow from another scope, since the order in which they end is unknown.
use isorb_scope::Region;
fn main() {
    let mut outer = Region::new(64);
    let scope = outer.enter();
    let local = String::from("x");
    scope.keep(vec![local.as_str()]).unwrap();
}
