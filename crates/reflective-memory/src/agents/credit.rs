//! Credits of best effort: octets that a node allows each writer's node to send.
//!
//! Several nodes that send as fast as they can fill the queue before one reader's port. While that
//! node receives guaranteed channels, it shares a window of octets among its best-effort channels,
//! and no more than that is on its way. A credit is the sum of octets that the channel may have
//! sent since its begin. It grows as datagrams arrive.
//!
//! Credits are numbered, and the sender's heartbeats carry the number of the last one that came and
//! the octets that were sent. So a lost credit is given again, and a lost datagram is not waited
//! for, as soon as a sender that waits is silent.

use crate::wire::{Channel, ETHERNET_FRAGMENT, HEADER};

use super::WIRE_OVERHEAD;

/// Octets on the wire that each channel may have on its way, however many there are: two datagrams
/// of the usual size.
pub const LEAST_CREDIT: u64 = 2 * (ETHERNET_FRAGMENT + HEADER + WIRE_OVERHEAD) as u64;

/// The least credit of a channel: two of its datagrams.
pub(crate) fn least_credit(channel: &Channel) -> u64 {
    LEAST_CREDIT.max(2 * on_wire(HEADER + channel.fragment))
}

/// Octets on the wire of a datagram.
pub(super) fn on_wire(len: usize) -> u64 {
    (len + WIRE_OVERHEAD) as u64
}

/// The receiver's side of a channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct CreditSource {
    /// Octets that may be on their way; none for no limit.
    window: Option<u64>,
    /// Octets that arrived, or were lost.
    arrived: u64,
    /// The last credit and its number; the first one came with the offer.
    limit: u64,
    number: u64,
    /// The sender has not received it.
    is_lost: bool,
    /// Of a group: its sender's heartbeats carry no number, so the credit answers each of them. How
    /// often a credit without a limit is still given.
    group: Option<u8>,
    /// What was sent is known.
    has_begun: bool,
}

/// How often a group's sender is told that there is no limit any more: heartbeats and credits may
/// be lost.
const REPEATS: u8 = 16;

impl CreditSource {
    /// `limit` went to the sender with the offer.
    pub fn new(limit: u64) -> CreditSource {
        let (group, has_begun) = (None, true);
        CreditSource { window: None, arrived: 0, limit, number: 0, is_lost: false, group, has_begun }
    }

    /// Of a member of a group. The sender knows no limit, and its next heartbeat says how much it
    /// has sent.
    pub fn of_group() -> CreditSource {
        CreditSource { group: Some(0), has_begun: false, ..CreditSource::new(u64::MAX) }
    }

    pub fn set_window(&mut self, window: Option<u64>) {
        if let (Some(repeats), Some(_)) = (&mut self.group, window) {
            *repeats = REPEATS;
        }
        self.window = window;
    }

    /// A datagram arrived.
    pub fn arrived(&mut self, octets: u64) {
        self.arrived = self.arrived.saturating_add(octets);
    }

    /// A heartbeat of the path in use: what the sender has sent, and the number of its credit. All
    /// that was sent before has arrived or is lost.
    pub fn heartbeat(&mut self, sent: u64, number: u64) {
        (self.arrived, self.has_begun) = (sent, true);
        self.is_lost = match &mut self.group {
            None => number != self.number,
            Some(_) if self.window.is_some() => true,
            Some(repeats) => {
                let again = *repeats > 0;
                *repeats = repeats.saturating_sub(1);
                again
            }
        };
    }

    /// Gives another credit where that is due. True if it has to be sent.
    pub fn renew(&mut self) -> bool {
        let next = self.window.map_or(u64::MAX, |window| self.arrived.saturating_add(window));
        let step = self.window.map_or(1, |window| (window / 2).max(1));
        if !self.has_begun || next.abs_diff(self.limit) < step && !self.is_lost {
            return false;
        }
        (self.limit, self.is_lost) = (next, false);
        self.number += 1;
        true
    }

    /// The number and the limit.
    pub fn credit(&self) -> (u64, u64) {
        (self.number, self.limit)
    }
}

/// The sender's side of a channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Credit {
    limit: u64,
    number: u64,
    sent: u64,
}

impl Credit {
    pub fn new(limit: u64) -> Credit {
        Credit { limit, number: 0, sent: 0 }
    }

    /// Whether a datagram of `len` octets may be sent.
    pub fn allows(&self, len: usize) -> bool {
        self.sent.saturating_add(on_wire(len)) <= self.limit
    }

    pub fn sent(&mut self, len: usize) {
        self.sent = self.sent.saturating_add(on_wire(len));
    }

    /// Takes a credit. False if it is not newer than the last one.
    pub fn renew(&mut self, number: u64, limit: u64) -> bool {
        let is_newer = number > self.number;
        if is_newer {
            (self.number, self.limit) = (number, limit);
        }
        is_newer
    }

    /// For heartbeats: octets that were sent, and the number of the last credit.
    pub fn report(&self) -> (u64, u64) {
        (self.sent, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends as much as the credit allows.
    fn fill(credit: &mut Credit) -> u64 {
        let before = credit.sent;
        while credit.allows(934) {
            credit.sent(934);
        }
        credit.sent - before
    }

    #[test]
    fn no_more_than_the_window_is_on_its_way_and_losses_do_not_stop_the_channel() {
        let (mut source, mut credit) = (CreditSource::new(u64::MAX), Credit::new(u64::MAX));
        (0..50).for_each(|_| credit.sent(934));
        source.arrived(50_000);
        assert!(!source.renew(), "without a window there is nothing to say");
        source.set_window(Some(10_000));
        assert!(source.renew());
        let (number, limit) = source.credit();
        assert!(credit.renew(number, limit) && !credit.renew(number, u64::MAX), "it came twice");
        assert_eq!(fill(&mut credit), 10_000);
        // A credit for each half of the window that has arrived.
        for arrived in 1..=4 {
            source.arrived(1_000);
            assert!(!source.renew(), "{arrived}");
        }
        source.arrived(1_000);
        assert!(source.renew());
        let (number, limit) = source.credit();
        assert!(credit.renew(number, limit));
        assert_eq!(fill(&mut credit), 5_000);
        // All that is on its way is lost. The heartbeat says what was sent.
        let (sent, number) = credit.report();
        source.heartbeat(sent, number);
        assert!(source.renew());
        // This credit is lost, too, and the next heartbeat shows it.
        assert!(!source.renew());
        source.heartbeat(sent, number);
        assert!(source.renew());
        let (number, limit) = source.credit();
        assert!(credit.renew(number, limit));
        assert_eq!(fill(&mut credit), 10_000);
        // The last guaranteed channel ends, and with it the limit.
        source.set_window(None);
        assert!(source.renew());
        let (number, limit) = source.credit();
        assert!(credit.renew(number, limit) && credit.allows(1 << 30));
    }

    #[test]
    fn a_member_of_a_group_gives_its_credit_with_each_heartbeat_while_it_has_a_window() {
        let mut source = CreditSource::of_group();
        source.set_window(Some(10_000));
        source.arrived(1_000);
        assert!(!source.renew(), "how much was sent before it joined is not known");
        for beat in 1..=3 {
            source.heartbeat(500_000, 0);
            assert!(source.renew(), "{beat}");
            assert_eq!(source.credit(), (beat, 510_000));
        }
        source.set_window(None);
        assert!(source.renew());
        assert_eq!(source.credit().1, u64::MAX);
        let repeated = (0..100).filter(|_| {
            source.heartbeat(500_000, 0);
            source.renew()
        });
        assert_eq!(repeated.count(), usize::from(REPEATS));
        // One that never had a window says nothing.
        let mut source = CreditSource::of_group();
        source.heartbeat(500_000, 0);
        assert!(!source.renew());
    }

    #[test]
    fn numbers_that_make_no_sense_are_survived() {
        let mut source = CreditSource::new(0);
        source.set_window(Some(u64::MAX));
        for number in [0, u64::MAX, 1] {
            source.arrived(number);
            source.heartbeat(number, number);
            source.renew();
        }
        let mut credit = Credit::new(0);
        assert!(credit.renew(u64::MAX, u64::MAX) && !credit.renew(1, 0) && credit.allows(usize::MAX / 2));
    }
}
