//! `isorb-bench soak`: all services for hours, while clients come and go, processes are killed, the
//! disk is filled and emptied, and a link is unplugged.
//!
//! Each service has two processes, with their files on the small disk. The steady one is never
//! killed, and its memory, descriptors and threads must stay flat. The other is killed every few
//! seconds, also while the disk is full, and must keep what it acknowledged.

mod disk;
mod driver;
mod links;
mod page;
mod samples;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;

use crate::experiments::BenchError;
use crate::faults::campaign::into_page;
use crate::faults::circumstances;
use crate::faults::subjects::Subject;
use crate::process::Launcher;
use crate::progress::Progress;
use disk::Disk;
use driver::{Driver, Life};
use links::Links;
use samples::Samples;

/// Lines between which the page on reliability has the result.
const BEGIN: &str = "<!-- isorb-bench soak: begin -->";
const END: &str = "<!-- isorb-bench soak: end -->";

/// How long, and where the result goes.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Hours, or a fraction of one
    #[arg(long, default_value_t = 1.0, value_parser = hours)]
    hours: f64,
    /// Seconds between two kills of a service
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    kill_every: u64,
    /// Seconds from one filling of the disk to the next; it stays full for a sixth of them
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(12..=86_400))]
    fill_every: u64,
    /// The page with the plots
    #[arg(long, value_name = "FILE", default_value = "isorb-soak.html")]
    output: PathBuf,
    /// The program isorb; that beside this program if not given
    #[arg(long, value_name = "FILE")]
    isorb: Option<PathBuf>,
    /// Puts the result between the marks of this page, which is docs/reference/reliability.md
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

fn hours(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(hours) if (0.001..=10_000.0).contains(&hours) => Ok(hours),
        _ => Err("expected 0.001 to 10000 hours".to_owned()),
    }
}

/// What drivers share.
#[derive(Debug)]
pub struct Run {
    pub launcher: Launcher,
    pub isorb: PathBuf,
    pub kill_every: Duration,
    pub ends: AtomicBool,
    /// Whether the disk is full, or was a moment ago.
    pub is_full: AtomicBool,
}

/// Runs the soak in a namespace with a small disk where one can be made, and reports.
///
/// # Errors
/// Where isorb is missing, a service does not start, a promise did not hold, or something grew.
pub fn run(launcher: &Launcher, options: &Options) -> Result<(), BenchError> {
    let isorb = crate::faults::isorb(options.isorb.as_ref())?;
    let folder = tempfile::tempdir()?;
    let small = match Disk::inherited() {
        Some(disk) => Some(disk),
        // This returns only if there can be no such namespace.
        None => disk::enter(folder.path()).map(|()| None)?,
    };
    let mut notes = Vec::new();
    let stores = small.as_ref().map_or(folder.path(), Disk::folder);
    if small.is_none() {
        notes.push("no mount namespace can be made here, so that no disk was full".to_owned());
    }
    let run = Arc::new(Run {
        launcher: launcher.clone(),
        isorb,
        kill_every: Duration::from_secs(options.kill_every),
        ends: AtomicBool::new(false),
        is_full: AtomicBool::new(false),
    });
    let length = Duration::from_secs_f64(options.hours * 3_600.0);
    let (drivers, links) = start(&run, stores, folder.path(), &mut notes)?;
    let samples = watch(&run, options, length, small.as_ref(), &drivers);
    run.ends.store(true, Ordering::Relaxed);
    let reports: Vec<driver::Report> = drivers.into_iter().map(Driver::finish).collect();
    let linked = links.map(Links::finish);
    let flat = samples.judge();
    let text = page::summary(length, &circumstances(), &reports, linked.as_ref(), &flat, &notes);
    println!("{text}");
    std::fs::write(&options.output, page::html(&text, &samples).map_err(std::io::Error::from)?)?;
    println!("the plots are in {}", options.output.display());
    if let Some(page) = &options.page {
        into_page(page, BEGIN, END, &text)?;
    }
    let broken = reports.iter().flat_map(|report| report.broken.clone());
    let broken = broken.chain(linked.into_iter().flat_map(|report| report.broken));
    let grew = flat.iter().filter(|one| !one.is_flat()).map(ToString::to_string);
    let all: Vec<String> = broken.chain(grew).collect();
    if all.is_empty() { Ok(()) } else { Err(BenchError::Service(all.join("\n"))) }
}

/// Two drivers for each service, and the nodes with a link between them.
fn start(
    run: &Arc<Run>,
    stores: &Path,
    other: &Path,
    notes: &mut Vec<String>,
) -> Result<(Vec<Driver>, Option<Links>), BenchError> {
    let mut drivers = Vec::new();
    for (number, subject) in (0..).step_by(2).zip(Subject::ALL) {
        for (life, room) in [(Life::Steady, number), (Life::Killed, number + 1)] {
            let folder = stores.join(format!("{subject}-{room}"));
            std::fs::create_dir(&folder)?;
            let driver = Driver::start(run, subject, life, &folder, room);
            drivers.push(driver.map_err(|why| BenchError::Service(format!("{subject}: {why}")))?);
        }
    }
    let links = Links::start(run, other);
    let links = links.map_err(|why| notes.push(format!("no link was unplugged: {why}"))).ok();
    Ok((drivers, links))
}

/// Samples, fills and empties the disk, and shows how much time is left.
fn watch(run: &Run, options: &Options, length: Duration, disk: Option<&Disk>, drivers: &[Driver]) -> Samples {
    // At most some thousand points in a plot.
    let interval = Duration::from_secs(1).max(length / 4_000);
    let progress = Progress::over(length);
    let (start, mut samples) = (Instant::now(), Samples::default());
    let mut filling = None;
    while start.elapsed() < length {
        std::thread::sleep(interval.min(length.saturating_sub(start.elapsed())));
        let elapsed = start.elapsed();
        let in_turn = elapsed.as_secs() % options.fill_every;
        // The first turn is without, and the last one: all have to be back at the end.
        let may = elapsed.as_secs() > options.fill_every / 3 && elapsed + Duration::from_secs(10) < length;
        let full = may && (options.fill_every / 3..options.fill_every / 2).contains(&in_turn);
        match (disk, full, filling.is_some()) {
            (Some(disk), true, false) => {
                run.is_full.store(true, Ordering::Relaxed);
                filling = disk.fill().ok();
            }
            (_, false, true) => {
                filling = None;
                run.is_full.store(false, Ordering::Relaxed);
            }
            _ => {}
        }
        for driver in drivers {
            if let Some((subject, usage)) = driver.usage() {
                samples.add(subject, elapsed, usage);
            }
        }
        let acknowledged: u64 = drivers.iter().map(Driver::acknowledged).sum();
        progress.show(format_args!("{acknowledged} writes acknowledged"));
    }
    progress.finish();
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_of_hours_are_taken_and_nonsense_is_not() {
        assert_eq!(hours("0.25"), Ok(0.25));
        for wrong in ["", "0", "-1", "NaN", "inf", "1e9", "one"] {
            assert!(hours(wrong).is_err(), "{wrong}");
        }
    }
}
