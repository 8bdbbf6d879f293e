//! How a dispatching thread receives: datagrams of guaranteed channels by urgency, others in order
//! of arrival.

use super::{GROUPS, Inner, ROOM, SECOND, SOCKET};
use crate::agents::{INTAKE, Via};
use crate::fail_points::{FailPoint, fail_point};
use crate::node::multicast::Groups;
use crate::node::receive_sockets::of_token;
use crate::wire::Outcome;
use isorb_rt::net::{Events, Poller};
use isorb_rt::time::{Deadline, now_ns};
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::atomic::Ordering;

impl Inner {
    /// Waits for a written value, a datagram or a timer. Receives so few best-effort datagrams at a
    /// time that urgent work does not wait for long, and begins with another socket each time.
    pub(super) fn wait_and_receive(
        &self,
        events: &mut Events<ROOM>,
        until: Deadline,
        first: usize,
        input: &mut [u8],
    ) {
        // An agent that was checked late may have a push to send.
        let until = if self.check_pending() { Deadline::PAST } else { until };
        let mut incoming = [false; 3];
        let mut wait = until;
        // The next wait reports the events that do not fit here, before those that it has reported
        // already.
        let (watched, mut urgent) = (self.watched.load(Ordering::Relaxed), false);
        for _ in 0..=watched / ROOM {
            if self.wait(events, wait, &mut incoming, &mut urgent) < ROOM {
                break;
            }
            wait = Deadline::PAST;
        }
        if !urgent {
            self.check_pending();
        }
        let mut room = {
            let agents = self.agents.lock();
            match () {
                () if agents.scheduler.has_arrivals() => 0,
                // No work could be done: urgent datagrams wait for the link.
                () if agents.scheduler.is_urgent(now_ns()) => usize::from(until != Deadline::PAST),
                () => INTAKE,
            }
        };
        let sockets = [Some(&self.socket), self.second.as_ref(), self.groups.as_ref().map(Groups::socket)];
        for at in (first..first + 3).map(|at| at % 3).filter(|at| incoming[*at]) {
            if let Some(socket) = sockets[at] {
                self.receive_some(socket, &mut room, input);
            }
        }
    }

    /// One wait: rings the doorbells, records arrivals of guaranteed channels and the common
    /// sockets that are ready. Gives the number of events.
    fn wait(
        &self,
        events: &mut Events<ROOM>,
        until: Deadline,
        incoming: &mut [bool; 3],
        urgent: &mut bool,
    ) -> usize {
        let Ok(ready) = self.poller.wait(events, until) else { return 0 };
        let mut count = 0;
        for event in ready {
            count += 1;
            match event.token {
                SOCKET => incoming[0] = true,
                SECOND => incoming[1] = true,
                GROUPS => incoming[2] = true,
                Poller::WAKE => {}
                token => match of_token(token) {
                    Some((receive, via)) => self.agents.lock().scheduler.arrived(receive, via),
                    None => *urgent |= self.ring(token),
                },
            }
        }
        count
    }

    /// Takes one datagram off the socket of a guaranteed channel.
    pub(super) fn receive_guaranteed(&self, socket: &UdpSocket, receive: u32, via: Via, input: &mut [u8]) {
        let got = socket.recv_from(input);
        let mut agents = self.agents.lock();
        match got {
            Ok((len, from)) => {
                fail_point(FailPoint::DatagramCame);
                let outcome = agents.scheduler.received_for(Some(receive), from, &input[..len], now_ns());
                // Most values are one datagram; if more follow, the next wait reports them.
                // Datagrams of other channels do not get this channel's urgency.
                if !matches!(outcome, Some(Outcome::Part | Outcome::Alive)) {
                    agents.scheduler.emptied(receive, via);
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => agents.scheduler.emptied(receive, via),
            // An ICMP error for a datagram that was sent; the next datagram is behind it.
            Err(_) => {}
        }
    }

    /// Receives up to `room` datagrams from one socket, and subtracts their number from `room`.
    fn receive_some(&self, socket: &UdpSocket, room: &mut usize, input: &mut [u8]) {
        while *room > 0 {
            *room -= 1;
            match self.receive_one(socket, input) {
                Received::Nothing => return,
                Received::One { urgent: true, .. } => *room = 0,
                Received::One { .. } => {}
            }
        }
    }

    /// Receives one datagram from a common socket.
    pub(super) fn receive_one(&self, socket: &UdpSocket, input: &mut [u8]) -> Received {
        match socket.recv_from(input) {
            Ok((len, from)) => {
                fail_point(FailPoint::DatagramCame);
                let mut agents = self.agents.lock();
                let (now, before) = (now_ns(), agents.scheduler.due());
                agents.scheduler.received(from, &input[..len], now);
                Received::One {
                    urgent: agents.scheduler.is_urgent(now),
                    sooner: agents.scheduler.due().is_sooner_than(before),
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Received::Nothing,
            // An ICMP error for a datagram that was sent; the next datagram is behind it.
            Err(_) => Received::One { urgent: false, sooner: false },
        }
    }
}

/// The result of receiving from a common socket.
pub(super) enum Received {
    Nothing,
    One {
        /// More urgent work must not wait for further datagrams.
        urgent: bool,
        /// The dispatching thread has work before its timer.
        sooner: bool,
    },
}
