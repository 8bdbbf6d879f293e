// The message, an outer scope, keeps something of the upcall, an inner one.
use isorb_scope::Region;
use std::cell::Cell;
struct Message<'m> {
    note: Cell<Option<&'m str>>,
}
fn upcall<'m>(message: &Message<'m>, region: &mut Region) {
    let scope = region.enter();
    message.note.set(Some(scope.str("x").unwrap()));
}
fn main() {
    upcall(&Message { note: Cell::new(None) }, &mut Region::new(64));
}
