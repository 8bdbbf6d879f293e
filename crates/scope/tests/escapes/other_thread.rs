// A scope is used on another thread.
use isorb_scope::Region;
fn main() {
    let mut region = Region::new(64);
    let scope = region.enter();
    std::thread::scope(|threads| {
        threads.spawn(|| scope.str("x").map(|_| ()).unwrap());
    });
}
