//! A record for each call, while standard error takes nothing: calls at a priority must not notice.
//!
//! The server's lane writes a log record in each upcall. Its standard error is a pipe without a
//! reader, a device without room, and a full pipe that is never read. Logging turned off is the
//! yardstick, measured twice. In the control the lane's thread writes to standard error itself.

use std::time::Instant;

use super::catalogue::Experiment;
use super::{BenchError, Context};
use crate::blocks::{Rounds, interleave};
use crate::cases::{Case, Kind};
use crate::claim::{AtLeast, AtMost, Claim, control, most, paper};
use crate::figure::{Figure, Measured};
use crate::protocol::Block;
use crate::report::Placement;
use crate::subjects::stderr_sink::Sink;
use crate::subjects::{PairScheduling, Programs, StoppedPair, Subject};
use crate::tail::Tail;

pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Calls at a priority with a log record each, while standard error is closed, full, and never read",
    source: "of our own",
    paper: "calls take as long whatever becomes of the log's records",
    seconds: (10, 150),
    run,
    claims,
};

const NAME: &str = "log-load";
const FIGURE: &str = "calls";
const OFF: &str = "off";
const AGAIN: &str = "off-again";
const CONTROL: &str = "written-by-the-lane";
/// With records: the subject, and its standard error.
const SINKS: [(&str, Sink); 3] =
    [("closed", Sink::Closed), ("full", Sink::Full), ("never-read", Sink::Stuck)];
const CONTROL_BLOCKS: u32 = 20;
const BLOCK: Block = Block { case: Case { kind: Kind::Void, size: 0 }, warm: 20, calls: 1_000, gap_us: 0 };

fn run(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    let of = |sink: Sink, logging: &str, level: &str| {
        let server = cx.launcher.peer(&["isorb-band-server", "--logging", logging]);
        let mut server = sink.of(cx.launcher, server);
        server.splice(0..0, ["env".into(), format!("ISORB_LOG={level}").into()]);
        Programs { server, client: cx.launcher.peer(&["isorb-band-client"]) }
    };
    let mut subjects = vec![OFF, AGAIN, CONTROL];
    subjects.extend(SINKS.map(|(subject, _)| subject));
    let mut pairs = Vec::new();
    for subject in subjects {
        cx.progress(format!("{NAME}: {subject} is set up"));
        let programs = match SINKS.iter().find(|(of, _)| *of == subject) {
            Some(&(_, sink)) => of(sink, "record", "info"),
            None if subject == CONTROL => of(Sink::Slow, "direct", "info"),
            None => of(Sink::Stuck, "record", "off"),
        };
        let scheduling = PairScheduling::of(Placement::OneCore, &cx.machine);
        match StoppedPair::start(cx.launcher, Subject::IsorbBand, &programs, scheduling) {
            Ok(pair) => pairs.push((subject, pair)),
            // A thread that waits in a write to the sink answers no call.
            Err(error) => out.note(format!("{subject}: {error}")),
        }
    }
    let rounds = if cx.is_smoke() { 2 } else { cx.pick(10, 1_000) };
    cx.progress(format!("{NAME}: {} calls each", rounds * BLOCK.calls));
    let rounds = Rounds { at_least: rounds, ..Rounds::until(Instant::now()) };
    let mut of_control = 0;
    let block = |(subject, pair): &mut (&str, StoppedPair)| {
        if *subject != CONTROL {
            return pair.block(BLOCK);
        }
        // It waits for its reader most of the time, so that few blocks show it.
        of_control += 1;
        if of_control > CONTROL_BLOCKS { Ok(Vec::new()) } else { pair.block(Block { calls: 300, ..BLOCK }) }
    };
    let all = interleave(&mut pairs, rounds, block, || ());
    for ((subject, _), series) in pairs.iter().zip(&all) {
        match &series.failed {
            Some(error) => out.note(format!("{subject}: {error}")),
            None => out.row(FIGURE, subject, 1.0, series.values()),
        }
    }
    pairs.into_iter().filter(|(subject, _)| *subject != CONTROL).for_each(|(_, pair)| pair.end());
    let draw = &["p50_ns", "p999_ns", "max_ns"];
    out.figures = vec![Figure::new(FIGURE, "A void call with a log record", "server", "microseconds", draw)];
    out.note(format!(
        "Both processes at the usual priority on one processor, the server with lanes. '{OFF}': records are \
         disabled (ISORB_LOG=off). '{CONTROL}': the upcall's thread writes to a pipe that is read slowly."
    ));
    Ok(())
}

fn claims() -> Vec<Claim> {
    let mut claims: Vec<Claim> = SINKS
        .into_iter()
        .flat_map(|(subject, _)| {
            let words = format!("with standard error {subject}");
            Tail { figure: FIGURE, subject, bare: OFF, again: AGAIN, x: 1.0 }.claims(&words)
        })
        .collect();
    claims.push(paper(
        AtMost(1.2),
        "the median of a call with a record is at most {0:.2} times that with logging off ({limit}); off \
         against itself {1:.2}",
        |r| {
            let p50 = |subject| r.at(FIGURE, subject, "p50_ns", 1.0);
            [most(SINKS.map(|(subject, _)| p50(subject))), p50(AGAIN)].map(|ns| ns / p50(OFF))
        },
    ));
    claims.push(control(
        AtLeast(2.0),
        "written by the lane's thread to a pipe that is read slowly, p99.9 is {0:.1} times as long ({limit})",
        |r| {
            [CONTROL].map(|subject| r.at(FIGURE, subject, "p999_ns", 1.0) / r.at(FIGURE, OFF, "p999_ns", 1.0))
        },
    ));
    claims
}
