//! One high client with requests of growing size beside six low ones without arguments: connections
//! in bands and one connection for all, by TCP over a link of 100 megabits a second, which is the
//! paper's Ethernet; and within the host by TCP, by unix sockets and by segments of memory that the
//! peer writes into, which are its SCI.

use isorb_netlab::{Class, Lab, LabError, LinkSpec, Sorting};

use super::catalogue::Experiment;
use super::spread::Rounds;
use super::{BenchError, Context};
use crate::claim::{AtLeast, AtMost, Below, Cells, Claim, aim, claims, control, median_of, paper};
use crate::figure::{Figure, Measured};
use crate::subjects::futex;
use crate::tail::Tail;
use crate::workload::{Plan, Role, Setup, Workload};

pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Jitter of a high client with growing requests beside six low ones, in bands and on one connection, over a link and three transports of a host",
    source: "Lankes, Pfeiffer, Bemmerl (ROFES): figures 5 to 10",
    paper: "with banded connections the high client's jitter is far smaller, at about the same mean, on either network",
    seconds: (55, 600),
    run,
    claims,
};

const NAME: &str = "banded";
/// CORBA priorities as the paper's, its 8446 read as 8448.
const LOW: [i16; 6] = [8192, 8448, 8704, 8960, 9216, 9472];
const HIGH: i16 = 16_384;
/// The high client pauses, so that the low ones get the processor at all. No multiple of the
/// kernel's ticks (250 a second, mostly): where it was one, every fourth call met a tick or none
/// did, as the start had it.
const HZ: u32 = 930;
/// Octets.
pub(super) const SIZES: [u32; 6] = [0, 1 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10];
const QUICK_SIZES: [u32; 3] = [0, 4 << 10, 32 << 10];
/// From here on, few calls over the link fit into a second.
const SLOW: u32 = 16 << 10;
/// The high client beside the low ones, and by itself.
pub(super) const BESIDE: &str = "high";
pub(super) const ALONE: &str = "alone";
const LINK_KBIT: u32 = 100_000;
/// PairScheduling in a queue of the link: what network interfaces have unless told otherwise.
const QUEUE: u32 = 1000;

/// What packets of the high client are marked with where they are
/// ([`ClassSelectors`](isorb_rt::priority::ClassSelectors)).
const DSCP: u8 = 24;

/// A subject.
#[derive(Clone, Copy)]
pub(super) struct Subject {
    pub name: &'static str,
    transport: &'static str,
    banded: bool,
    between: Between,
}

/// What is between client and server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Between {
    /// Nothing: they are on one host.
    Nothing,
    /// A link with one queue, as the paper's.
    Link,
    /// A link that sends the high client's packets first. They are marked on the other one, too.
    SortedLink,
    /// Memory that both map, and no ORB.
    Bare,
}

const fn subject(name: &'static str, transport: &'static str, banded: bool, between: Between) -> Subject {
    Subject { name, transport, banded, between }
}

pub(super) const SUBJECTS: [Subject; 9] = [
    subject(LINK_BANDED, "tcp", true, Between::Link),
    subject("link-shared", "tcp", false, Between::Link),
    subject(LINK_SORTED, "tcp", true, Between::SortedLink),
    subject("tcp-banded", "tcp", true, Between::Nothing),
    subject("tcp-shared", "tcp", false, Between::Nothing),
    subject("unix-banded", "unix", true, Between::Nothing),
    subject("unix-shared", "unix", false, Between::Nothing),
    subject(SEGMENT_BANDED, "segment", true, Between::Nothing),
    subject("segment-shared", "segment", false, Between::Nothing),
];
/// Threads that sleep on a word of mapped memory beside the octets, and do nothing else: what the
/// machine makes of segments.
pub(super) const BARE: [Subject; 2] =
    [subject("bare", "none", true, Between::Bare), subject("bare-again", "none", true, Between::Bare)];
/// The networks, as sentences name them, with their subjects in bands and on one connection. The
/// first needs two hosts.
pub(super) const NETWORKS: [(&str, &str, &str); 4] = [
    ("the link", LINK_BANDED, "link-shared"),
    ("TCP", "tcp-banded", "tcp-shared"),
    ("unix sockets", "unix-banded", "unix-shared"),
    ("segments", SEGMENT_BANDED, "segment-shared"),
];
pub(super) const LINK_BANDED: &str = "link-banded";
pub(super) const LINK_SORTED: &str = "link-sorted";
pub(super) const SEGMENT_BANDED: &str = "segment-banded";

fn run(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    measure(cx, out, NAME, &[&SUBJECTS[..], &BARE].concat(), |_| 0)?;
    out.note(format!(
        "The high client calls {HZ} times a second, over the link as often as it can; six low \
         clients of the ordinary class call without a pause and without arguments."
    ));
    Ok(())
}

/// What a reader of either experiment must know.
pub(super) const OF_CONTROL: &str = "In bands each client's connection is served by the lane of its priority. Without them all clients share one connection: over TCP a \
     pool of as many threads serves it, otherwise one thread of the ordinary class; either runs a request at its client's priority once \
     it has read it. 'jitter' is the standard deviation of a block of 20 calls, 'spread' its longest less its shortest call; both are \
     medians over the blocks of all rounds, which alternate. 'max_minus_min_ns' leaves nothing out.";

/// Every subject at every size of the high client's requests, in rounds that alternate; `low` says
/// the size of the low ones' at that. Those in bands also without the low clients. And what a
/// reader must know.
pub(super) fn measure(
    cx: &mut Context<'_>,
    out: &mut Measured,
    name: &str,
    subjects: &[Subject],
    low: impl Fn(u32) -> u32,
) -> Result<(), BenchError> {
    let sizes: &[u32] = cx.pick(&QUICK_SIZES, &SIZES);
    let rounds = cx.pick(8, 20);
    let labs = labs(out)?;
    let mut workloads = Vec::new();
    for subject in subjects.iter().filter(|subject| labs.is_some() || !subject.over_link()) {
        workloads.extend(subject.start(cx, labs.as_ref(), out)?.map(|workload| (subject, workload)));
    }
    for &size in sizes {
        let role = |hz, payload, priority| Role { payload, ..Role::new(1, hz, 0, priority) };
        let high = role(HZ, size, HIGH);
        let lows = LOW.map(|priority| role(0, low(size), priority));
        let mut taken: Vec<[Rounds; 2]> = workloads.iter().map(|_| Default::default()).collect();
        for round in 1..=rounds {
            let turns = workloads.iter_mut().zip(&mut taken).filter(|((subject, _), _)| subject.takes(round));
            for ((subject, workload), [beside, alone]) in turns {
                cx.progress(format!("{name}: {}, {size} B, round {round}", subject.name));
                let ms = subject.ms(cx, size);
                let roles = [high].into_iter().chain(lows).collect();
                let results = workload.run(&Plan { ms, roles })?;
                beside.add(ms, &results[0], &results[1..]);
                if subject.alone() {
                    alone.add(ms, &workload.run(&Plan { ms, roles: vec![high] })?[0], &[]);
                }
            }
        }
        for ((subject, _), [beside, alone]) in workloads.iter().zip(taken) {
            let mut row = |figure, values| out.row(figure, subject.name, size, values);
            row(BESIDE, beside.values());
            if subject.alone() {
                row(ALONE, alone.values());
            }
        }
    }
    workloads.into_iter().for_each(|(_, workload)| workload.end());
    out.note(OF_CONTROL);
    out.figures = FIGURES.to_vec();
    Ok(())
}

/// Two hosts at a link of one queue, and two at one that sorts.
struct Labs {
    one_queue: Lab,
    sorted: Lab,
}

/// Where the machine cannot have them, the note that says which subjects are missing, and why.
fn labs(out: &mut Measured) -> Result<Option<Labs>, LabError> {
    let build = |sorting| Lab::build(&LinkSpec { rate_kbit: LINK_KBIT, sorting });
    let one_queue = match build(Sorting::OneQueue { packets: QUEUE }) {
        Err(error) if error.is_of_the_machine() => {
            let missing: Vec<_> = SUBJECTS.iter().filter(|s| s.over_link()).map(|s| s.name).collect();
            out.note(format!(
                "{}: skipped, no network lab: {error}. Nothing is said of the paper's Ethernet.",
                missing.join(", ")
            ));
            return Ok(None);
        }
        built => built?,
    };
    let classes = vec![Class { dscp: vec![DSCP], share: 90 }];
    let sorted = build(Sorting::ByDscp { classes, packets: QUEUE })?;
    Ok(Some(Labs { one_queue, sorted }))
}

impl Subject {
    /// Server and client; where the machine cannot have them, none and a note that says why.
    fn start(
        &self,
        cx: &Context<'_>,
        labs: Option<&Labs>,
        out: &mut Measured,
    ) -> Result<Option<Workload>, BenchError> {
        if self.between == Between::Bare {
            return match futex::bands(cx.fifo, LOW.len()) {
                Ok(programs) => Ok(Some(Workload::of(cx, self.name, programs)?)),
                Err(missing) => {
                    out.note(format!("{}: skipped, {missing}", self.name));
                    Ok(None)
                }
            };
        }
        let lab = labs.and_then(|labs| match self.between {
            Between::Nothing | Between::Bare => None,
            Between::Link => Some(&labs.one_queue),
            Between::SortedLink => Some(&labs.sorted),
        });
        let lanes: Vec<i16> = LOW.into_iter().chain([HIGH]).collect();
        // Low clients and their lanes are ordinary threads; requests run at their clients'
        // priorities either way. The control turns two switches: with lanes a call takes that of
        // its priority: without bands clients share no connection either.
        let setup = Setup {
            sorted: self.banded,
            banded: self.banded,
            connections: 1,
            ordinary_below: 10_000,
            transport: self.transport.to_owned(),
            marked: self.over_link(),
            ..Setup::lanes(&lanes)
        };
        let host = lab.map_or(setup.host.clone(), |lab| lab.left().address().to_string());
        Ok(Some(Workload::start(cx, self.name, &Setup { host, ..setup }, lab)?))
    }

    fn over_link(&self) -> bool {
        matches!(self.between, Between::Link | Between::SortedLink)
    }

    /// Is the high client measured by itself as well?
    fn alone(&self) -> bool {
        self.banded && self.between != Between::SortedLink
    }

    /// Each round has the subjects that are compared with the case without low clients: many short
    /// rounds expose both sides to the same disturbances of the machine. The others are in every
    /// other one.
    fn takes(&self, round: u32) -> bool {
        self.alone() && !self.over_link() || round % 2 == 1
    }

    /// How long a round takes. A call with 32 KiB each way takes 5 ms of the link.
    fn ms(&self, cx: &Context<'_>, size: u32) -> u32 {
        match (self.over_link(), size < SLOW) {
            (false, _) => cx.ms(100, 300),
            (true, true) => cx.ms(300, 900),
            (true, false) => cx.ms(600, 1_200),
        }
    }
}

const AXIS: &str = "request, octets";
const FIGURES: [Figure; 4] = [
    figure(BESIDE, "Jitter of the high client", "microseconds, standard deviation", &["jitter_ns"]),
    figure(BESIDE, "Its spread", SPREAD, &["spread_ns"]),
    figure(BESIDE, "Its latency", "microseconds", &["mean_ns", "p999_ns"]),
    figure(ALONE, "Its spread without the low clients", SPREAD, &["spread_ns"]),
];
const SPREAD: &str = "microseconds, longest less shortest";

const fn figure(
    id: &'static str,
    title: &'static str,
    y: &'static str,
    draw: &'static [&'static str],
) -> Figure {
    Figure::new(id, title, AXIS, y, draw)
}

/// A value of one subject over that of another, at each size.
pub(super) fn ratios(r: &dyn Cells, of: (&str, &str), to: (&str, &str), value: &str) -> Vec<f64> {
    let (of, to) = (r.values(of.0, of.1, value), r.values(to.0, to.1, value));
    of.iter().zip(&to).map(|(of, to)| of / to.max(1.0)).collect()
}

/// That at the largest size.
pub(super) fn at_largest(r: &dyn Cells, of: (&str, &str), to: (&str, &str), value: &str) -> f64 {
    ratios(r, of, to, value).last().copied().unwrap_or(f64::NAN)
}

/// The median of the ratios over the sizes.
pub(super) fn ratio(r: &dyn Cells, of: &str, to: &str, value: &str) -> f64 {
    median_of(ratios(r, (BESIDE, of), (BESIDE, to), value))
}

/// Was there a link?
pub(super) fn over_link(r: &dyn Cells) -> bool {
    !r.series(BESIDE, LINK_BANDED, "jitter_ns").is_empty()
}

/// Claims on the link are made where there was one, all others whether they were measured or not.
pub(super) fn is_claimed(r: &dyn Cells, banded: &str) -> bool {
    banded != LINK_BANDED || over_link(r)
}

fn claims() -> Vec<Claim> {
    let mut claims: Vec<Claim> = NETWORKS
        .into_iter()
        .flat_map(|(transport, banded, shared)| {
            claims! {
                paper Below(1.2), format!("by {transport} the mean in bands is {{0:.2}} times that on one \
                     connection ({{limit}})"),
                    move |r| [ratio(r, banded, shared, "mean_ns")], when move |r| is_claimed(r, banded);
                control AtLeast(2.0), format!("by {transport} the jitter on one connection is {{0:.1}} times \
                     that in bands ({{limit}})"),
                    move |r| [ratio(r, shared, banded, "jitter_ns")], when move |r| is_claimed(r, banded);
            }
        })
        .collect();
    claims.extend(claims! {
        paper AtMost(0.5), "the largest calls take {0:.3} times as long over segments as over the link, both \
             in bands ({limit})",
            |r| [at_largest(r, (BESIDE, SEGMENT_BANDED), (BESIDE, LINK_BANDED), "p50_ns")], when over_link;
        aim Below(1.0), "segments take {0:.2} times as long as TCP, both in bands ({limit})",
            |r| [ratio(r, SEGMENT_BANDED, "tcp-banded", "mean_ns")];
    });
    claims.extend(tails("beside six low clients without arguments"));
    claims
}

/// The worst case of segments in bands beside bare threads, with the largest requests.
pub(super) fn tails(beside: &str) -> impl Iterator<Item = Claim> + use<> {
    let [bare, again] = BARE.map(|subject| subject.name);
    let largest = f64::from(SIZES[SIZES.len() - 1]);
    let tail = Tail { figure: BESIDE, subject: SEGMENT_BANDED, bare, again, x: largest };
    let is_measured = move |r: &dyn Cells| !r.series(BESIDE, bare, "n").is_empty();
    let claims = tail.claims(&format!("segments in bands, 32 KiB {beside}"));
    claims.into_iter().map(move |claim| claim.when(is_measured))
}
