//! The queue of push agents: three bands.

use isorb_rt::queue::{Handle, PriorityQueue};
use std::collections::VecDeque;

/// The bands of dual-priority scheduling.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Band {
    /// Guaranteed pushes that can still wait.
    Lower,
    /// Best effort.
    #[default]
    Middle,
    /// Guaranteed pushes after their promotion.
    Upper,
}

/// Agents that are ready, by number. An agent is in the queue at most once.
///
/// # Real-time
/// Allocates nothing while the agents' numbers are below the capacity.
#[derive(Debug)]
pub(super) struct DualQueue {
    bands: [PriorityQueue<u64, usize>; 3],
    agents: Vec<Agent>,
    heartbeats: VecDeque<usize>,
    pushed: u64,
    /// The virtual time of the middle band: bytes sent by the agent that was served last.
    served: u64,
}

#[derive(Clone, Copy, Default, Debug)]
struct Agent {
    entry: Option<Handle>,
    /// The band of the entry, or of the last one.
    band: Band,
    /// Bytes sent in the middle band, in its virtual time.
    sent: u64,
    has_heartbeat: bool,
}

impl DualQueue {
    pub fn new(capacity: usize) -> DualQueue {
        DualQueue {
            bands: [(); 3].map(|()| PriorityQueue::with_capacity(capacity)),
            agents: vec![Agent::default(); capacity],
            heartbeats: VecDeque::with_capacity(capacity),
            pushed: 0,
            served: 0,
        }
    }

    /// A new agent has this number.
    pub fn reset(&mut self, agent: usize) {
        self.remove(agent);
        self.agents[agent].sent = 0;
    }

    /// The agent is ready. In the upper and the lower band, the least `level` goes first.
    pub fn push(&mut self, agent: usize, band: Band, level: u64) {
        self.remove(agent);
        self.pushed += 1;
        let state = &mut self.agents[agent];
        let key = match band {
            Band::Middle => {
                // An agent gets no credit for the time that it was away.
                state.sent = state.sent.max(self.served);
                state.sent
            }
            _ => level,
        };
        state.band = band;
        // The band has room: each agent is in one band at a time.
        state.entry = self.bands[band as usize].push(key, agent).ok();
    }

    /// The agent is no longer ready.
    pub fn remove(&mut self, agent: usize) {
        let Agent { entry, band, .. } = &mut self.agents[agent];
        if let Some(entry) = entry.take() {
            self.bands[*band as usize].remove(entry);
        }
    }

    /// Counts pushes: the number changes each time an agent becomes ready.
    pub fn pushed(&self) -> u64 {
        self.pushed
    }

    /// Whether an agent is ready.
    pub fn holds_any(&self) -> bool {
        self.bands.iter().any(|band| !band.is_empty())
    }

    /// Whether an agent is ready in this band.
    pub fn holds(&self, band: Band) -> bool {
        !self.bands[band as usize].is_empty()
    }

    /// The level of the agent that goes next in a band.
    pub fn first_level(&self, band: Band) -> Option<u64> {
        self.bands[band as usize].peek().map(|(level, _)| level)
    }

    /// Removes the agent that goes next.
    pub fn pop(&mut self) -> Option<(usize, Band)> {
        let next = |band: Band| self.bands[band as usize].pop().map(|next| (next, band));
        let ((key, agent), band) = [Band::Upper, Band::Middle, Band::Lower].into_iter().find_map(next)?;
        self.agents[agent].entry = None;
        if band == Band::Middle {
            self.served = key;
        }
        Some((agent, band))
    }

    /// Accounts the bytes that the agent sent which was removed last.
    pub fn charge(&mut self, agent: usize, bytes: usize) {
        if self.agents[agent].band == Band::Middle {
            self.agents[agent].sent += bytes as u64;
        }
    }

    /// The agent has a heartbeat to send.
    pub fn push_heartbeat(&mut self, agent: usize) {
        if !std::mem::replace(&mut self.agents[agent].has_heartbeat, true) {
            self.heartbeats.push_back(agent);
        }
    }

    /// The next agent that has a heartbeat to send.
    pub fn pop_heartbeat(&mut self) -> Option<usize> {
        let agent = self.heartbeats.pop_front()?;
        self.agents[agent].has_heartbeat = false;
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
                prop_assert_eq!(queue.holds_any(), ready.contains(&true));
            }
        }
    }

    #[test]
    fn an_agent_that_was_away_gets_no_credit() {
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
