//! A supplier, a channel in another process, and a consumer beside the supplier; all on one processor. Beside a bare program with the same
//! hops.

use std::time::{Duration, Instant};

use super::controls::THIRD_PROCESS;
use super::{AGAIN, BARE, CHANNEL, NAME, PUSH_THREADS};
use crate::experiments::{BenchError, Context};
use crate::figure::{Row, times};
use crate::process::{Peer, PeerError, Role};
use crate::stats::{Samples, median, ratio_of_medians};

const START: Duration = Duration::from_secs(30);
const ANSWER: Duration = Duration::from_secs(60);
/// Events of a block, after so many that are not looked at.
const BLOCK: usize = 200;
const WARM: usize = 20;
const REST: Duration = Duration::from_millis(3);

/// Its processes; those of subjects that have no turn are stopped.
struct Subject {
    name: &'static str,
    /// The way leads through this one as well.
    beyond: Option<Peer>,
    channel: Peer,
    ends: Peer,
    samples: Samples,
    medians: Vec<Option<u64>>,
}

impl Subject {
    fn start(
        cx: &Context<'_>,
        name: &'static str,
        channel: &[&str],
        ends: &str,
    ) -> Result<Subject, PeerError> {
        let launcher = cx.launcher;
        let serve = |words: &[&str]| {
            let words = launcher.peer(&[&["distant"], words].concat());
            let mut peer = Peer::start(launcher, name, Role::Server, cx.place(0), &words)?;
            let address = peer.expect("ready", START)?;
            Ok::<_, PeerError>((peer, address))
        };
        let beyond = if name == THIRD_PROCESS { Some(serve(channel)?) } else { None };
        let through: Vec<&str> = beyond.iter().flat_map(|(_, address)| ["--through", address]).collect();
        let (channel, address) = serve(&[channel, &through].concat())?;
        let beyond = beyond.map(|(peer, _)| peer);
        let words = launcher.peer(&["distant", ends, &address]);
        let mut ends = Peer::start(launcher, name, Role::Client, cx.place(0), &words)?;
        ends.expect("ready", START)?;
        let subject = Subject { name, beyond, channel, ends, samples: Samples::new(), medians: Vec::new() };
        subject.pause();
        Ok(subject)
    }

    fn pause(&self) {
        self.ends.pause();
        self.channel.pause();
        self.beyond.iter().for_each(Peer::pause);
    }

    fn block(&mut self) -> Result<(), PeerError> {
        self.beyond.iter().for_each(Peer::resume);
        self.channel.resume();
        self.ends.resume();
        self.ends.tell(&format!("events {WARM} {BLOCK}"))?;
        self.ends.expect("samples", ANSWER)?;
        let block = self.ends.numbers(BLOCK, ANSWER)?;
        self.pause();
        self.medians.push(median(&block));
        self.samples.extend(block);
        Ok(())
    }
}

/// So long, at least twice.
pub fn run(cx: &mut Context<'_>, ms: u32) -> Result<Vec<Row>, BenchError> {
    let connection = ["--", "-ORBConcurrency", "connection"];
    let with = |option: &[&'static str]| [&["channel"], option, &connection].concat();
    let programs: [(&'static str, Vec<&str>, &str); 5] = [
        (BARE, vec!["raw-channel"], "raw-ends"),
        (AGAIN, vec!["raw-channel"], "raw-ends"),
        (CHANNEL, with(&[]), "ends"),
        (THIRD_PROCESS, vec!["raw-channel"], "raw-ends"),
        (PUSH_THREADS, with(&["--push-threads", "1"]), "ends"),
    ];
    let mut subjects = Vec::new();
    for (name, channel, ends) in programs {
        cx.step(format!("{NAME}: remote, {name}"));
        subjects.push(Subject::start(cx, name, &channel, ends)?);
    }
    let until = Instant::now() + Duration::from_millis(ms.into());
    let mut round = 0;
    while round < 2 || Instant::now() < until {
        for i in 0..subjects.len() {
            let turn = (i + round) % subjects.len();
            subjects[turn].block()?;
            std::thread::sleep(REST);
        }
        round += 1;
    }
    let row = |subject: &Subject| {
        let mut values = times(&subject.samples.summary());
        let ratio = ratio_of_medians(&subject.medians, &subjects[0].medians).unwrap_or(f64::NAN);
        values.push(("ratio", (ratio * 1000.0).round() / 1000.0));
        Row { figure: "remote", subject: subject.name, x: 1.0, values }
    };
    Ok(subjects.iter().map(row).collect())
}
