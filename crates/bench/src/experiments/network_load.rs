//! A high periodic client on a link that another process floods: two hosts, 100 megabits a second
//! between them.
//!
//! Two clients of a raw socket stand beside the ORB, at the same priority and with the same octets:
//! the bare program, and that once more.
//!
//! Packets are marked by the CORBA priority. The link sorts by the mark; or, as control, has one
//! queue for all packets, which is what the paper had.

use isorb_netlab::{Class, Lab, LinkSpec, Sorting};

use super::catalogue::Experiment;
use super::{BenchError, Context, call_layers};
use crate::blocks::Series;
use crate::claim::{Above, AtLeast, AtMost, Cells, Claim, aim, claims, control, paper};
use crate::figure::{Figure, Measured};
use crate::process::Peer;
use crate::tail::Tail;
use crate::workload::{Plan, Role, Setup, Workload, link_flood};

pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Latency of a high periodic client while another process floods the link",
    source: "Zou, Levy, Liu: figure 10",
    paper: "a process that floods the link makes the high client's calls slow and their latency vary widely, which is the network's doing and \
     not the ORB's",
    seconds: (45, 260),
    run,
    claims,
};

const NAME: &str = "network-load";
const LINK_KBIT: u32 = 100_000;
const HIGH: i16 = 30_000;
const LOW: i16 = 100;
const HZ: u32 = 50;
/// A quick run has no time for 300 calls at the other rate.
const QUICK_HZ: u32 = 100;
const PAYLOAD: u32 = 10 << 10;
/// What packets of the high client are marked with (expedited forwarding).
const DSCP: u8 = 46;
const SORTED: &str = "by-priority";
const CONTROL: &str = "one-queue-control";
/// The same octets at the same priorities, without an ORB.
const SORTED_RAW: [&str; 2] = ["by-priority-raw", "by-priority-raw-again"];
const CONTROL_RAW: [&str; 2] = ["one-queue-raw", "one-queue-raw-again"];
/// PairScheduling in a queue: what network interfaces have unless told otherwise.
const QUEUE: u32 = 1000;
const FLOOD_AXIS: &str = "flood, megabits a second, on a link of 100";
/// Figures of layers, in the order of the set-ups: name, title.
const LAYERS: [(&str, &str); 2] =
    [("layers", "Layers of a call, by priority"), ("layers-one-queue", "Layers of a call over one queue")];
/// Calls of which the longest less the shortest is taken.
const BLOCK: usize = 30;
/// Megabits a second.
const FLOODS: [u32; 6] = [0, 50, 90, 100, 150, 200];
const QUICK_FLOODS: [u32; 3] = [0, 100, 200];

fn run(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    let floods: &[u32] = cx.pick(&QUICK_FLOODS, &FLOODS);
    let (ms, hz) = (cx.ms(3_100, 15_000), cx.pick(QUICK_HZ, HZ));
    let high = Role { payload: PAYLOAD, ..Role::new(1, hz, 0, HIGH) };
    let urgent = vec![Class { dscp: vec![DSCP], share: 50 }];
    let sorting = Sorting::ByDscp { classes: urgent, packets: QUEUE };
    let one_queue = Sorting::OneQueue { packets: QUEUE };
    let [(sorted_layers, _), (control_layers, _)] = LAYERS;
    for (subject, raw, layers, sorting) in
        [(SORTED, SORTED_RAW, sorted_layers, sorting), (CONTROL, CONTROL_RAW, control_layers, one_queue)]
    {
        let lab = Lab::build(&LinkSpec { rate_kbit: LINK_KBIT, sorting })?;
        let setup = Setup {
            marked: true,
            probe: true,
            host: lab.left().address().to_string(),
            ordinary_below: 1000,
            ..Setup::lanes(&[LOW, HIGH])
        };
        let mut workload = Workload::start(cx, subject, &setup, Some(&lab))?;
        for &mbit in floods {
            cx.progress(format!("{NAME}: {subject}, flood of {mbit} Mbit/s"));
            let flood = flood_of(cx, &lab, mbit)?;
            let roles = vec![high, high.raw_after(1), high.raw_after(3)];
            let results = workload.run(&Plan { ms, roles })?;
            drop(flood);
            for (subject, results) in [subject].into_iter().chain(raw).zip(results) {
                let mut values = Series::<()>::of(&results.latencies, BLOCK).values();
                values.push(("in_time_percent", results.in_time_percent()));
                out.row("latency", subject, mbit, values);
            }
        }
        workload.end();
        let mut workload = Workload::start(cx, subject, &call_layers::stamped(&setup), Some(&lab))?;
        for mbit in [floods.first(), floods.last()].into_iter().flatten().copied() {
            cx.progress(format!("{NAME}: layers {subject}, flood of {mbit} Mbit/s"));
            let flood = flood_of(cx, &lab, mbit)?;
            call_layers::rows(&mut workload, out, (layers, mbit), cx.ms(3_100, 10_000), high, &[])?;
            drop(flood);
        }
        workload.end();
    }
    let draw = &["p50_ns", "p99_ns"];
    out.figures =
        vec![Figure::new("latency", "Latency of the high client", FLOOD_AXIS, "microseconds", draw)];
    out.figures.extend(LAYERS.map(|(id, title)| call_layers::figure(id, title, FLOOD_AXIS)));
    out.note(format!("{hz} calls a second with {} KiB there and back. Where a call takes longer than a period, fewer are made.", PAYLOAD >> 10));
    out.note(call_layers::NOTE);
    Ok(())
}

/// The process that floods the link, if it does.
fn flood_of(cx: &Context<'_>, lab: &Lab, mbit: u32) -> Result<Option<Peer>, BenchError> {
    Ok(match mbit {
        0 => None,
        mbit => Some(link_flood::start(cx, lab.right(), lab.left(), mbit * 1000)?),
    })
}

/// The factor by which the flood makes a value of a subject larger.
fn by_flood(r: &dyn Cells, subject: &str, value: &str) -> f64 {
    r.growth("latency", subject, value, [0.0, 200.0])
}

fn claims() -> Vec<Claim> {
    let slower = |r: &dyn Cells, subject: &str| by_flood(r, subject, "p50_ns");
    let mut claims = claims! {
        paper Above(2.0), "over one queue the flood makes calls take {0:.1} times as long ({limit})",
            move |r| [slower(r, CONTROL)];
        paper Above(2.0), "over one queue the flood makes calls scatter {0:.1} times as much ({limit})",
            |r| [by_flood(r, CONTROL, "stddev_ns")];
        paper AtLeast(0.5), "those of a raw socket take {1:.1} times as long, {0:.2} of the ORB's \
             ({limit}): it is the network's doing",
            move |r| [slower(r, CONTROL_RAW[0]) / slower(r, CONTROL), slower(r, CONTROL_RAW[0])];
        control AtLeast(10.0), "over one queue that is {0:.1} times what it is by priority ({limit})",
            move |r| [slower(r, CONTROL) / slower(r, SORTED)];
        aim AtMost(1.5), "by priority, the flood makes the median {0:.2} times as long ({limit})",
            move |r| [slower(r, SORTED)];
        aim AtMost(1.1), "by priority under the flood a call takes {0:.3} times as long as a raw \
             socket's ({limit})",
            |r| {
                let [orb, raw] = [SORTED, SORTED_RAW[0]].map(|of| r.at("latency", of, "p50_ns", 200.0));
                [orb / raw]
            };
    };
    let [bare, again] = SORTED_RAW;
    let tail = Tail { figure: "latency", subject: SORTED, bare, again, x: 200.0 };
    claims.extend(tail.of_few("by priority under the flood", [1.2, 1.5]));
    claims
}
