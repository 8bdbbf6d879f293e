//! The queue of push agents: three bands, each one of the bounded priority queues of the workspace.

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
/// The bands are [`PriorityQueue`]s. This type adds the order of the bands, the fairness by octets
/// in the middle one, and the heartbeats.
///
/// # Real-time
/// Allocates nothing while the agents' numbers are below the capacity.
#[derive(Debug)]
pub(super) struct DualPriorityQueue {
    bands: [PriorityQueue<u64, usize>; 3],
    agents: Vec<Agent>,
    heartbeats: VecDeque<usize>,
    pushed: u64,
    /// The virtual time of the middle band, in octets: the latest begin of a slice that was served.
    served: u64,
}

/// Most octets that an agent of the middle band sends before others of that band get their turn.
/// Values up to this length go out one after another: datagrams of several values in turn would let
/// all of them end as late as the last one.
const SLICE: u64 = 64 * 1024;

#[derive(Clone, Copy, Default, Debug)]
struct Agent {
    entry: Option<Handle>,
    /// The band of the entry, or of the last one.
    band: Band,
    /// Octets sent in the middle band, in its virtual time.
    sent: u64,
    /// What it sends next in the middle band.
    slice: Option<Slice>,
    /// Octets that are left of its value, after the first slice has begun.
    left: Option<u64>,
    has_heartbeat: bool,
}

/// A value of the middle band, or a part of a long one.
#[derive(Clone, Copy, Debug)]
struct Slice {
    /// In virtual time.
    begin: u64,
    end: u64,
    is_begun: bool,
}

impl Slice {
    /// The slice that would end first goes first, and before its equals when it has begun.
    fn key(self) -> u64 {
        self.end.saturating_mul(2).saturating_add(u64::from(!self.is_begun))
    }
}

impl DualPriorityQueue {
    pub fn new(capacity: usize) -> DualPriorityQueue {
        DualPriorityQueue {
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
        self.end_value(agent);
    }

    /// The agent is ready. In the upper and the lower band, the least `level` goes first; in the
    /// middle band it is the length of the value, in octets.
    pub fn push(&mut self, agent: usize, band: Band, level: u64) {
        self.remove(agent);
        self.pushed += 1;
        let state = &mut self.agents[agent];
        let key = match band {
            Band::Middle => {
                let next = || {
                    // An agent gets no credit for the time that it was away.
                    let begin = state.sent.max(self.served);
                    let octets = state.left.unwrap_or(level).clamp(1, SLICE);
                    Slice { begin, end: begin + octets, is_begun: false }
                };
                let slice = state.slice.unwrap_or_else(next);
                (state.slice, state.sent) = (Some(slice), state.sent.max(slice.begin));
                state.left = state.left.or(Some(level));
                slice.key()
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
        let ((_, agent), band) = [Band::Upper, Band::Middle, Band::Lower].into_iter().find_map(next)?;
        let state = &mut self.agents[agent];
        state.entry = None;
        if band == Band::Middle
            && let Some(slice) = &mut state.slice
        {
            slice.is_begun = true;
            self.served = self.served.max(slice.begin);
        }
        Some((agent, band))
    }

    /// Accounts the octets that the agent sent which was removed last.
    pub fn charge(&mut self, agent: usize, octets: usize) {
        let state = &mut self.agents[agent];
        if state.band == Band::Middle {
            state.sent += octets as u64;
            state.left = state.left.map(|left| left.saturating_sub(octets as u64));
            state.slice = state.slice.filter(|slice| state.sent < slice.end);
        }
    }

    /// The agent's value is sent, or was abandoned.
    pub fn end_value(&mut self, agent: usize) {
        let state = &mut self.agents[agent];
        (state.slice, state.left) = (None, None);
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
        let mut queue = DualPriorityQueue::new(8);
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
        /// a slice of each.
        #[test]
        fn best_effort_is_fair_by_octets(values in prop::collection::vec(1u64..200_000, 2..8)) {
            let mut queue = DualPriorityQueue::new(values.len());
            let (mut sent, mut left) = (vec![0; values.len()], values.clone());
            (0..values.len()).for_each(|agent| queue.push(agent, Band::Middle, values[agent]));
            for _ in 0..4000 {
                let agent = send(&mut queue, &mut left);
                sent[agent] += 1_000;
                if left[agent] == 0 {
                    queue.end_value(agent);
                    left[agent] = values[agent];
                }
                queue.push(agent, Band::Middle, values[agent]);
            }
            let (least, most) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
            // What a short value wastes of a datagram counts, too.
            prop_assert!(most - least <= 2 * SLICE + 2_000, "{sent:?}");
        }

        #[test]
        fn an_agent_is_in_it_once(steps in prop::collection::vec((0usize..4, 0u8..4), 0..300)) {
            let mut queue = DualPriorityQueue::new(4);
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

    /// Sends a datagram of 1,000 octets, or a shorter last one, of the next agent's value.
    fn send(queue: &mut DualPriorityQueue, left: &mut [u64]) -> usize {
        let (agent, _) = queue.pop().unwrap();
        left[agent] = left[agent].saturating_sub(1_000);
        queue.charge(agent, 1_000);
        agent
    }

    /// The agents in the order in which their values end.
    fn ends(values: &[u64], late: &[(usize, u64)]) -> Vec<usize> {
        let mut queue = DualPriorityQueue::new(values.len() + late.len());
        let (mut left, mut ended) = (values.to_vec(), Vec::new());
        (0..values.len()).for_each(|agent| queue.push(agent, Band::Middle, values[agent]));
        for sent in 0.. {
            for (agent, (_, value)) in late.iter().enumerate().filter(|(_, (at, _))| *at == sent) {
                left.push(*value);
                queue.push(values.len() + agent, Band::Middle, *value);
            }
            if !queue.holds_any() {
                break;
            }
            let agent = send(&mut queue, &mut left);
            if left[agent] > 0 {
                queue.push(agent, Band::Middle, left[agent]);
            } else {
                queue.end_value(agent);
                ended.push(agent);
            }
        }
        ended
    }

    #[test]
    fn equal_values_are_sent_one_after_another() {
        let mut queue = DualPriorityQueue::new(3);
        let mut left = [8_000; 3];
        (0..3).for_each(|agent| queue.push(agent, Band::Middle, 8_000));
        let mut order = Vec::new();
        while queue.holds_any() {
            let agent = send(&mut queue, &mut left);
            order.push(agent);
            match left[agent] {
                0 => queue.end_value(agent),
                left => queue.push(agent, Band::Middle, left),
            }
        }
        assert!(order.is_sorted() && order.len() == 24, "{order:?}");
    }

    #[test]
    fn a_short_value_that_comes_later_goes_between() {
        assert_eq!(ends(&[30_000, 30_000], &[(3, 2_000)]), [2, 0, 1]);
        // A long one lets others in after a slice.
        assert_eq!(ends(&[1_000_000], &[(3, 60_000), (3, 64_000)]), [1, 2, 0]);
    }

    #[test]
    fn an_agent_that_was_away_gets_no_credit() {
        let mut queue = DualPriorityQueue::new(2);
        let serve = |queue: &mut DualPriorityQueue| {
            let agent = send(queue, &mut [0, 0]);
            queue.end_value(agent);
            agent
        };
        for _ in 0..10 {
            queue.push(0, Band::Middle, 1_000);
            serve(&mut queue);
        }
        (0..2).for_each(|agent| queue.push(agent, Band::Middle, 1_000));
        let mut first = 0;
        for _ in 0..10 {
            let agent = serve(&mut queue);
            first += usize::from(agent == 0);
            queue.push(agent, Band::Middle, 1_000);
        }
        assert!((4..=6).contains(&first), "{first}");
    }
}
