//! A supplier, a channel in another process, and a consumer beside the supplier; all on one
//! processor. Beside a bare program with the same hops.

use std::time::{Duration, Instant};

use super::controls::THIRD_PROCESS;
use super::{AGAIN, BARE, CHANNEL, NAME, PUSH_THREADS};
use crate::blocks::{Rounds, interleave_all};
use crate::experiments::{BenchError, Context};
use crate::figure::{Measured, times};
use crate::process::{Peer, PeerError, Side};

const TIMEOUT: Duration = Duration::from_secs(60);
/// Events of a block, and those before it that are not measured.
const BLOCK: usize = 200;
const WARM: usize = 20;

/// The processes of a subject, which are stopped except during its blocks.
pub struct Subject {
    pub name: &'static str,
    /// The path leads through this process as well.
    beyond: Option<Peer>,
    channel: Peer,
    supplier: Peer,
}

impl Subject {
    pub fn start(
        cx: &Context<'_>,
        name: &'static str,
        channel: &[&str],
        supplier: &str,
    ) -> Result<Subject, PeerError> {
        let start = |side, words: &[&str]| {
            let words = cx.launcher.peer(&[&["event"], words].concat());
            Peer::start_ready(cx.launcher, name, side, cx.scheduling(0), &words, TIMEOUT)
        };
        let beyond = if name == THIRD_PROCESS { Some(start(Side::Server, channel)?) } else { None };
        let through: Vec<&str> = beyond.iter().flat_map(|(_, address)| ["--through", address]).collect();
        let (channel, address) = start(Side::Server, &[channel, &through].concat())?;
        let beyond = beyond.map(|(peer, _)| peer);
        let (supplier, _) = start(Side::Client, &[supplier, &address])?;
        let subject = Subject { name, beyond, channel, supplier };
        subject.pause();
        Ok(subject)
    }

    /// The processes on the path of an event.
    pub fn ids(&self) -> Vec<u32> {
        vec![self.channel.id(), self.supplier.id()]
    }

    fn pause(&self) {
        self.supplier.pause();
        self.channel.pause();
        self.beyond.iter().for_each(Peer::pause);
    }

    /// So many events after a few that are not measured.
    pub fn block(&mut self, events: usize, gap_us: u32) -> Result<Vec<u64>, PeerError> {
        self.beyond.iter().for_each(Peer::resume);
        self.channel.resume();
        self.supplier.resume();
        self.supplier.send(&format!("events {WARM} {events} {gap_us}"))?;
        let block = self.supplier.samples(events, TIMEOUT)?;
        self.pause();
        Ok(block)
    }
}

pub fn run(cx: &mut Context<'_>, out: &mut Measured, ms: u32) -> Result<(), BenchError> {
    let connection = ["--", "-ORBConcurrency", "connection"];
    let with = |option: &[&'static str]| [&["channel"], option, &connection].concat();
    let (raw, raw_supplier) = (vec!["raw-channel"], "raw-supplier-consumer");
    let programs: [(&'static str, Vec<&str>, &str); 5] = [
        (BARE, raw.clone(), raw_supplier),
        (AGAIN, raw.clone(), raw_supplier),
        (CHANNEL, with(&[]), "supplier-consumer"),
        (THIRD_PROCESS, raw, raw_supplier),
        (PUSH_THREADS, with(&["--push-threads", "1"]), "supplier-consumer"),
    ];
    let mut subjects = Vec::new();
    for (name, channel, supplier) in programs {
        cx.progress(format!("{NAME}: remote, {name}"));
        subjects.push(Subject::start(cx, name, &channel, supplier)?);
    }
    let until = Instant::now() + Duration::from_millis(ms.into());
    let all = interleave_all(&mut subjects, Rounds::until(until), |subject| subject.block(BLOCK, 0))?;
    for (subject, series) in subjects.iter().zip(&all) {
        let mut values = times(&series.samples.summary());
        values.push(("ratio", (series.ratio_to(&all[0]) * 1000.0).round() / 1000.0));
        out.row("remote", subject.name, 1.0, values);
    }
    Ok(())
}
