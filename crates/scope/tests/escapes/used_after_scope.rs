// A value is used after its scope was left.
use isorb_scope::Region;
fn main() {
    let mut region = Region::new(64);
    let kept;
    {
        let scope = region.enter();
        kept = scope.str("x").unwrap();
    }
    println!("{kept}");
}
