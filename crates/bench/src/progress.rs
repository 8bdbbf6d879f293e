//! How far a long run is, and how much time is left: a bar where standard error is a terminal, a
//! line now and then where it is none.

use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Between two lines.
const LINES_APART: Duration = Duration::from_secs(20);

/// The progress of a run; threads share it.
pub struct Progress {
    bar: ProgressBar,
    begin: Instant,
    whole: Whole,
    last_line: Mutex<Option<Instant>>,
}

enum Whole {
    /// As long as it should take.
    Time(Duration),
    /// All steps, and those that were made.
    Steps(u64, AtomicU64),
}

impl Progress {
    /// Of a run that should take this long.
    pub fn over(length: Duration) -> Progress {
        Progress::new(u64::try_from(length.as_millis()).unwrap_or(u64::MAX), Whole::Time(length))
    }

    /// Of a run with so many steps, which take about as long as each other.
    pub fn of_steps(steps: u64) -> Progress {
        Progress::new(steps, Whole::Steps(steps, AtomicU64::new(0)))
    }

    fn new(end: u64, whole: Whole) -> Progress {
        let bar = ProgressBar::new(end);
        // A template that does not parse leaves the usual one.
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {msg}") {
            bar.set_style(style);
        }
        Progress { bar, begin: Instant::now(), whole, last_line: Mutex::new(None) }
    }

    /// Says what is done now, and how much time is left.
    pub fn show(&self, what: impl Display) {
        let done = self.begin.elapsed();
        let (position, text) = match &self.whole {
            Whole::Time(length) => {
                let position = u64::try_from(done.as_millis()).unwrap_or(u64::MAX);
                (position, format!("{what}, {}", left(done, *length)))
            }
            Whole::Steps(all, made) => {
                let made = made.load(Ordering::Relaxed);
                let text = match length_of(done, made, *all) {
                    Some(length) => format!("{made} of {all}, {what}, {}", left(done, length)),
                    None => format!("{made} of {all}, {what}"),
                };
                (made, text)
            }
        };
        self.bar.set_position(position);
        if self.bar.is_hidden() {
            let mut last = self.last_line.lock().unwrap_or_else(PoisonError::into_inner);
            if last.is_none_or(|last| last.elapsed() > LINES_APART) {
                eprintln!("{text}");
                *last = Some(Instant::now());
            }
        }
        self.bar.set_message(text);
    }

    /// One more step was made: says what it was.
    pub fn step(&self, what: impl Display) {
        if let Whole::Steps(_, made) = &self.whole {
            made.fetch_add(1, Ordering::Relaxed);
        }
        self.show(what);
    }

    /// Prints while the bar steps aside.
    pub fn suspend<R>(&self, f: impl FnOnce() -> R) -> R {
        self.bar.suspend(f)
    }

    /// Ends the showing.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// How long all steps take if the others take as long as those that were made.
fn length_of(done: Duration, made: u64, all: u64) -> Option<Duration> {
    let share = all as f64 / made as f64;
    share.is_finite().then(|| done.mul_f64(share))
}

fn left(done: Duration, length: Duration) -> String {
    match length.checked_sub(done) {
        Some(left) if left.as_secs() >= 120 => format!("{} min left", left.as_secs().div_ceil(60)),
        Some(left) => format!("{} s left", left.as_secs()),
        None => format!("{} s longer than planned", (done - length).as_secs()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_follows_from_the_steps_that_were_made() {
        let after = |seconds, made| {
            let done = Duration::from_secs(seconds);
            length_of(done, made, 10).map(|length| left(done, length))
        };
        assert_eq!(after(5, 0), None);
        assert_eq!(after(60, 1).as_deref(), Some("9 min left"));
        assert_eq!(after(60, 9).as_deref(), Some("6 s left"));
        assert_eq!(after(60, 10).as_deref(), Some("0 s left"));
    }

    #[test]
    fn the_time_left_is_said() {
        let of = |done, length| left(Duration::from_secs(done), Duration::from_secs(length));
        assert_eq!(
            [of(5, 60), of(0, 901), of(70, 60)],
            ["55 s left", "16 min left", "10 s longer than planned"]
        );
    }
}
