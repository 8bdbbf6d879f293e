//! Faults that are made on purpose: the [campaign](mod@campaign) fails every system call of a
//! service in turn, and the [soak](mod@soak) runs all services for hours.
//!
//! ```text
//!   subjects   the services: how each is started, a write that it acknowledges, and its read
//!   daemon     a service as a process, with its log and what the kernel says of it
//!   strace     lists system calls, and makes one fail or its process end there
//!   limits     what the kernel gives a process no more of
//!   campaign   plan: which faults;  trial: one of them, and what must hold;  table: what held
//!   soak       churn, kills, full disks, an unplugged link; samples, flatness, the page
//! ```
//!
//! The services are those of the program `isorb`, as users run them. The clients are in this
//! process.

mod campaign;
mod daemon;
mod limits;
mod soak;
mod strace;
mod subjects;

pub use campaign::{Options as CampaignOptions, run as campaign};
pub use soak::{Options as SoakOptions, run as soak};

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::experiments::BenchError;
use crate::machine::Machine;

/// The program `isorb`: the named one, or the one beside this program.
fn isorb(named: Option<&PathBuf>) -> Result<PathBuf, BenchError> {
    let beside = || Some(std::env::current_exe().ok()?.with_file_name("isorb"));
    let program = named.cloned().or_else(beside).filter(|program| program.is_file());
    program.ok_or_else(|| {
        BenchError::Service(
            "the program isorb is not there: build it (cargo build -p isorb-cli), or name it with --isorb"
                .to_owned(),
        )
    })
}

/// The date, the machine and the build.
fn circumstances() -> String {
    let machine = Machine::read(None);
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    format!(
        "{}, kernel {},\n{}, {} processors, {} build",
        date((seconds / 86_400) as i64),
        machine.kernel,
        machine.processor.as_deref().unwrap_or("an unknown processor"),
        machine.cpus.len(),
        if cfg!(debug_assertions) { "debug" } else { "release" },
    )
}

/// The date of a day since 1970, by the calendar's periods of 400 years that begin in March.
fn date(days: i64) -> String {
    let day = days + 719_468;
    let (period, of_period) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (of_period - of_period / 1_460 + of_period / 36_524 - of_period / 146_096) / 365;
    let of_year = of_period - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * from_march + 2) / 5 + 1, (from_march + 2) % 12 + 1);
    format!("{}-{month:02}-{day:02}", year + period * 400 + i64::from(month <= 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dates() {
        for (days, expected) in
            [(0, "1970-01-01"), (59, "1970-03-01"), (11_016, "2000-02-29"), (20_781, "2026-11-24")]
        {
            assert_eq!(date(days), expected);
        }
    }
}
