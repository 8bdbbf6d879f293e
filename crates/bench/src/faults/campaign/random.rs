//! `isorb-bench campaign --random N`: each service is killed at a random moment under load, again
//! and again. What it acknowledged is there after each restart.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::trial::{self, Setting};
use crate::experiments::BenchError;
use crate::faults::circumstances;
use crate::faults::subjects::Subject;
use crate::progress::Progress;

/// Lines between which the page has the result.
pub const BEGIN: &str = "<!-- isorb-bench campaign --random: begin -->";
pub const END: &str = "<!-- isorb-bench campaign --random: end -->";

/// The longest time under load.
const LOAD: Duration = Duration::from_millis(400);

/// What became of one service.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rounds {
    /// Rounds that ended with a kill and a restart with all that was acknowledged.
    pub held: u32,
    /// Writes that were acknowledged, and those that were taken back.
    pub acknowledged: u64,
    pub removed: u64,
    /// Reads after restarts.
    pub read: u64,
    /// Why the rounds ended early.
    pub broken: Option<String>,
}

/// Numbers without a pattern, the same for the same seed.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// A moment under load.
    pub fn moment(&mut self) -> Duration {
        // The generator `splitmix64`.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Duration::from_nanos((mixed ^ (mixed >> 31)) % LOAD.as_nanos() as u64)
    }
}

/// Runs the rounds of all services at the same time. Gives the result as text, and the broken
/// promises.
///
/// # Errors
/// Never for a broken promise: they are in the result.
pub fn run(
    setting: &Setting,
    subjects: &[Subject],
    rounds: u32,
    seed: u64,
) -> (String, Result<(), BenchError>) {
    let progress = Progress::of_steps(u64::from(rounds) * subjects.len() as u64);
    let all = Mutex::new(Vec::new());
    let number = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for subject in subjects {
            let (progress, all) = (&progress, &all);
            let room = number.fetch_add(1, Ordering::Relaxed);
            scope.spawn(move || {
                let mut random = Random(seed.wrapping_add(room));
                let killed = || progress.step(format_args!("{subject} killed"));
                let result = trial::rounds(setting, *subject, room as u32, rounds, &mut random, &killed);
                if let Some(why) = &result.broken {
                    progress.suspend(|| eprintln!("BROKEN {subject}, round {}: {why}", result.held));
                }
                all.lock().unwrap_or_else(PoisonError::into_inner).push((*subject, result));
            });
        }
    });
    progress.finish();
    let mut all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    all.sort_by_key(|(subject, _)| *subject);
    let broken: Vec<String> = all
        .iter()
        .filter_map(|(subject, result)| result.broken.as_ref().map(|why| format!("{subject}: {why}")))
        .collect();
    let verdict = if broken.is_empty() { Ok(()) } else { Err(BenchError::Service(broken.join("\n"))) };
    (text(rounds, seed, &all), verdict)
}

/// The result for people and for the page.
fn text(rounds: u32, seed: u64, all: &[(Subject, Rounds)]) -> String {
    let mut text = format!(
        "{rounds} rounds of each service, seed {seed}.\n{}.\n\n| service | killed | writes acknowledged | taken back | \
         read after restarts | rounds that held |\n|---|---|---|---|---|---|\n",
        circumstances()
    );
    for (subject, Rounds { held, acknowledged, removed, read, broken }) in all {
        let killed = held + u32::from(broken.is_some());
        // Writing to a String cannot fail.
        let _ = writeln!(text, "| {subject} | {killed} | {acknowledged} | {removed} | {read} | {held} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_spread_over_the_load_and_the_same_for_a_seed() {
        let moments = |seed| {
            let mut random = Random(seed);
            [(); 1000].map(|()| random.moment())
        };
        assert_eq!(moments(7), moments(7));
        assert_ne!(moments(7), moments(8));
        let early = moments(7).iter().filter(|moment| **moment < LOAD / 2).count();
        assert!((400..600).contains(&early), "{early} of 1000 are in the first half");
        assert!(moments(7).iter().all(|moment| *moment < LOAD));
    }

    #[test]
    fn a_round_that_broke_is_a_kill_that_did_not_hold() {
        let broken = Rounds { held: 4, acknowledged: 30, removed: 2, read: 20, broken: Some("lost".into()) };
        let text = text(9, 1, &[(Subject::Naming, broken)]);
        assert!(text.ends_with("| naming | 5 | 30 | 2 | 20 | 4 |\n"), "{text}");
    }
}
