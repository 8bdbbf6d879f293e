//! A thread a connection.

use super::{Next, finish, guarded, long, on_message};
use crate::Orb;
use crate::connection::Connection;
use crate::workspace::Work;
use std::hint::cold_path;
use std::sync::Arc;

/// Serves a connection until it ends. The thread blocks in receive, outside of a message for ever.
#[inline(never)]
pub(crate) fn serve(orb: &Orb, connection: &Arc<Connection>) {
    let mut work = Work::new(connection.pool());
    crate::poa::warm_up();
    let mut send = |message: &isorb_cdr::Message<'_>| {
        if let Err(error) = connection.send(message) {
            cold_path();
            long::instead(connection, Some(error), message);
        }
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
                        cold_path();
                        return Next::Continue;
                    }
                }
                Err(error) => {
                    cold_path();
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
