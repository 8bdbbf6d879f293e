//! A thread for each connection.

use super::reply::replace_too_long;
use super::{Next, finish, guarded};
use crate::Orb;
use crate::buffers::CallBuffers;
use crate::connection::Connection;
use crate::sched::thread::started_for_connection;
use std::hint::cold_path;
use std::sync::Arc;

/// Serves a connection until it ends. The thread blocks in receive, between messages without a
/// time-out.
#[inline(never)]
pub(crate) fn serve(orb: &Orb, connection: &Arc<Connection>) {
    let mut send = |message: &isorb_cdr::Message<'_>| {
        if let Err(error) = connection.send(message) {
            cold_path();
            replace_too_long(connection, Some(error), message);
        }
    };
    let next = guarded(|| {
        started_for_connection();
        let mut buffers = CallBuffers::new(connection.pool());
        orb.handler().prepare_thread();
        loop {
            match connection.read(&mut buffers.block, &mut buffers.lent) {
                Ok(arrived) => {
                    let handler = orb.handler();
                    if handler.handle(orb, connection, arrived, &mut buffers, &mut send).is_break() {
                        return Next::Break(());
                    }
                    buffers.trim();
                    if connection.lane.get().is_some() {
                        cold_path();
                        return Next::Continue(());
                    }
                }
                Err(error) => {
                    cold_path();
                    finish(connection, error);
                    return Next::Break(());
                }
            }
        }
    });
    if next.is_continue() {
        // A lane serves it from now on.
        return;
    }
    connection.break_off();
    orb.connection_ended(connection);
}
