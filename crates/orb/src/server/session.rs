//! A thread a connection.

use super::{Next, finish, on_message};
use crate::Orb;
use crate::connection::Connection;
use crate::workspace::Work;
use isorb_transport::Wait;
use std::sync::Arc;

/// Serves a connection until it ends. The thread blocks in receive, outside of a message for ever.
pub(crate) fn serve(orb: &Orb, connection: &Arc<Connection>) {
    let mut work = Work::new(connection.pool());
    loop {
        match connection.read(Wait::Block, &mut work.block) {
            Ok(arrived) => {
                let mut send = |message: &isorb_cdr::Message<'_>| connection.send(message);
                if on_message(orb, connection, arrived, &mut work, &mut send) == Next::Close {
                    break;
                }
                work.trim();
            }
            Err(error) => return finish(connection, error),
        }
    }
    connection.break_off();
}
