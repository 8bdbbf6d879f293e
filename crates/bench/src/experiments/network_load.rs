//! A high periodic client on a link that another process floods: two hosts, 100 megabits a second between them.
//!
//! A raw socket stands beside the ORB, at the same priority and with the same octets, so that the reader sees what the network alone
//! takes.
//!
//! With packets marked by the CORBA priority and a link that sorts by the mark; and, as control, one queue for all packets, which is
//! what the paper had.

use isorb_netlab::{Class, Lab, LinkSpec, Sorting};

use super::catalogue::Experiment;
use super::{BenchError, Context, split};
use crate::contention::{Call, Contest, Order, Role, Setup, flood};
use crate::figure::{Claim, Figure, Outcome, Row, Verdict, at, times};
use crate::process::Peer;

/// The entry of the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Latency of a high periodic client while another process floods the link",
    source: "Zou, Levy, Liu: figure 10",
    paper: PAPER,
    seconds: (45, 250),
    run,
};

const NAME: &str = "network-load";
const PAPER: &str = "a process that floods the link makes the high client's calls slow and their latency vary widely, which is the network's doing and \
     not the ORB's";
const LINK_KBIT: u32 = 100_000;
const HIGH: i16 = 30_000;
const LOW: i16 = 100;
const HZ: u32 = 50;
const PAYLOAD: u32 = 10 << 10;
/// What packets of the high client are marked with (expedited forwarding).
const DSCP: u8 = 46;
const SORTED: &str = "by-priority";
const CONTROL: &str = "one-queue-control";
/// The same octets at the same priorities, without an ORB.
const SORTED_RAW: &str = "by-priority-raw";
const CONTROL_RAW: &str = "one-queue-raw";
/// Places in a queue: what network interfaces have unless told otherwise.
const QUEUE: u32 = 1000;
const FLOOD_AXIS: &str = "flood, megabits a second, on a link of 100";
/// Figures of layers, in the order of the set-ups: name, title.
const LAYERS: [(&str, &str); 2] =
    [("layers", "Layers of a call, by priority"), ("layers-one-queue", "Layers of a call over one queue")];
const HIGH_ROLE: Role = Role {
    threads: 1,
    hz: HZ,
    work: 0,
    payload: PAYLOAD,
    priority: Some(HIGH),
    delay_us: 0,
    call: Call::Message,
};
/// Megabits a second.
const FLOODS: [u32; 6] = [0, 50, 90, 100, 150, 200];
const QUICK_FLOODS: [u32; 3] = [0, 100, 200];

fn run(cx: &mut Context<'_>) -> Result<Outcome, BenchError> {
    let floods: &[u32] = cx.pick(&QUICK_FLOODS, &FLOODS);
    let ms = cx.ms(4_000, 15_000);
    let mut rows = Vec::new();
    let urgent = vec![Class { dscp: vec![DSCP], share: 50 }];
    let sorting = Sorting::ByDscp { classes: urgent, packets: QUEUE };
    let one_queue = Sorting::OneQueue { packets: QUEUE };
    let [(sorted_layers, _), (control_layers, _)] = LAYERS;
    for (subject, probe, layers, sorting, marked) in [
        (SORTED, SORTED_RAW, sorted_layers, sorting, true),
        (CONTROL, CONTROL_RAW, control_layers, one_queue, false),
    ] {
        let lab = Lab::build(&LinkSpec { rate_kbit: LINK_KBIT, sorting })?;
        let setup = Setup {
            marked,
            probe: true,
            host: lab.left().address().to_string(),
            ordinary_below: 1000,
            ..Setup::lanes(&[LOW, HIGH])
        };
        let mut contest = Contest::start(cx, subject, &setup, Some(&lab))?;
        for &mbit in floods {
            cx.step(format!("{NAME}: {subject}, flood of {mbit} Mbit/s"));
            let flood = flood_of(cx, &lab, mbit)?;
            let high = HIGH_ROLE;
            // Half a period later, so that the two do not meet on the link.
            let raw = Role { delay_us: 500_000 / HZ, call: Call::Raw, ..high };
            let played = contest.run(&Order { ms, roles: vec![high, raw] })?;
            drop(flood);
            for (subject, played) in [subject, probe].into_iter().zip(played) {
                let mut values = times(&played.summary());
                values.push(("in_time_percent", played.in_time_percent()));
                rows.push(Row { experiment: NAME, figure: "latency", subject, x: mbit.into(), values });
            }
        }
        contest.end();
        let mut contest = Contest::start(cx, subject, &split::stamped(&setup), Some(&lab))?;
        for mbit in [floods.first(), floods.last()].into_iter().flatten().copied() {
            cx.step(format!("{NAME}: layers {subject}, flood of {mbit} Mbit/s"));
            let flood = flood_of(cx, &lab, mbit)?;
            let place = split::Place { experiment: NAME, figure: layers, x: mbit.into() };
            rows.extend(split::rows(&mut contest, place, cx.ms(3_000, 10_000), HIGH_ROLE, &[])?);
            drop(flood);
        }
        contest.end();
    }
    let mut figures = vec![Figure {
        id: "latency",
        title: "Latency of the high client",
        x: FLOOD_AXIS,
        y: "microseconds",
        draw: &["p50_ns", "p99_ns"],
        divide: 1000.0,
        log: true,
    }];
    figures.extend(LAYERS.map(|(id, title)| split::figure(id, title, FLOOD_AXIS)));
    let notes = vec![
        format!("{HZ} calls a second with {} KiB there and back.", PAYLOAD >> 10),
        split::NOTE.to_owned(),
    ];
    let verdict = Verdict::new(NAME, PAPER, judge(&rows));
    Ok(Outcome { figures, rows, notes, verdict })
}

/// The process that floods the link, if it does.
fn flood_of(cx: &Context<'_>, lab: &Lab, mbit: u32) -> Result<Option<Peer>, BenchError> {
    Ok(match mbit {
        0 => None,
        mbit => Some(flood::start(cx, lab.right(), lab.left(), mbit * 1000)?),
    })
}

fn judge(rows: &[Row]) -> Vec<Claim> {
    let of = |subject: &str, value: &str, mbit: f64| at(rows, "latency", subject, value, mbit);
    let slower = |subject: &str| of(subject, "p50_ns", 200.0) / of(subject, "p50_ns", 0.0);
    let scatter = of(CONTROL, "stddev_ns", 200.0) / of(CONTROL, "stddev_ns", 0.0);
    let (sorted, control) = (slower(SORTED), slower(CONTROL));
    let raw = slower(CONTROL_RAW);
    let added = of(SORTED, "p50_ns", 200.0) / of(SORTED_RAW, "p50_ns", 200.0);
    vec![
        Claim::paper(
            control > 2.0 && scatter > 2.0,
            format!(
                "over one queue the flood makes calls take {control:.1} times as long and scatter {scatter:.1} times as much (above 2)"
            ),
        ),
        Claim::paper(
            raw >= 0.5 * control,
            format!(
                "so do those of a raw socket, {raw:.1} times as long: it is the network's doing (at least half of the ORB's)"
            ),
        ),
        Claim::control(
            control >= 10.0 * sorted,
            format!(
                "over one queue that is {:.1} times what it is by priority (at least 10)",
                control / sorted
            ),
        ),
        Claim::aim(
            sorted <= 1.5,
            format!("by priority, the flood makes the median {sorted:.2} times as long (at most 1.5)"),
        ),
        Claim::aim(
            added <= 1.1,
            format!(
                "by priority under the flood a call takes {added:.3} times as long as a raw socket's (at most 1.1)"
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(ns: impl Fn(&str, f64) -> f64) -> (bool, Option<bool>) {
        let mut rows = Vec::new();
        for subject in [SORTED, CONTROL, SORTED_RAW, CONTROL_RAW] {
            for x in [0.0, 200.0] {
                let values = ["p50_ns", "stddev_ns"].map(|value| (value, ns(subject, x))).to_vec();
                rows.push(Row { experiment: NAME, figure: "latency", subject, x, values });
            }
        }
        let v = Verdict::new(NAME, PAPER, judge(&rows));
        (v.shape_holds, v.control_fails)
    }

    #[test]
    fn shapes_are_told_apart() {
        let as_hoped = |subject: &str, mbit: f64| {
            if subject.starts_with("one") && mbit > 0.0 { 40_000.0 } else { 1800.0 }
        };
        assert_eq!(verdict(as_hoped), (true, Some(true)));
        assert_eq!(verdict(|_, mbit| if mbit > 0.0 { 40_000.0 } else { 1800.0 }), (true, Some(false)));
        let only_ours =
            |subject: &str, mbit: f64| if subject == CONTROL && mbit > 0.0 { 40_000.0 } else { 1800.0 };
        assert_eq!(verdict(only_ours), (false, Some(true)), "raw sockets are as fast as ever");
        assert_eq!(verdict(|_, _| 1800.0), (false, Some(false)));
    }
}
