//! How a lane takes its clients in.

use super::super::LOG;
use super::super::endpoint::{accepted_connection, is_fault_of_peer};
use super::super::lane::Lane;
use super::{Acceptor, LaneServer};
use crate::Orb;
use crate::connection::AdmissionLimits;
use crate::log::warn;
use crate::sched::prepare;
use isorb_transport::Wait;
use std::io::ErrorKind;
use std::sync::Arc;

impl LaneServer {
    /// Accepts the connections that wait. One thread at a time does so; the others go on.
    pub fn accept(&self, lane: &Lane, orb: &Orb) {
        if !self.accepting.take() {
            return;
        }
        loop {
            // Also where an acceptor of the program panics.
            let retry = RetryAccept { server: self, lane };
            // An event does not name the acceptor, so all are tried.
            let all = self.acceptors.iter().map(|acceptor| self.accept_at(acceptor, lane, orb));
            let failed = all.fold(false, |failed, fails| failed | fails);
            if failed {
                return;
            }
            std::mem::forget(retry);
            if self.accepting.pass() {
                return;
            }
        }
    }

    /// Accepts the connections that wait at one acceptor; `true` when it failed before the last
    /// one.
    fn accept_at(&self, acceptor: &Acceptor, lane: &Lane, orb: &Orb) -> bool {
        for _ in 0..TURN_CLIENTS {
            match acceptor.listener.accept(Wait::No) {
                Ok(stream) => {
                    if let Some(setup) = self.setup.get()
                        && let Err(exception) = prepare(stream.fd(), acceptor.tag, setup)
                    {
                        warn(LOG, format_args!("{}: refused by a lane: {exception}", stream.peer()));
                        continue;
                    }
                    let connection = Arc::new(accepted_connection(orb, acceptor.tag, stream));
                    connection.use_lane(self.blocks());
                    let full = !lane.has_room(orb, self.max_connections)
                        || !orb.accepted().admit(&connection, AdmissionLimits::NONE);
                    if full || self.threads.is_closed() || lane.add(connection.clone()).is_err() {
                        warn(
                            LOG,
                            format_args!("{}: refused, the lane has max_connections", connection.peer()),
                        );
                        connection.close();
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                // A closed acceptor may report refused clients for ever.
                Err(error) if is_fault_of_peer(&error) && !self.threads.is_closed() => {
                    warn(LOG, format_args!("accept: {error}"));
                }
                Err(error) => {
                    if !self.threads.is_closed() {
                        warn(LOG, format_args!("accept: {error}"));
                    }
                    return true;
                }
            }
        }
        // Others are served before the rest of them.
        !lane.report_acceptor(acceptor)
    }
}

/// Clients that are accepted before a thread serves others.
const TURN_CLIENTS: usize = 16;

/// Has a thread accept again after a failure: when a connection ends, when the next client
/// connects, or after a pause.
struct RetryAccept<'s> {
    server: &'s LaneServer,
    lane: &'s Lane,
}

impl Drop for RetryAccept<'_> {
    fn drop(&mut self) {
        while !self.server.accepting.pass() {}
        if !self.server.threads.is_closed() {
            self.lane.retry_accept();
        }
    }
}
