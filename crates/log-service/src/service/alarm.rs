//! What the process's log says about the space of this one: once when it fills, once when it is
//! full, and again only after it had space meanwhile.

use super::TARGET;
use crate::store::{FullAction, Settings};
use isorb_rt::log;
use std::sync::atomic::{AtomicU8, Ordering};

/// How far below the alarm, in percent, the size must fall before the alarm is raised again.
const HYSTERESIS: u8 = 10;

const SPACE: u8 = 0;
const FILLS: u8 = 1;
const FULL: u8 = 2;

/// What was said.
pub struct Alarm {
    percent: u8,
    state: AtomicU8,
}

impl Alarm {
    pub fn new(percent: u8) -> Alarm {
        Alarm { percent, state: AtomicU8::new(SPACE) }
    }

    /// Takes note of the size after a change. `is_full`: a record found no space. Returns whether
    /// something was said.
    pub fn update(&self, size: u64, settings: Settings, is_full: bool) -> bool {
        let part = |percent: u8| u128::from(settings.max_size) * u128::from(percent) / 100;
        let now = match u128::from(size) {
            _ if is_full => FULL,
            size if size >= part(self.percent) => FILLS,
            size if size >= part(self.percent.saturating_sub(HYSTERESIS)) => return false,
            _ => {
                self.state.store(SPACE, Ordering::Relaxed);
                return false;
            }
        };
        // Two threads that find the same say it once.
        let is_new = self.state.fetch_max(now, Ordering::Relaxed) < now;
        if is_new {
            report(size, settings, is_full);
        }
        is_new
    }
}

fn report(size: u64, settings: Settings, is_full: bool) {
    let max = settings.max_size;
    match (is_full, settings.full_action) {
        (false, _) => log::warn(
            TARGET,
            format_args!("the log has {size} of {max} octets; `isorb log set --max-size` makes it larger"),
        ),
        (true, FullAction::Wrap) => log::warn(
            TARGET,
            format_args!("the log is full with {max} octets: new records replace the oldest from now on"),
        ),
        (true, FullAction::Halt) => log::error(
            TARGET,
            format_args!(
                "the log is full with {max} octets: new records are discarded until it is cleared, \
                 larger (`isorb log set --max-size`), or wraps (`--full-action wrap`)"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_is_said_once_until_there_is_space_again() {
        let settings = Settings { max_size: 1000, full_action: FullAction::Halt };
        let alarm = Alarm::new(80);
        assert!(!alarm.update(799, settings, false));
        assert!(alarm.update(800, settings, false));
        assert!(!alarm.update(900, settings, false));
        assert!(alarm.update(990, settings, true));
        assert!(!alarm.update(990, settings, true));
        // A little less is no space yet.
        assert!(!alarm.update(750, settings, false));
        assert!(!alarm.update(850, settings, false));
        assert!(!alarm.update(699, settings, false));
        assert!(alarm.update(800, settings, false));
        let largest = Settings { max_size: u64::MAX, ..settings };
        assert!(!Alarm::new(100).update(u64::MAX - 1, largest, false));
    }
}
