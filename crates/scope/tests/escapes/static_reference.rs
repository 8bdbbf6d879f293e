// A servant stores a reference into the scope of an upcall as if it lived for ever.
use isorb_scope::Scope;
use std::sync::Mutex;
struct Servant {
    last: Mutex<Option<&'static str>>,
}
impl Servant {
    fn serve<'u>(&self, scope: &'u Scope<'u>) {
        *self.last.lock().unwrap() = Some(scope.str("x").unwrap());
    }
}
fn main() {
    let _ = Servant::serve;
}
