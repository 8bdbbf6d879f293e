//! The order in which the waiting datagrams of guaranteed receive agents are received.
//!
//! Each has a socket of its own, so the kernel tells their datagrams apart before anybody spends
//! time on them: what is less urgent waits there, however much of it has come, and the next
//! datagram that is taken in is always one of the most urgent agent.

use super::config::Via;
use super::{AgentScheduler, Band};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Sockets with something to receive. A socket is in it at most once.
///
/// # Real-time
/// Allocates nothing while there are no more agents than it was made for.
#[derive(Debug)]
pub(super) struct Arrivals {
    heap: BinaryHeap<Reverse<Entry>>,
    /// The entry that counts, a path each; 0 for none.
    waiting: Vec<[u64; 2]>,
    order: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Entry {
    level: u64,
    order: u64,
    receive: u32,
    via: Via,
}

impl Arrivals {
    pub fn new(capacity: usize) -> Arrivals {
        let heap = BinaryHeap::with_capacity(4 * capacity + 2);
        Arrivals { heap, waiting: vec![[0; 2]; capacity], order: 0 }
    }

    /// Less `level` goes first; those of one level in order of arrival.
    fn push(&mut self, receive: u32, via: Via, level: u64) {
        let Some(waiting) = self.waiting.get_mut(receive as usize) else { return };
        let counts = &mut waiting[via as usize];
        if *counts != 0 {
            return;
        }
        self.order += 1;
        *counts = self.order;
        if self.heap.len() == self.heap.capacity() {
            let waiting = &self.waiting;
            self.heap.retain(|Reverse(entry)| is_current(waiting, entry));
        }
        self.heap.push(Reverse(Entry { level, order: self.order, receive, via }));
    }

    pub fn remove(&mut self, receive: u32, via: Via) {
        if let Some(waiting) = self.waiting.get_mut(receive as usize) {
            waiting[via as usize] = 0;
        }
    }

    fn first(&mut self) -> Option<Entry> {
        while let Some(Reverse(entry)) = self.heap.peek() {
            if is_current(&self.waiting, entry) {
                return Some(*entry);
            }
            self.heap.pop();
        }
        None
    }
}

fn is_current(waiting: &[[u64; 2]], entry: &Entry) -> bool {
    waiting.get(entry.receive as usize).is_some_and(|counts| counts[entry.via as usize] == entry.order)
}

impl AgentScheduler {
    /// Something came in at an agent's own socket. Nothing happens where the agent has no
    /// guarantee.
    pub fn arrived(&mut self, receive: u32, via: Via) {
        let agent = self.receives.get(receive as usize).and_then(|slot| slot.agent.as_ref());
        if let Some(level) = agent.and_then(|agent| agent.deadline_ns) {
            self.arrivals.push(receive, via, level);
        }
    }

    /// Nothing is left at an agent's own socket, as far as is known.
    pub fn emptied(&mut self, receive: u32, via: Via) {
        self.arrivals.remove(receive, via);
    }

    /// The agent of which a datagram is to be received before anything else: no waiting agent has
    /// an earlier deadline, and no promoted push may go.
    ///
    /// # Real-time
    /// Does what is due, as [`next_action`](AgentScheduler::next_action) does. Neither allocates
    /// nor blocks.
    pub fn next_arrival(&mut self, now_ns: u64) -> Option<(u32, Via)> {
        let Entry { level, receive, via, .. } = self.arrivals.first()?;
        // What is due may promote a push.
        self.tick(now_ns);
        let may_go = self.link.ready_at(now_ns) <= now_ns;
        match self.queue.first_level(Band::Upper) {
            Some(push) if may_go && push < level => None,
            _ => Some((receive, via)),
        }
    }

    /// What the driver waits for. Where another thread takes datagrams in, it wakes the driver if
    /// that is sooner afterwards.
    pub fn due(&self) -> Due {
        let timer_ns = self.timers.next_at().unwrap_or(u64::MAX);
        Due { timer_ns, ready: self.queue.order(), choices: self.choices.len() }
    }

    /// Does an agent's own socket wait to be served?
    pub fn has_arrivals(&mut self) -> bool {
        self.arrivals.first().is_some()
    }
}

/// What a scheduler's driver waits for while it has nothing to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Due {
    /// The next timer; the largest number for none.
    timer_ns: u64,
    /// Counts agents that became ready.
    ready: u64,
    /// Agents that say which path they want.
    choices: usize,
}

impl Due {
    /// Does a thread that waits until `before` wait too long?
    pub fn is_sooner_than(self, before: Due) -> bool {
        self.timer_ns < before.timer_ns || self.ready != before.ready || self.choices > before.choices
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
            while let Some(entry) = arrivals.first() {
                order.push((entry.receive, entry.via));
                arrivals.remove(entry.receive, entry.via);
            }
            order
        };
        for _ in 0..3 {
            arrivals.push(0, Via::First, 50);
            arrivals.push(2, Via::Second, 50);
            arrivals.push(1, Via::First, 20);
        }
        assert_eq!(order(&mut arrivals), [(1, Via::First), (0, Via::First), (2, Via::Second)]);
        // One that came again stands behind its equals, and old entries do not pile up.
        for _ in 0..1000 {
            arrivals.push(0, Via::First, 50);
            arrivals.remove(0, Via::First);
        }
        arrivals.push(2, Via::First, 50);
        arrivals.push(0, Via::First, 50);
        assert_eq!(order(&mut arrivals), [(2, Via::First), (0, Via::First)]);
        assert!(arrivals.heap.capacity() < 100, "it does not grow");
        arrivals.push(7, Via::First, 1);
        assert_eq!(order(&mut arrivals), [], "no agent has that number");
    }
}
