//! The events that a late joiner reads from the history, in the process and over TCP.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use isorb_event::{Channel, ConsumerQos, Event, Filter, HistoryQos, HistoryRequest};
use isorb_rt::time::now_ns;

use super::super::refused;
use super::{CHANNEL, NAME, push};
use crate::blocks::{Local, Series, keep, local_rows};
use crate::experiments::{BenchError, Context};
use crate::figure::{Measured, Row, times};
use crate::process::{Peer, Scheduling, Side};

pub const FIGURE: &str = "history";
/// A late joiner in another process.
pub const TCP: &str = "late-joiner-tcp";

const TIMEOUT: Duration = Duration::from_secs(60);
/// Events that are kept, of one type and source.
const KEPT: u32 = 100_000;
/// Times that a late joiner reads them over TCP.
const JOINS: usize = 9;

/// A late joiner in the process: the time of an event, from its connection to its last.
pub fn here(rounds: u32) -> Result<Vec<Row>, BenchError> {
    let kept = HistoryQos { streams: 1, payload: 64, ..HistoryQos::keep_last(KEPT as usize) };
    let channel = Channel::builder().history(kept).build().map_err(refused)?;
    let supplier = channel.for_suppliers().connect().map_err(refused)?;
    let event = Event::new(20, 1).octets(&[7; 64]);
    (0..KEPT).for_each(|_| keep(supplier.push(&event)));
    let sum = Arc::new(AtomicU64::new(0));
    let join = || {
        let qos = ConsumerQos::new("late", Filter::of(20, 1));
        let qos = qos.history(HistoryRequest::last(KEPT as usize));
        let (before, begin) = (sum.load(Relaxed), now_ns());
        let joined = channel.for_consumers().connect(push::consumer(&sum), qos);
        let took = now_ns() - begin;
        // Less than all is no time for all: it shows as an endless one.
        let is_whole = joined.is_ok() && sum.load(Relaxed) - before == u64::from(KEPT);
        if is_whole { took / u64::from(KEPT) } else { u64::MAX / 2000 }
    };
    let mut subjects = [Local::timed(CHANNEL, 1.0, 1, join)];
    Ok(local_rows(FIGURE, rounds, &mut subjects))
}

/// The same over TCP: channel and late joiner are processes that run on any processor.
pub fn over_tcp(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    cx.progress(format!("{NAME}: a late joiner over TCP"));
    let start = |side, words: &[&str]| {
        let words = cx.launcher.peer(&[&["event"], words].concat());
        Peer::start_ready(cx.launcher, TCP, side, Scheduling::ANY, &words, TIMEOUT)
    };
    let kept = cx.pick(KEPT / 10, KEPT).to_string();
    let (_channel, address) = start(
        Side::Server,
        &["channel", "--push-threads", "1", "--keep", &kept, "--", "-ORBConcurrency", "connection"],
    )?;
    let (mut joiner, _) = start(Side::Client, &["late-joiner", &address, &kept])?;
    let mut series = Series::<BenchError>::default();
    for _ in 0..cx.pick(3, JOINS) {
        joiner.send("join")?;
        series.add(joiner.samples(1, TIMEOUT)?);
    }
    out.row(FIGURE, TCP, 1.0, times(&series.samples.summary()));
    Ok(())
}
