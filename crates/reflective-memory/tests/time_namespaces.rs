//! Reported age against true age: each node is a process in a time namespace of its own, so that
//! their clocks are years apart, and true time is the one clock that time namespaces leave alone,
//! `CLOCK_REALTIME`. The error stays within the stated bound for each value, under standing queues
//! of 6 to 1,000 ms, known from messages alone and with a common clock. Clocks that drift are
//! simulated in `src/agents/tests/clocks.rs`.
//!
//! Skipped with a message where there is no right to make namespaces.

mod world;

use isorb::Reference;
use isorb_netlab::{Host, Lab, LinkSpec, Sorting};
use isorb_reflective_memory::Library;
use isorb_reflective_memory::coordinator::{Coordinator, MemoryStore};
use isorb_reflective_memory::idl::{Area, Glob_CommRef, ReaderQoS, WriterQoS};
use isorb_reflective_memory::memory::Sample;
use isorb_reflective_memory::node::{NodeServer, ServerConfig};
use isorb_rt::common_clock::CommonClockConfig;
use isorb_rt::sync::PiMutex;
use isorb_rt::time::now_ns;
use isorb_testkit::{Process, RunningOrb, TempFolder, wait_for};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use world::{SILENCE, orb_on};

const LINK_KBIT: u32 = 2_000;
const PERIOD: Duration = Duration::from_millis(20);
/// A packet takes 5.8 ms of the link. The queue holds more than a second of them.
const PACKET: usize = 1_400;
const PACKETS: u32 = 250;
/// A socket has at most about 90 packets on their way.
const SOCKETS: usize = 4;
/// The times since boot that the nodes' clocks are ahead: 400 days and 3.
const AHEAD: [(&str, u64); 2] = [("near", 400 * 86_400), ("far", 3 * 86_400)];
/// A value: when it was begun in true time, and when the last ones before it were complete.
const ENDS: usize = 8;
const SIZE: usize = 8 * (1 + ENDS);

/// What a node's process is started with: its name, address, coordinator, and whether it reads a
/// common clock.
const NODE: &str = "ISORB_TEST_NODE";

fn true_ns() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64
}

/// Not a test by itself: a node in a time namespace.
#[test]
fn serves_in_a_time_namespace() {
    let Ok(node) = std::env::var(NODE) else { return };
    let [name, address, glob, common] = node.split(' ').collect::<Vec<_>>()[..] else { panic!("{node}") };
    let (folder, orb) = (TempFolder::new(), RunningOrb::at(vec![format!("{address}:0")]));
    let socket = folder.file("socket");
    let mut config = ServerConfig { silence: SILENCE, ..ServerConfig::new(name, &socket) };
    config.dispatcher.udp = (address.parse::<Ipv4Addr>().unwrap(), 0).into();
    if common == "common" {
        // It is the same for all: exact, but for the reading.
        config.dispatcher.common_clock = Some(CommonClockConfig { device: None, error_ns: 1 });
    }
    config.admission.link_bits_per_s = u64::from(LINK_KBIT) * 1000;
    let glob: Glob_CommRef = orb.resolve(glob).unwrap();
    let _server = NodeServer::start(&orb, config, Some(glob)).unwrap();
    let library = Library::connect(&orb, &socket).unwrap();
    match name {
        "near" => writes(&library),
        _ => reads(&library),
    }
}

/// Writes until the test has ended.
fn writes(library: &Library) {
    let area = Area::new("line", SIZE as u32, 3);
    let mut writer = library.writer_within(&area, WriterQoS::every(PERIOD), world::TIMEOUT).unwrap();
    eprintln!("READY {}", now_ns());
    let mut words = [0; 1 + ENDS];
    for number in 0.. {
        words[0] = true_ns();
        writer.write(words.map(u64::to_le_bytes).as_flattened()).unwrap();
        words[1 + number % ENDS] = true_ns();
        std::thread::sleep(PERIOD);
    }
}

/// What a reader was shown since the last report.
#[derive(Clone, Copy, Debug, Default)]
struct Shown {
    values: u64,
    /// Values with an age that is certainly further from the true one than it says, and without a
    /// bound.
    wrong: u64,
    unbounded: u64,
    /// The largest certain error, the largest bound and the largest age, in nanoseconds.
    error: u64,
    bound: u64,
    oldest: u64,
}

impl Shown {
    /// A value, when it was read (two looks at this node's clock with one at true time between),
    /// and when it was certainly written.
    fn add(&mut self, sample: &Sample, bound: Option<u64>, [before, at, after]: [u64; 3], written: [u64; 2]) {
        // The reported time of writing, in true time.
        let age = [before, after].map(|now| now.saturating_sub(sample.written_ns));
        let said = [at.saturating_sub(age[1]), at.saturating_sub(age[0])];
        let error = written[0].saturating_sub(said[1]).max(said[0].saturating_sub(written[1]));
        self.values += 1;
        self.oldest = self.oldest.max(age[0]);
        match bound {
            None => self.unbounded += 1,
            Some(bound) => {
                self.wrong += u64::from(error > bound);
                self.error = self.error.max(error);
                self.bound = self.bound.max(bound);
            }
        }
    }
}

/// Checks each value, and reports at each line of the test.
fn reads(library: &Library) {
    let mut reader = library.reader_within("line", ReaderQoS::on_write(), world::TIMEOUT).unwrap();
    let shown = Arc::new(PiMutex::new(Shown::default()));
    let all = shown.clone();
    std::thread::spawn(move || {
        let mut value = [0; SIZE];
        // Values of which the end of writing is not known yet, with the times of reading.
        let mut open: VecDeque<(Sample, Option<u64>, [u64; 3], u64)> = VecDeque::new();
        loop {
            if reader.wait(Duration::from_secs(1)).is_err() {
                continue;
            }
            let Ok(sample) = reader.latest(&mut value) else { continue };
            let times = [now_ns(), true_ns(), now_ns()];
            let bound = sample.age_bound_ns();
            let words: Vec<u64> =
                value.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
            while let Some((earlier, ..)) = open.front() {
                // Sources count from 1, and the writer's numbers from 0.
                let after = (sample.source - earlier.source) as usize;
                let Some((earlier, bound, times, begun)) = open.pop_front() else { break };
                if (1..=ENDS).contains(&after) {
                    let end = words[1 + (earlier.source as usize - 1) % ENDS];
                    all.lock().add(&earlier, bound, times, [begun, end]);
                }
            }
            open.push_back((sample, bound, times, words[0]));
        }
    });
    eprintln!("READY {}", now_ns());
    for line in std::io::stdin().lines() {
        drop(line);
        let Shown { values, wrong, unbounded, error, bound, oldest } = std::mem::take(&mut *shown.lock());
        eprintln!("SHOWN {values} {wrong} {unbounded} {error} {bound} {oldest}");
    }
}

fn shown(far: &mut Process) -> Shown {
    far.write_line("");
    let line = far.expect_line("SHOWN");
    let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
    let [values, wrong, unbounded, error, bound, oldest] = numbers[..] else { panic!("{line}") };
    Shown { values, wrong, unbounded, error, bound, oldest }
}

/// A node's process, and its clock.
fn node(host: &Host, (name, ahead): (&str, u64), glob: &str, common: &str) -> (Process, u64) {
    let mut command = host.command("unshare");
    command.args(["--time", "--fork", "--kill-child"]);
    command.arg(format!("--monotonic={ahead}")).arg(format!("--boottime={ahead}"));
    command.arg(std::env::current_exe().unwrap()).args([
        "--exact",
        "serves_in_a_time_namespace",
        "--nocapture",
    ]);
    command.env(NODE, format!("{name} {} {glob} {common}", host.address()));
    let mut process = Process::start_on_stderr(&mut command);
    let clock = wait_for(format!("the node {name}"), || {
        let line = process.next_line().expect("the node runs");
        line.strip_prefix("READY ").map(|clock| clock.parse().unwrap())
    });
    (process, clock)
}

/// Keeps a queue of so many packets before the right host.
fn stand(lab: &Lab, packets: u32, span: Duration) {
    let bind = || lab.left().run(|| UdpSocket::bind("0.0.0.0:0")).unwrap().unwrap();
    let sockets: Vec<UdpSocket> = (0..SOCKETS).map(|_| bind()).collect();
    sockets.iter().for_each(|socket| socket.set_nonblocking(true).unwrap());
    let send = |number: usize| {
        let _ = sockets[number % SOCKETS].send_to(&[0; PACKET], (lab.right().address(), 9));
    };
    (0..packets as usize).for_each(send);
    let packet = (PACKET + 42) as f64 * 8.0 / f64::from(LINK_KBIT) / 1000.0;
    // The rest of the link is that of the values.
    let interval = Duration::from_secs_f64(packet / 0.93);
    let start = Instant::now();
    for number in 0.. {
        let due = start + interval * number as u32;
        if due.duration_since(start) > span {
            return;
        }
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        send(number);
    }
}

#[test]
fn ages_are_true_within_their_bound_between_clocks_that_are_years_apart() {
    behind_queues("messages", &[(0, 0), (1, 0), (17, 50), (90, 300), (180, 600)]);
}

#[test]
fn ages_are_true_within_their_bound_with_a_common_clock() {
    behind_queues("common", &[(0, 0), (90, 300)]);
}

/// Queues in packets, and the age in milliseconds that they must reach.
fn behind_queues(common: &str, queues: &[(u32, u64)]) {
    let can = Command::new("unshare").args(["--time", "--fork", "--monotonic=86400", "true"]).status();
    if !can.is_ok_and(|status| status.success()) {
        println!("SKIPPED: time namespaces cannot be made here");
        return;
    }
    let spec = LinkSpec { rate_kbit: LINK_KBIT, sorting: Sorting::OneQueue { packets: PACKETS } };
    let Some(lab) = Lab::build_or_skip(&spec) else { return };
    let coordinator = orb_on(lab.left(), None);
    let glob = Coordinator::start(&coordinator, Arc::new(MemoryStore::default())).unwrap();
    let glob = glob.object().object().to_string();
    let (_near, near_clock) = node(lab.left(), AHEAD[0], &glob, common);
    let (mut far, far_clock) = node(lab.right(), AHEAD[1], &glob, common);
    assert!(near_clock.abs_diff(far_clock) > 396 * 86_400 * 1_000_000_000, "{near_clock}, {far_clock}");
    // Until the other node has answered without a queue. Before that a bound is missing or wide.
    wait_for("a bound", || {
        std::thread::sleep(Duration::from_millis(200));
        let shown = shown(&mut far);
        assert_eq!(shown.wrong, 0, "{shown:?}");
        (shown.values > 0 && shown.unbounded == 0 && shown.bound < 50_000_000).then_some(())
    });
    for &(packets, least) in queues {
        let mut tries = Vec::new();
        // A flood that a busy machine starves fills no queue.
        while !tries
            .last()
            .is_some_and(|shown: &Shown| shown.values > 10 && shown.oldest >= least * 1_000_000)
        {
            assert!(tries.len() < 5, "there was no queue of {packets} packets: {tries:?}");
            std::thread::scope(|scope| {
                if packets > 0 {
                    scope.spawn(|| stand(&lab, packets, Duration::from_secs(2)));
                }
                std::thread::sleep(Duration::from_secs(2));
            });
            let shown = shown(&mut far);
            println!("{common}, {packets} packets: {shown:?}");
            assert_eq!((shown.wrong, shown.unbounded), (0, 0), "{packets} packets: {shown:?}");
            // The bound is that of round trips without a queue, and the drift since.
            assert!(
                packets < 90 || shown.oldest < 300_000_000 || shown.bound < shown.oldest / 2,
                "{shown:?}"
            );
            tries.push(shown);
        }
    }
}
