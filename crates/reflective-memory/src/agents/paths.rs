//! The choice between two paths of a channel's datagrams.
//!
//! The sender sends heartbeats on both paths. The receiver sees which of them fails, and sends on
//! both the one that it wants. Neither waits for an answer. The choice is repeated at intervals
//! while it is not the first path, and pushes that arrived on both are put in order by the
//! receiver. Choices are numbered, so one that is late or replayed has no effect. After the return
//! to the first path the choice is repeated while pushes arrive by the other one, or are lost.

use super::config::{SecondPath, Via};
use std::net::SocketAddr;

/// How long the first path must work before it is used again.
const GOOD_NS: u64 = 1_000_000_000;
/// The interval at which a choice is repeated.
const REPEAT_NS: u64 = 100_000_000;
/// The number of repetitions after a return to the first path.
const TIMES: u32 = 20;

/// A receiver's view of the two paths.
#[derive(Debug)]
pub(super) struct Paths {
    peers: [SocketAddr; 2],
    after_ns: u64,
    arrived_ns: [u64; 2],
    /// Since when datagrams have arrived by the first path without a gap.
    good_since_ns: u64,
    wanted: Via,
    send_at_ns: u64,
    left: u32,
    /// The number of choices that were sent, and the time of the last.
    choices: u64,
    sent_ns: u64,
    check_at_ns: u64,
    pub switches: u64,
}

impl Paths {
    pub fn new(first: SocketAddr, second: SecondPath, now_ns: u64) -> Paths {
        Paths {
            peers: [first, second.peer],
            after_ns: second.after_ns,
            arrived_ns: [now_ns; 2],
            good_since_ns: now_ns,
            wanted: Via::First,
            send_at_ns: u64::MAX,
            left: 0,
            choices: 0,
            sent_ns: 0,
            check_at_ns: now_ns.saturating_add(second.after_ns),
            switches: 0,
        }
    }

    pub fn begin(&mut self, now_ns: u64) {
        self.arrived_ns = [now_ns; 2];
        self.good_since_ns = now_ns;
        self.check_at_ns = now_ns.saturating_add(self.after_ns);
    }

    /// The path of a datagram from this address.
    pub fn of(&self, from: SocketAddr) -> Option<Via> {
        match () {
            () if from == self.peers[0] => Some(Via::First),
            () if from == self.peers[1] => Some(Via::Second),
            () => None,
        }
    }

    /// The sender's address on a path.
    pub fn peer(&self, via: Via) -> SocketAddr {
        self.peers[via as usize]
    }

    pub fn received(&mut self, via: Via, now_ns: u64) {
        if via == Via::First && now_ns.saturating_sub(self.arrived_ns[0]) >= self.after_ns {
            self.good_since_ns = now_ns;
        }
        self.arrived_ns[via as usize] = now_ns;
    }

    /// The chosen path.
    pub fn wanted(&self) -> Via {
        self.wanted
    }

    /// The number of the last choice, from 1.
    pub fn choices(&self) -> u64 {
        self.choices
    }

    /// The sender may have missed the choice, so it is repeated, at the usual interval.
    pub fn announce_again(&mut self, now_ns: u64) {
        if self.send_at_ns == u64::MAX {
            self.left = 1;
            self.send_at_ns = now_ns.max(self.sent_ns.saturating_add(REPEAT_NS));
        }
    }

    fn works(&self, via: Via, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.arrived_ns[via as usize]) < self.after_ns
    }

    /// The choice to send now, if any.
    pub fn look(&mut self, now_ns: u64) -> Option<Via> {
        let (first, second) = (self.works(Via::First, now_ns), self.works(Via::Second, now_ns));
        let wanted = match self.wanted {
            Via::First if !first && second => Via::Second,
            Via::Second if first && (!second || now_ns.saturating_sub(self.good_since_ns) >= GOOD_NS) => {
                Via::First
            }
            same => same,
        };
        if wanted != self.wanted {
            self.wanted = wanted;
            self.switches += 1;
            self.send_at_ns = now_ns;
            self.left = TIMES;
        }
        self.check_at_ns = self.check_at(now_ns);
        if now_ns < self.send_at_ns {
            return None;
        }
        (self.choices, self.sent_ns) = (self.choices + 1, now_ns);
        self.left = self.left.saturating_sub(u32::from(self.wanted == Via::First));
        self.send_at_ns = if self.left == 0 { u64::MAX } else { now_ns + REPEAT_NS };
        Some(self.wanted)
    }

    /// The time of the next check if no datagram arrives; later than the last check.
    pub fn next_check(&self) -> u64 {
        self.send_at_ns.min(self.check_at_ns)
    }

    fn check_at(&self, now_ns: u64) -> u64 {
        let fails_at = |via: Via| match self.works(via, now_ns) {
            true => self.arrived_ns[via as usize].saturating_add(self.after_ns),
            // Nothing changes until a datagram arrives.
            false => u64::MAX,
        };
        let good_at = self.good_since_ns.saturating_add(GOOD_NS);
        match self.wanted {
            Via::First => fails_at(Via::First),
            Via::Second if good_at > now_ns => good_at.min(fails_at(Via::Second)),
            Via::Second => fails_at(Via::Second),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_path_that_falls_silent_is_left_and_taken_again_when_it_has_been_good() {
        let [first, second] = [1, 2].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let mut paths = Paths::new(first, SecondPath { peer: second, after_ns: 250 * MS }, 0);
        assert_eq!((paths.of(first), paths.of(second)), (Some(Via::First), Some(Via::Second)));
        assert_eq!(paths.of(SocketAddr::from(([127, 0, 0, 1], 3))), None);
        let mut choices = Vec::new();
        for round in 1..=50u64 {
            let now = round * 100 * MS;
            // The first path is cut from 1 s to 2 s.
            if !(10..20).contains(&round) {
                paths.received(Via::First, now);
            }
            paths.received(Via::Second, now);
            if let Some(via) = paths.look(now) {
                choices.push((round, via));
            }
        }
        let (left, _) = choices[0];
        assert_eq!(left, 12, "the third silent round");
        let back = choices.iter().find(|(_, via)| *via == Via::First).unwrap().0;
        assert_eq!(back, 30, "good for a second");
        assert_eq!(choices.iter().filter(|(_, via)| *via == Via::Second).count() as u64, back - left);
        assert_eq!((choices.len(), paths.switches), ((back - left) as usize + TIMES as usize, 2));
        // Repeated at a tenth of a second while the sender seems to have missed it.
        let now = 5_000 * MS;
        paths.received(Via::First, now);
        paths.received(Via::Second, now);
        assert_eq!((paths.look(now), paths.choices()), (None, choices.len() as u64));
        let again = |paths: &mut Paths, now| {
            paths.announce_again(now);
            paths.look(now)
        };
        assert_eq!(again(&mut paths, now), Some(Via::First));
        assert_eq!(again(&mut paths, now + 99 * MS), None);
        assert_eq!(paths.next_check(), now + 100 * MS);
        assert_eq!(again(&mut paths, now + 100 * MS), Some(Via::First));
        assert_eq!((paths.look(now + 201 * MS), paths.choices()), (None, choices.len() as u64 + 2));
        // Both are silent: there is no choice to make, and no check to wait for.
        assert_eq!(paths.look(60_000 * MS), None);
        assert_eq!(paths.next_check(), u64::MAX);
    }
}
