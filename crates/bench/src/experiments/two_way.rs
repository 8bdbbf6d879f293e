//! `isorb-bench two-way`: how long a call takes, beside raw sockets and other ORBs.

use std::io::Write;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use isorb_rt::sched::{Need, RealTime};

use super::BenchError;
use crate::blocks::{Rounds, calibrate, interleave};
use crate::cases::Case;
use crate::machine::Machine;
use crate::process::Launcher;
use crate::report::{Placement, Row, table};
use crate::subjects::{PairScheduling, Programs, StoppedPair, Subject};

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// The subjects, in the order of the table.
    pub subjects: Vec<Subject>,
    /// The cases.
    pub cases: Vec<Case>,
    /// The placements; `None` is as many of both as the machine has processors for.
    pub placements: Option<Vec<Placement>>,
    /// How long the whole run may take, the start of the subjects included.
    pub length: Length,
    /// Whether subjects run at real-time priority.
    pub real_time: RealTime,
    /// Which native priority that is.
    pub priority: u8,
    /// JSON on standard output instead of the tables, which go to standard error then.
    pub json: bool,
}

/// How long a run takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Length {
    /// So long for each case and placement.
    Each(Duration),
    /// So long for everything, from the start of the program.
    All(Duration),
}

/// Measures, and prints as it goes.
pub fn run(launcher: &Launcher, options: &Options) -> Result<(), BenchError> {
    let begin = Instant::now();
    let need = Need { native_priority: options.priority, lock_memory: None };
    let granted = options.real_time.resolve(need).map_err(BenchError::NotRealTime)?;
    let fifo = granted.scheduling.then_some(options.priority);
    let machine = Machine::read(fifo);
    let placements = placements(options, &machine)?;
    let sink = Sink { json: options.json };
    sink.text(&format!("{machine}\n"));
    granted.missing().for_each(|missing| sink.text(&format!("{missing}\n")));

    if options.placements.is_none() && !placements.contains(&Placement::TwoCore) {
        sink.text("two-core: skipped, this process may use one processor only\n");
    }

    let mut absent = Vec::new();
    let mut present = Vec::new();
    for &subject in &options.subjects {
        match subject.programs(launcher) {
            Ok(programs) => present.push((subject, programs)),
            Err(missing) => absent.push((subject.name(), missing.to_string())),
        }
    }
    if present.is_empty() {
        absent.iter().for_each(|(subject, why)| sink.text(&format!("{subject}: {why}")));
        return Err(BenchError::NoSubject);
    }

    let cells = placements.len() * options.cases.len();
    let end = match options.length {
        Length::Each(each) => Instant::now() + each * u32::try_from(cells).unwrap_or(u32::MAX),
        Length::All(all) => begin + all,
    };
    let seconds = end.saturating_duration_since(Instant::now()).as_secs();
    sink.text(&format!("{cells} cases, about {seconds} s\n"));
    let mut clock = Clock::new(end, cells);
    for placement in placements {
        let scheduling = PairScheduling::of(placement, &machine);
        let start = |(subject, programs): &(Subject, Programs)| {
            StoppedPair::start(launcher, *subject, programs, scheduling)
        };
        let mut pairs = present.iter().map(start).collect::<Result<Vec<_>, _>>()?;
        for &case in &options.cases {
            clock.next(placement, case);
            let rows = measure(&mut pairs, placement, case, &mut clock, &mut absent)?;
            clock.bar.suspend(|| sink.rows(&rows, &absent, case))?;
            // What a connection's and a lane's buffers grow to depends on the sizes that follow.
            if case.size == 0 {
                clock.bar.suspend(|| sink.text(&(memory(&pairs) + &misplaced(&pairs))));
            }
        }
        pairs.into_iter().for_each(StoppedPair::end);
    }
    clock.bar.finish_and_clear();
    Ok(())
}

/// One case in one placement.
fn measure(
    pairs: &mut Vec<StoppedPair>,
    placement: Placement,
    case: Case,
    clock: &mut Clock,
    absent: &mut Vec<(&'static str, String)>,
) -> Result<Vec<Row>, BenchError> {
    // The control is the first: it decides how many calls a block has, for all.
    let control = pairs.iter().position(|pair| pair.subject == Subject::Raw);
    let first = pairs.get_mut(control.unwrap_or(0)).ok_or(BenchError::NoSubject)?;
    let block = calibrate(|block| first.block(block), case)?;
    let rounds = Rounds::until(clock.until);
    let all = interleave(pairs, rounds, |pair| pair.block(block), || clock.show());
    let mut rows = Vec::new();
    for (pair, series) in pairs.iter().zip(&all) {
        let subject = pair.subject.name();
        match series.failed {
            Some(error) if control.is_some() && pair.subject == Subject::Raw => return Err(error.into()),
            Some(error) => absent.push((subject, format!("failed: {error}"))),
            None => {
                let ratio = control.map(|i| series.ratio_to(&all[i])).filter(|ratio| !ratio.is_nan());
                rows.push(Row {
                    experiment: case.experiment(),
                    subject,
                    placement,
                    size: case.size,
                    times: series.samples.summary().rounded(),
                    ratio_to_raw_p50: ratio.map(|r| (r * 10_000.0).round() / 10_000.0),
                });
            }
        }
    }
    let mut keep = all.iter().map(|series| series.failed.is_none());
    pairs.retain(|_| keep.next().unwrap_or(false));
    if pairs.is_empty() { Err(BenchError::NoSubject) } else { Ok(rows) }
}

fn placements(options: &Options, machine: &Machine) -> Result<Vec<Placement>, BenchError> {
    let two = machine.cpus.len() >= 2;
    match &options.placements {
        Some(asked) if asked.contains(&Placement::TwoCore) && !two => Err(BenchError::NoPlacement),
        Some(asked) => Ok(asked.clone()),
        None if two => Ok(vec![Placement::OneCore, Placement::TwoCore]),
        None => Ok(vec![Placement::OneCore]),
    }
}

fn memory(pairs: &[StoppedPair]) -> String {
    let each = pairs.iter().filter_map(|pair| {
        let kib = pair.pair.server_resident_kib()?;
        Some(format!("{} {:.1} MiB", pair.subject, kib as f64 / 1024.0))
    });
    format!("  server's resident memory: {}\n", each.collect::<Vec<_>>().join(", "))
}

/// A line for each subject that has changed class or processor of its threads.
fn misplaced(pairs: &[StoppedPair]) -> String {
    let each = pairs.iter().filter_map(|pair| {
        let (misplaced, all) = pair.pair.misplaced_threads();
        let subject = pair.subject;
        (misplaced > 0)
            .then(|| format!("  {subject}: {misplaced} of {all} threads run at another place or priority\n"))
    });
    each.collect()
}

/// Shares the time out among the cases, and shows how much is left.
struct Clock {
    bar: ProgressBar,
    begin: Instant,
    end: Instant,
    cells: usize,
    until: Instant,
    what: String,
}

impl Clock {
    fn new(end: Instant, cells: usize) -> Clock {
        let begin = Instant::now();
        let length = end.saturating_duration_since(begin);
        let bar = ProgressBar::new(u64::try_from(length.as_millis()).unwrap_or(u64::MAX));
        // On standard error, and only if that is a terminal. A template that does not parse leaves
        // the usual one.
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {msg}") {
            bar.set_style(style);
        }
        Clock { bar, begin, end, cells, until: begin, what: String::new() }
    }

    fn next(&mut self, placement: Placement, case: Case) {
        let now = Instant::now();
        let left = self.end.saturating_duration_since(now);
        self.until = now + left / u32::try_from(self.cells.max(1)).unwrap_or(u32::MAX);
        self.cells = self.cells.saturating_sub(1);
        self.what = format!("{case}, {}", placement.name());
        self.show();
    }

    fn show(&self) {
        let now = Instant::now();
        let done = now.saturating_duration_since(self.begin);
        self.bar.set_position(u64::try_from(done.as_millis()).unwrap_or(u64::MAX));
        let left = self.end.saturating_duration_since(now).as_secs();
        self.bar.set_message(format!("{}, {left} s left", self.what));
    }
}

/// Where results go.
struct Sink {
    json: bool,
}

impl Sink {
    fn text(&self, text: &str) {
        if self.json { eprintln!("{text}") } else { println!("{text}") }
    }

    fn rows(&self, rows: &[Row], absent: &[(&str, String)], case: Case) -> Result<(), BenchError> {
        self.text(&table(rows, absent, case.is_burst()));
        if self.json {
            let mut output = std::io::stdout().lock();
            for row in rows {
                writeln!(output, "{}", serde_json::to_string(row).map_err(std::io::Error::from)?)?;
            }
            output.flush()?;
        }
        Ok(())
    }
}
