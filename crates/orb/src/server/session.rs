//! A thread a connection.

use super::{Next, finish, guarded, long, on_message};
use crate::Orb;
use crate::connection::Connection;
use crate::workspace::Work;
use std::sync::Arc;

/// Serves a connection until it ends. The thread blocks in receive, outside of a message for ever.
pub(crate) fn serve(orb: &Orb, connection: &Arc<Connection>) {
    let mut work = Work::new(connection.pool());
    crate::poa::warm_up();
    let mut send = |message: &isorb_cdr::Message<'_>| {
        long::instead(connection, connection.send(message).err(), message);
    };
    let next = guarded(|| {
        loop {
            match connection.read(&mut work.block) {
                Ok(arrived) => {
                    if on_message(orb, connection, arrived, &mut work, &mut send) == Next::Close {
                        return Next::Close;
                    }
                    work.trim();
                    if connection.home.get().is_some() {
                        return Next::Continue;
                    }
                }
                Err(error) => {
                    finish(connection, error);
                    return Next::Close;
                }
            }
        }
    });
    if next == Next::Continue {
        // It has a lane from now on.
        return;
    }
    connection.break_off();
    orb.connection_ended(connection);
}
