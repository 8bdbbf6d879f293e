//! Counts of packets and messages.

use isorb_giop::miop::LostCounts;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of received and lost messages of groups since the transport was made.
#[derive(Debug, Default)]
pub struct GroupCounts {
    messages: AtomicU64,
    ignored: AtomicU64,
    refused: AtomicU64,
    conflicts: AtomicU64,
    too_long: AtomicU64,
    late: AtomicU64,
    displaced: AtomicU64,
    duplicates: AtomicU64,
    unsent: AtomicU64,
    overrun: AtomicU64,
}

/// [`GroupCounts`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupStatistics {
    /// Messages that were reassembled.
    pub messages: u64,
    /// Datagrams that were not packets.
    pub ignored: u64,
    /// Whole messages that were of no use: no requests to a group, such that want an answer, or to
    /// groups without members here.
    pub refused: u64,
    /// Messages that were abandoned because their packets contradict each other.
    pub conflicts: u64,
    /// Messages that were abandoned because they have too many octets or packets.
    pub too_long: u64,
    /// Messages that were not whole in time.
    pub late: u64,
    /// Messages that were replaced by others.
    pub displaced: u64,
    /// Packets that had arrived before.
    pub duplicates: u64,
    /// Messages to groups of which a packet could not be sent.
    pub unsent: u64,
    /// Requests that found as many waiting for the threads of their lane as may.
    pub overrun: u64,
}

fn add(count: &AtomicU64, more: u64) {
    if more > 0 {
        count.fetch_add(more, Ordering::Relaxed);
    }
}

impl GroupCounts {
    /// The current counts.
    pub fn now(&self) -> GroupStatistics {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        GroupStatistics {
            messages: of(&self.messages),
            ignored: of(&self.ignored),
            refused: of(&self.refused),
            conflicts: of(&self.conflicts),
            too_long: of(&self.too_long),
            late: of(&self.late),
            displaced: of(&self.displaced),
            duplicates: of(&self.duplicates),
            unsent: of(&self.unsent),
            overrun: of(&self.overrun),
        }
    }

    /// Counts a whole message that its receiver refused.
    pub fn refuse(&self) {
        add(&self.refused, 1);
    }

    /// Counts a request for which the threads of its lane have no room.
    pub fn overrun(&self) {
        add(&self.overrun, 1);
    }

    pub(super) fn message(&self) {
        add(&self.messages, 1);
    }

    pub(super) fn ignore(&self) {
        add(&self.ignored, 1);
    }

    pub(super) fn unsent(&self) {
        add(&self.unsent, 1);
    }

    /// Adds the losses of a collector since the last call.
    pub(super) fn lost(&self, before: LostCounts, now: LostCounts) {
        add(&self.conflicts, now.conflicts - before.conflicts);
        add(&self.too_long, now.too_long - before.too_long);
        add(&self.late, now.late - before.late);
        add(&self.displaced, now.displaced - before.displaced);
        add(&self.duplicates, now.duplicates - before.duplicates);
    }
}
