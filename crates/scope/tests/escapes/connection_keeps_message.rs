// The connection keeps a part of a message.
use isorb_scope::Scope;
use std::cell::Cell;
struct Connection<'c> {
    scope: &'c Scope<'c>,
    last: Cell<Option<&'c str>>,
}
struct Message<'c, 'm> {
    connection: &'m Connection<'c>,
    operation: &'m str,
}
fn on_message<'c, 'm>(message: &'m Message<'c, 'm>) {
    println!("{}", message.connection.scope.used());
    message.connection.last.set(Some(message.operation));
}
fn main() {
    let _ = on_message;
}
