//! Wrong passwords by address. A password is hashed on the thread of its request, so a client that
//! guesses would keep that thread from others, more urgent ones among them.

use isorb_rt::sync::PiMutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// Wrong passwords of an address that are looked at without a pause.
pub(crate) const FREE: u32 = 5;
/// The pause after each further one.
const PAUSE: Duration = Duration::from_secs(10);
/// After so long without a wrong one, all are forgotten.
const MEMORY: Duration = Duration::from_secs(600);
/// The most addresses that are kept. The one with the oldest wrong password gives way.
const MOST: usize = 1024;

/// The wrong passwords of addresses; peers without one share an entry.
#[derive(Default)]
pub(crate) struct Guesses(PiMutex<HashMap<Option<IpAddr>, Wrong>>);

struct Wrong {
    count: u32,
    /// The time of the last one, in nanoseconds of the monotonic clock.
    last: u64,
    /// They were wrong for the passwords of this generation.
    generation: u64,
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Guesses {
    /// How long passwords of this address are not looked at.
    pub fn pause(&self, peer: Option<IpAddr>, generation: u64, now: u64) -> Option<Duration> {
        let guesses = self.0.lock();
        let wrong =
            guesses.get(&peer).filter(|wrong| wrong.count >= FREE && wrong.generation == generation)?;
        let left = wrong.last.saturating_add(ns(PAUSE)).saturating_sub(now);
        (left > 0).then(|| Duration::from_nanos(left))
    }

    /// Counts a wrong one.
    pub fn wrong(&self, peer: Option<IpAddr>, generation: u64, now: u64) {
        let mut guesses = self.0.lock();
        if guesses.len() >= MOST && !guesses.contains_key(&peer) {
            let oldest = guesses.iter().min_by_key(|(_, wrong)| wrong.last).map(|(peer, _)| *peer);
            oldest.map(|peer| guesses.remove(&peer));
        }
        let wrong = guesses.entry(peer).or_insert(Wrong { count: 0, last: now, generation });
        if now.saturating_sub(wrong.last) > ns(MEMORY) || wrong.generation != generation {
            wrong.count = 0;
        }
        wrong.count = wrong.count.saturating_add(1);
        (wrong.last, wrong.generation) = (now, generation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn at(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([10, 0, 0, last]))
    }

    #[test]
    fn one_that_guesses_has_to_pause_and_others_have_not() {
        let guesses = Guesses::default();
        (0..FREE - 1).for_each(|_| guesses.wrong(at(1), 1, 0));
        assert_eq!(guesses.pause(at(1), 1, 0), None);
        guesses.wrong(at(1), 1, 0);
        assert_eq!(guesses.pause(at(1), 1, 0), Some(PAUSE));
        assert_eq!(guesses.pause(at(1), 1, 9 * SECOND), Some(Duration::from_secs(1)));
        assert_eq!((guesses.pause(at(2), 1, 0), guesses.pause(None, 1, 0)), (None, None));
        assert_eq!(guesses.pause(at(1), 2, 0), None, "other passwords are in force");
        // One after each pause.
        assert_eq!(guesses.pause(at(1), 1, 10 * SECOND), None);
        guesses.wrong(at(1), 1, 10 * SECOND);
        assert_eq!(guesses.pause(at(1), 1, 10 * SECOND), Some(PAUSE));
        guesses.wrong(at(1), 1, 1_000 * SECOND);
        assert_eq!(guesses.pause(at(1), 1, 1_000 * SECOND), None, "the earlier ones are forgotten");
    }

    #[test]
    fn the_memory_is_bounded() {
        let guesses = Guesses::default();
        for number in 0..2 * MOST as u64 {
            guesses.wrong(Some(IpAddr::from((number as u32).to_be_bytes())), 1, number);
        }
        assert_eq!(guesses.0.lock().len(), MOST);
    }
}
