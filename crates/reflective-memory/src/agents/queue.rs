//! The queue of push agents: three bands.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The bands of dual-priority scheduling.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Band {
    /// Guaranteed, with time to spare.
    Lower,
    /// Best effort.
    Middle,
    /// Guaranteed, and it is time.
    Upper,
}

/// Agents that are ready, by number. An agent is in it at most once.
///
/// # Real-time
/// Allocates nothing while there are no more agents than it was made for: entries that were taken
/// back are dropped when they come to the top, and all of them when there are twice as many as
/// agents.
#[derive(Debug)]
pub(super) struct DualQueue {
    bands: [BinaryHeap<Reverse<Entry>>; 3],
    agents: Vec<Agent>,
    reminders: VecDeque<usize>,
    order: u64,
    /// The virtual time of the middle band: bytes sent by the agent that has been served last.
    served: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Entry {
    key: u64,
    order: u64,
    agent: usize,
}

#[derive(Clone, Copy, Default, Debug)]
struct Agent {
    /// The entry that counts; 0 for none.
    order: u64,
    band: usize,
    /// Bytes sent in the middle band, in its virtual time.
    sent: u64,
    reminded: bool,
}

impl DualQueue {
    pub fn new(capacity: usize) -> DualQueue {
        DualQueue {
            bands: [(); 3].map(|()| BinaryHeap::with_capacity(2 * capacity + 2)),
            agents: vec![Agent::default(); capacity],
            reminders: VecDeque::with_capacity(capacity),
            order: 0,
            served: 0,
        }
    }

    /// A new agent has this number.
    pub fn reset(&mut self, agent: usize) {
        self.remove(agent);
        self.agents[agent].sent = 0;
    }

    /// The agent is ready. In the upper and lower band, less `level` goes first.
    pub fn push(&mut self, agent: usize, band: Band, level: u64) {
        self.order += 1;
        let state = &mut self.agents[agent];
        state.order = self.order;
        state.band = band as usize;
        let key = match band {
            Band::Middle => {
                // An agent gets no credit for the time that it was away.
                state.sent = state.sent.max(self.served);
                state.sent
            }
            _ => level,
        };
        let entry = Entry { key, order: self.order, agent };
        let heap = &mut self.bands[band as usize];
        if heap.len() == heap.capacity() {
            let agents = &self.agents;
            heap.retain(|Reverse(entry)| agents[entry.agent].order == entry.order);
        }
        heap.push(Reverse(entry));
    }

    /// The agent is not ready any more.
    pub fn remove(&mut self, agent: usize) {
        self.agents[agent].order = 0;
    }

    /// Another number each time an agent becomes ready.
    pub fn order(&self) -> u64 {
        self.order
    }

    /// May an agent be ready? True for an empty queue at times, never false for one that is not.
    pub fn holds_any(&self) -> bool {
        self.bands.iter().any(|band| !band.is_empty())
    }

    /// May an agent be ready in this band? As [`holds_any`](Self::holds_any).
    pub fn holds(&self, band: Band) -> bool {
        !self.bands[band as usize].is_empty()
    }

    /// The least level in a band, that of the agent that goes next of it.
    pub fn first_level(&mut self, band: Band) -> Option<u64> {
        let heap = &mut self.bands[band as usize];
        while let Some(Reverse(entry)) = heap.peek() {
            if self.agents[entry.agent].order == entry.order {
                return Some(entry.key);
            }
            heap.pop();
        }
        None
    }

    /// Takes out the agent that goes next.
    pub fn pop(&mut self) -> Option<(usize, Band)> {
        for band in [Band::Upper, Band::Middle, Band::Lower] {
            while let Some(Reverse(entry)) = self.bands[band as usize].pop() {
                let agent = &mut self.agents[entry.agent];
                if agent.order != entry.order {
                    continue;
                }
                agent.order = 0;
                if band == Band::Middle {
                    self.served = entry.key;
                }
                return Some((entry.agent, band));
            }
        }
        None
    }

    /// The agent that was taken out last sent so many bytes.
    pub fn charge(&mut self, agent: usize, bytes: usize) {
        if self.agents[agent].band == Band::Middle as usize {
            self.agents[agent].sent += bytes as u64;
        }
    }

    /// The agent has a heartbeat to send.
    pub fn remind(&mut self, agent: usize) {
        if !std::mem::replace(&mut self.agents[agent].reminded, true) {
            self.reminders.push_back(agent);
        }
    }

    /// The next agent that has one.
    pub fn reminded(&mut self) -> Option<usize> {
        let agent = self.reminders.pop_front()?;
        self.agents[agent].reminded = false;
        Some(agent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn upper_before_middle_before_lower_and_less_before_more() {
        let mut queue = DualQueue::new(8);
        for (agent, band, level) in [
            (0, Band::Lower, 1),
            (1, Band::Middle, 0),
            (2, Band::Upper, 9),
            (3, Band::Upper, 5),
            (4, Band::Lower, 0),
        ] {
            queue.push(agent, band, level);
        }
        // Promoted while it waits.
        queue.remove(0);
        queue.push(0, Band::Upper, 7);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|(agent, _)| agent).collect();
        assert_eq!(order, [3, 0, 2, 1, 4]);
    }

    proptest! {
        /// An agent that is always ready in the middle band gets as much as any other, to within
        /// one datagram.
        #[test]
        fn best_effort_is_fair_by_bytes(sizes in prop::collection::vec(1usize..1500, 2..8)) {
            let mut queue = DualQueue::new(sizes.len());
            let mut sent = vec![0; sizes.len()];
            (0..sizes.len()).for_each(|agent| queue.push(agent, Band::Middle, 0));
            for _ in 0..2000 {
                let (agent, _) = queue.pop().unwrap();
                sent[agent] += sizes[agent];
                queue.charge(agent, sizes[agent]);
                queue.push(agent, Band::Middle, 0);
            }
            let (least, most) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
            prop_assert!(most - least <= 1500, "{sent:?}");
        }

        #[test]
        fn an_agent_is_in_it_once(steps in prop::collection::vec((0usize..4, 0u8..4), 0..300)) {
            let mut queue = DualQueue::new(4);
            let mut ready = [false; 4];
            for (agent, what) in steps {
                match what {
                    0 => { queue.push(agent, Band::Upper, 1); ready[agent] = true; }
                    1 => { queue.push(agent, Band::Lower, 1); ready[agent] = true; }
                    2 => { queue.remove(agent); ready[agent] = false; }
                    _ => match queue.pop() {
                        Some((agent, _)) => prop_assert!(std::mem::take(&mut ready[agent])),
                        None => prop_assert_eq!(ready, [false; 4]),
                    },
                }
                prop_assert!(queue.bands.iter().all(|band| band.capacity() <= 20), "it does not grow");
            }
        }
    }

    #[test]
    fn who_was_away_gets_no_credit() {
        let mut queue = DualQueue::new(2);
        for _ in 0..10 {
            queue.push(0, Band::Middle, 0);
            queue.pop();
            queue.charge(0, 1000);
        }
        queue.push(0, Band::Middle, 0);
        queue.push(1, Band::Middle, 0);
        let mut first = 0;
        for _ in 0..10 {
            let (agent, _) = queue.pop().unwrap();
            first += usize::from(agent == 0);
            queue.charge(agent, 1000);
            queue.push(agent, Band::Middle, 0);
        }
        assert!((4..=6).contains(&first), "{first}");
    }
}
