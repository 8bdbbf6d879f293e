//! The order in which the waiting datagrams of guaranteed receive agents are received.
//!
//! Each such agent has a socket of its own, so the kernel separates its datagrams from others. Less
//! urgent datagrams wait in their sockets, however many have come. The next datagram that the
//! thread receives is always one of the most urgent agent.

use super::config::Via;
use super::{AgentScheduler, Band};
use isorb_rt::queue::{Handle, PriorityQueue};

/// Sockets with something to receive. A socket is in it at most once.
///
/// # Real-time
/// Allocates nothing while there are no more agents than it was made for.
#[derive(Debug)]
pub(super) struct Arrivals {
    queue: PriorityQueue<u64, (u32, Via)>,
    /// The entries of each agent, one a path.
    entries: Vec<[Option<Handle>; 2]>,
}

impl Arrivals {
    pub fn new(capacity: usize) -> Arrivals {
        Arrivals { queue: PriorityQueue::with_capacity(2 * capacity), entries: vec![[None; 2]; capacity] }
    }

    /// The least `level` goes first; equal levels go in order of arrival.
    fn push(&mut self, receive: u32, via: Via, level: u64) {
        let Some(entries) = self.entries.get_mut(receive as usize) else { return };
        let entry = &mut entries[via as usize];
        if entry.is_none() {
            *entry = self.queue.push(level, (receive, via)).ok();
        }
    }

    pub fn remove(&mut self, receive: u32, via: Via) {
        let entries = self.entries.get_mut(receive as usize);
        if let Some(entry) = entries.and_then(|entries| entries[via as usize].take()) {
            self.queue.remove(entry);
        }
    }

    fn first(&self) -> Option<(u64, u32, Via)> {
        self.queue.peek().map(|(level, (receive, via))| (level, *receive, *via))
    }
}

impl AgentScheduler {
    /// Something arrived at an agent's own socket. Has no effect on an agent without a guarantee.
    pub fn arrived(&mut self, receive: u32, via: Via) {
        let agent = self.receives.get(receive as usize).and_then(|slot| slot.agent.as_ref());
        if let Some(level) = agent.and_then(|agent| agent.deadline_ns) {
            self.arrivals.push(receive, via, level);
        }
    }

    /// An agent's own socket is empty, as far as is known.
    pub fn emptied(&mut self, receive: u32, via: Via) {
        self.arrivals.remove(receive, via);
    }

    /// The agent of which a datagram is to be received before anything else: no waiting agent has
    /// an earlier deadline, and no promoted push may go.
    ///
    /// # Real-time
    /// Handles timers that are due, as [`next_action`](AgentScheduler::next_action) does. Neither
    /// allocates nor blocks.
    pub fn next_arrival(&mut self, now_ns: u64) -> Option<(u32, Via)> {
        let (level, receive, via) = self.arrivals.first()?;
        // A timer that is due may promote a push.
        self.tick(now_ns);
        let may_go = self.link.ready_at(now_ns) <= now_ns;
        match self.queue.first_level(Band::Upper) {
            Some(push) if may_go && push < level => None,
            _ => Some((receive, via)),
        }
    }

    /// The event that the driver waits for. Another thread that receives datagrams compares it
    /// before and after, and wakes the driver where it has become sooner.
    pub fn due(&self) -> Due {
        let timer_ns = self.timers.next_at().unwrap_or(u64::MAX);
        Due { timer_ns, ready: self.queue.pushed(), reports: self.reports.len() + self.answers.len() }
    }

    /// Whether an agent's own socket has a datagram.
    pub fn has_arrivals(&self) -> bool {
        self.arrivals.first().is_some()
    }
}

/// The events that a scheduler's driver waits for while it has nothing to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Due {
    /// The next timer; the largest number for none.
    timer_ns: u64,
    /// Counts agents that became ready.
    ready: u64,
    /// Reports and answers that wait to be sent.
    reports: usize,
}

impl Due {
    /// Whether a thread that waits until `before` would wait too long.
    pub fn is_sooner_than(self, before: Due) -> bool {
        self.timer_ns < before.timer_ns || self.ready != before.ready || self.reports > before.reports
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_urgent_is_first_and_each_is_in_it_once() {
        let mut arrivals = Arrivals::new(3);
        let order = |arrivals: &mut Arrivals| {
            let mut order = Vec::new();
            while let Some((_, receive, via)) = arrivals.first() {
                order.push((receive, via));
                arrivals.remove(receive, via);
            }
            order
        };
        for _ in 0..3 {
            arrivals.push(0, Via::First, 50);
            arrivals.push(2, Via::Second, 50);
            arrivals.push(1, Via::First, 20);
        }
        assert_eq!(order(&mut arrivals), [(1, Via::First), (0, Via::First), (2, Via::Second)]);
        // A socket that comes again goes behind its equals.
        for _ in 0..1000 {
            arrivals.push(0, Via::First, 50);
            arrivals.remove(0, Via::First);
        }
        arrivals.push(2, Via::First, 50);
        arrivals.push(0, Via::First, 50);
        assert_eq!(order(&mut arrivals), [(2, Via::First), (0, Via::First)]);
        arrivals.push(7, Via::First, 1);
        assert_eq!(order(&mut arrivals), [], "no agent has that number");
    }
}
