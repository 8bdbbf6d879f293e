//! Many clients of one server with a pool of two threads, its upcalls' memory in scopes and on the
//! heap.
//!
//! ZEN's heap had a collector that stopped all threads. The C library's heap has a lock without
//! priority inheritance. Where other threads use the heap, an urgent request waits for the thread
//! that was pre-empted with the lock. So there are two scenes: without other users of the heap, and
//! with two threads that use it.
//!
//! The bare program of the worst case is as many clients of a raw socket, and a server with two
//! threads at the same priority that send as many octets back.

use super::catalogue::Experiment;
use super::{BenchError, Context};
use crate::blocks::Series;
use crate::cases::{READING, READINGS};
use crate::claim::{Above, AtLeast, AtMost, Cells, Claim, aim, claims, control, most, paper};
use crate::figure::{Figure, Measured};
use crate::tail::Tail;
use crate::workload::{BackgroundLoad, Call, Plan, Role, Setup, Workload};

pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Round trips of 1 to 200 clients of a pool of two threads, memory in scopes and on the heap",
    source: "Krishna, Schmidt, Klefstad (ZEN): figure 5",
    paper: "round trips grow with the number of clients; with scoped memory they scatter up to half as much as with the heap",
    seconds: (57, 250),
    run,
    claims,
};

const NAME: &str = "clients";
const CLIENTS: [u32; 5] = [1, 50, 100, 150, MOST];
const QUICK_CLIENTS: [u32; 3] = [1, 50, MOST];
const MOST: u32 = 200;
/// Calls a second of each client.
const HZ: u32 = 50;
/// Of the pool and of the clients: real time, as the upcalls of ZEN that its collector may not
/// stop.
const PRIORITY: i16 = 20_000;
const SCOPE: &str = "scope";
const HEAP: &str = "heap";
/// Measured with the most clients only.
const BARE: &str = "raw-socket";
const AGAIN: &str = "raw-socket-again";
/// No other thread uses the heap.
const CALM: &str = "calm";
/// Two ordinary threads of the server use it, and other programs the processor.
const PRESSED: &str = "pressed";
const ALLOCATING: u32 = 2;
const BUSY: u32 = 2;

fn run(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    scene(cx, out, CALM, 0)?;
    let background = BackgroundLoad::start(cx, BUSY)?;
    scene(cx, out, PRESSED, ALLOCATING)?;
    drop(background);
    let figure = |id, title, y, draw| Figure::new(id, title, "clients", y, draw);
    let scatter = "microseconds, standard deviation";
    out.figures = vec![
        figure(CALM, "Round trip", "microseconds", &["mean_ns", "p99_ns"]),
        figure(CALM, "Its scatter", scatter, &["stddev_ns"]),
        figure(PRESSED, "Its scatter while others use the heap", scatter, &["stddev_ns"]),
    ];
    out.notes = vec![
        format!(
            "Each client calls {HZ} times a second, all at the same moments: {READINGS} structures there and back, which the server \
             takes apart in the upcall's memory. Heap and scope take turns. '{BARE}' and \
             '{AGAIN}': as many octets without an ORB, served by as many threads."
        ),
        format!(
            "Pressed: {ALLOCATING} ordinary threads of the server take memory and give it back without a pause, and {BUSY} threads of \
             other programs want the processor. All of the server has one heap (MALLOC_ARENA_MAX=1), as programs with many threads \
             have in effect."
        ),
    ];
    Ok(())
}

/// Both memories with so many threads beside that use the heap.
fn scene(
    cx: &mut Context<'_>,
    out: &mut Measured,
    figure: &'static str,
    allocating: u32,
) -> Result<(), BenchError> {
    let numbers: &[u32] = cx.pick(&QUICK_CLIENTS, &CLIENTS);
    let rounds = cx.pick(3, 10);
    let mut workloads = Vec::new();
    for (subject, heap) in [(SCOPE, false), (HEAP, true)] {
        // One pool of two threads; a connection for each client.
        let setup = Setup {
            sorted: false,
            banded: false,
            declared: true,
            heap,
            allocating,
            ordinary_below: 1000,
            connections: 200,
            probe: true,
            ..Setup::lanes(&[PRIORITY, PRIORITY + 1])
        };
        let workload = Workload::start(cx, subject, &setup, None)?;
        workload.pause();
        workloads.push(workload);
    }
    let structures = Role { call: Call::Structures(READINGS), ..Role::default() };
    let octets = Role { call: Call::Raw, payload: READINGS * READING as u32, ..structures };
    // The raw sockets are in the process with scopes.
    let subjects = [(SCOPE, 0, structures), (HEAP, 1, structures), (BARE, 0, octets), (AGAIN, 0, octets)];
    for &threads in numbers {
        // One client alone makes 300 calls, too.
        let ms = cx.ms(if threads == 1 { 2_010 } else { 500 }, 1_000);
        let measured = if threads == MOST { &subjects[..] } else { &subjects[..2] };
        let mut all: Vec<Series<()>> = measured.iter().map(|_| Series::default()).collect();
        for round in 1..=rounds {
            cx.progress(format!("{NAME}: {figure}, {threads}, round {round}"));
            for (&(_, server, call), series) in measured.iter().zip(&mut all) {
                let clients = Role { threads, hz: HZ, priority: Some(PRIORITY), ..call };
                workloads[server].resume();
                let results = workloads[server].run(&Plan { ms, roles: vec![clients] });
                workloads[server].pause();
                results?.into_iter().for_each(|results| series.add(results.latencies));
            }
        }
        for ((subject, ..), series) in measured.iter().zip(all) {
            out.row(figure, subject, threads, series.values());
        }
    }
    workloads.into_iter().for_each(Workload::end);
    Ok(())
}

/// Scatter of one subject over that of another, at each number of clients.
fn scatters(r: &dyn Cells, of: (&str, &str), to: (&str, &str)) -> Vec<f64> {
    let [of, to] = [of, to].map(|(figure, subject)| r.values(figure, subject, "stddev_ns"));
    of.iter().zip(to).map(|(of, to)| of / to.max(1.0)).collect()
}

fn claims() -> Vec<Claim> {
    let pressed = |r: &dyn Cells| scatters(r, (PRESSED, HEAP), (PRESSED, SCOPE));
    let mut claims = claims! {
        paper Above(2.0), "200 clients wait {0:.0} times as long as one ({limit})",
            |r| [r.growth(CALM, SCOPE, "mean_ns", [1.0, MOST.into()])];
        paper Above(0.5), "while others use it, the heap scatters more than scopes at {1} of {2} places \
             (at {0:.2} of them, {limit}; the paper: at all)",
            move |r| {
                let ratios = pressed(r);
                let (wins, all) =
                    (ratios.iter().filter(|&&ratio| ratio > 1.0).count() as f64, ratios.len() as f64);
                [wins / all, wins, all]
            };
        control AtLeast(2.0), "at most it scatters {0:.1} times as much as scopes ({limit}); without \
             other users of the heap {1:.2} times",
            move |r| [most(pressed(r)), most(scatters(r, (CALM, HEAP), (CALM, SCOPE)))];
        aim AtMost(2.0), "scopes scatter at most {0:.2} times as much while others use the heap as \
             without them ({limit})", |r| [most(scatters(r, (PRESSED, SCOPE), (CALM, SCOPE)))];
    };
    for (figure, words) in [(CALM, "200 clients"), (PRESSED, "200 clients while others use the heap")] {
        let tail = Tail { figure, subject: SCOPE, bare: BARE, again: AGAIN, x: MOST.into() };
        claims.extend(tail.of_few(words, [1.2, 1.5]));
    }
    claims
}
