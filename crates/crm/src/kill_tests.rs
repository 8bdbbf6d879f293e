//! Servers killed at any of their steps: every area stays readable with its last complete value, the next server gets the memory back, and
//! readers go on.
//!
//! A test starts this test program again as the victim, which is told at which step to kill itself.

use crate::coordinator::{Coordinator, FileStore, MemoryStore};
use crate::idl::{Area, Glob_CommRef, Mode, Path, ReaderQoS, WriterQoS};
use crate::node::{NodeServer, ServerConfig};
use crate::steps::{Step, chosen};
use crate::{AreaReader, AreaWriter, Error, Library};
use isorb::{Config, Orb, Reference};
use isorb_rt::time::Deadline;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path as FilePath, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Generous: the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const SIZE: usize = 5_000;
const ROLE: &str = "ISORB_CRM_KILL_ROLE";

/// An ORB with a thread that runs it.
pub(crate) struct Running(pub Orb, Option<std::thread::JoinHandle<()>>);

impl Running {
    pub(crate) fn at(port: u16) -> Running {
        let config = Config { endpoints: vec![format!("127.0.0.1:{port}")], ..Config::default() };
        let orb = Orb::with_config(config);
        orb.root_poa().unwrap();
        let background = orb.clone();
        Running(orb, Some(std::thread::spawn(move || background.run())))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.shutdown(true);
        let _ = self.1.take().unwrap().join();
    }
}

/// Runs in the second process only; as a test of its own it has nothing to do.
#[test]
fn victim() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let words: Vec<&str> = role.split(' ').collect();
    let number = |word: &str| word.parse::<i64>().unwrap();
    let mut said = String::from("here");
    let (_node, step, orb);
    match words[..] {
        ["node", name, socket, glob, at] => {
            orb = Running::at(0);
            let glob: Glob_CommRef = orb.0.resolve(glob).unwrap();
            step = number(at);
            _node = Some(NodeServer::start(&orb.0, ServerConfig::new(name, socket), Some(glob)).unwrap());
        }
        ["coordinator", port, store, at] => {
            orb = Running::at(number(port) as u16);
            Coordinator::start(&orb.0, Arc::new(FileStore::open(store).unwrap())).unwrap();
            (_node, step) = (None, number(at));
            said = orb.0.endpoint_addresses()[0].1.to_string();
        }
        ["hostile", how, socket] => {
            orb = Running::at(0);
            (_node, step) = (None, -1);
            crate::hostile_tests::begin(how, &orb.0, FilePath::new(socket));
        }
        _ => panic!("{role}"),
    }
    if let Ok(step) = u32::try_from(step) {
        chosen::choose(step, 0);
    }
    writeln!(std::io::stderr(), "READY {said}").unwrap();
    // Until whoever started it is gone.
    let _ = std::io::stdin().read(&mut [0]);
    std::process::exit(0);
}

/// Another process; killed at the end.
pub(crate) struct Victim(pub Child, pub String);

impl Victim {
    pub(crate) fn start(role: &str) -> Victim {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill_tests::victim", "--test-threads", "1"])
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let said = line.trim().strip_prefix("READY ").unwrap_or_else(|| panic!("{role}: {line}")).to_owned();
        std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        Victim(child, said)
    }

    pub(crate) fn lives(&mut self) -> bool {
        match self.0.try_wait().unwrap() {
            None => true,
            Some(status) => {
                assert_eq!(status.signal(), Some(9), "the victim failed instead of being killed");
                false
            }
        }
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("isorb-crm-kill-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) const QOS: WriterQoS = WriterQoS { period: 0, size: 0 };

pub(crate) fn by(through: Path) -> ReaderQoS {
    let (how, period, deadline, histories) = (Mode::PushOnWrite, 0, 0, 1);
    ReaderQoS { how, period, deadline, histories, guaranteed: false, through, parity: 0 }
}

fn value(n: u64) -> [u8; SIZE] {
    [n as u8 ^ 0x5a; SIZE]
}

/// Whatever can be read is a whole value that was written. Gives its number.
fn whole(reader: &mut AreaReader) -> u64 {
    let mut out = [0; SIZE];
    match reader.latest(&mut out) {
        Ok(sample) => {
            assert!(out == value(sample.source) && sample.len == SIZE, "value {} is torn", sample.source);
            sample.source
        }
        Err(crate::memory::ReadError::Empty) => 0,
        Err(error) => panic!("{error}"),
    }
}

fn until(what: &str, reader: &mut AreaReader, number: u64) {
    let deadline = Deadline::after(PATIENCE);
    while whole(reader) < number {
        assert!(!deadline.is_past(), "{what}: value {number} did not come; state {:?}", reader.state());
        let _ = reader.wait(Duration::from_millis(100));
    }
}

pub(crate) fn sooner_or_later<T>(what: &str, mut attempt: impl FnMut() -> Result<T, Error>) -> T {
    let deadline = Deadline::after(PATIENCE);
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(error) => assert!(!deadline.is_past(), "{what}: {error}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What processes of both nodes do with one area; each part is tried as long as the victim lives.
#[derive(Default)]
struct Work {
    writer: Option<AreaWriter>,
    last: u64,
    near: Vec<AreaReader>,
    far: Vec<AreaReader>,
}

impl Work {
    fn do_it(&mut self, name: &str, near: &Library, far: &Library, lives: &mut dyn FnMut() -> bool) {
        let what = Area { name: name.into(), size: SIZE as u32, histories: 2 };
        let _ = near.create_area(&what);
        if lives() {
            self.writer = near.map_writer(name, QOS).ok();
        }
        for through in [Path::PathUdp, Path::PathOrb, Path::PathOneway] {
            if lives() {
                self.near.extend(near.attach_reader(name, by(through)));
            }
            if lives() {
                self.far.extend(far.attach_reader(name, by(through)));
            }
            self.write(3, lives);
        }
        if lives() {
            drop(far.attach_reader(name, ReaderQoS { parity: 3, ..by(Path::PathUdp) }));
        }
        let other = Area { name: format!("{name}-other"), ..what };
        if lives() && near.create_area(&other).is_ok() && lives() {
            let _ = near.destroy_area(&other.name);
        }
        self.write(3, lives);
    }

    fn write(&mut self, times: u32, lives: &mut dyn FnMut() -> bool) {
        let Some(writer) = &mut self.writer else { return };
        for _ in 0..times {
            self.last = writer.sequence() + 1;
            assert_eq!(writer.write(&value(self.last)).unwrap(), self.last, "a writer waits for nobody");
            for reader in &mut self.near {
                assert_eq!(whole(reader), self.last, "within the node nothing stops");
            }
            let deadline = Deadline::after(PATIENCE);
            while lives() && self.far.iter_mut().any(|reader| whole(reader) < self.last) {
                assert!(!deadline.is_past(), "value {} did not come", self.last);
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// All is well again, for those who were there and for those who come now.
    fn goes_on(&mut self, at: &str, name: &str, near: &Library, far: &Library) {
        for reader in &mut self.near {
            assert_eq!(whole(reader), self.last, "{at}: the last complete value");
        }
        self.far.iter_mut().for_each(|reader| assert!(whole(reader) <= self.last, "{at}: invented"));
        if self.writer.is_none() {
            let what = Area { name: name.into(), size: SIZE as u32, histories: 2 };
            self.writer = Some(sooner_or_later(at, || {
                match near.create_area(&what) {
                    Ok(()) | Err(Error::AreaExists(_)) => {}
                    Err(error) => return Err(error),
                }
                near.map_writer(name, QOS)
            }));
        }
        for through in [Path::PathUdp, Path::PathOneway] {
            self.near.push(sooner_or_later(at, || near.attach_reader(name, by(through))));
            self.far.push(sooner_or_later(at, || far.attach_reader(name, by(through))));
            let writer = self.writer.as_mut().unwrap();
            self.last = writer.sequence() + 1;
            writer.write(&value(self.last)).unwrap();
            for reader in self.near.iter_mut().chain(&mut self.far) {
                until(at, reader, self.last);
            }
        }
        sooner_or_later(at, || match near.destroy_area(name) {
            Err(Error::UnknownArea(_)) => Ok(()),
            other => other,
        });
    }
}

/// Kills node `which` (0 the writer's, 1 the reader's) at each of the steps.
fn kill_a_node(which: usize, steps: &[Step]) {
    let folder = Folder::new(&format!("{which}-{:?}", steps[0]));
    let coordinator = Running::at(0);
    let glob = Coordinator::start(&coordinator.0, Arc::new(MemoryStore::default())).unwrap();
    let glob = glob.object().object().to_string();
    let sockets = [folder.file("near"), folder.file("far")];
    let names = ["near", "far"];
    let other_orb = Running::at(0);
    let config = ServerConfig::new(names[1 - which], &sockets[1 - which]);
    let other = NodeServer::start(&other_orb.0, config, Some(other_orb.0.resolve(&glob).unwrap())).unwrap();
    let start = |step: i64| {
        Victim::start(&format!("node {} {} {glob} {step}", names[which], sockets[which].display()))
    };
    let app = Running::at(0);
    for &step in steps {
        let at = format!("{} at {step:?}", names[which]);
        let adopts = matches!(step, Step::AdoptBegun | Step::AdoptRegistered | Step::Adopted);
        let mut victim = start(if adopts { -1 } else { step as i64 });
        let library = |socket: &FilePath| sooner_or_later(&at, || Library::connect(&app.0, socket));
        let mut work = Work::default();
        let near = Library::connect(&app.0, &sockets[0]);
        let far = Library::connect(&app.0, &sockets[1]);
        if let (Ok(near), Ok(far)) = (&near, &far) {
            work.do_it(&at, near, far, &mut || victim.lives());
        }
        if adopts {
            victim.kill();
            victim = start(step as i64);
        }
        // A library that leaves.
        drop(far);
        if which == 0 && victim.lives() {
            drop(Library::connect(&app.0, &sockets[0]));
        }
        let deadline = Deadline::after(PATIENCE);
        while victim.lives() {
            assert!(!deadline.is_past(), "{at}: it lives on");
            std::thread::sleep(Duration::from_millis(5));
        }
        work.write(2, &mut || false);
        let _next = start(-1);
        let near = near.unwrap_or_else(|_| library(&sockets[0]));
        let far = library(&sockets[1]);
        work.goes_on(&at, &at, &near, &far);
    }
    drop(other);
}

#[test]
fn a_writers_server_killed_while_areas_are_made_and_handed_back() {
    use Step::*;
    kill_a_node(
        0,
        &[
            Welcomed,
            CreateAsked,
            CreateRegistered,
            Created,
            WriterEntered,
            WriterHandedOver,
            ReaderEntered,
            ReaderHandedOver,
            DestroyTaken,
            DestroyTold,
            DestroyEnded,
            AdoptBegun,
            AdoptRegistered,
            Adopted,
            SessionLeft,
        ],
    );
}

#[test]
fn a_writers_server_killed_while_it_pushes() {
    use Step::*;
    let steps =
        [ChannelAsked, ChannelReplaced, ChannelStarted, ChannelClosed, Rung, DatagramMade, DatagramSent];
    kill_a_node(0, &steps);
}

#[test]
fn a_readers_server_killed_at_any_step() {
    use Step::*;
    kill_a_node(
        1,
        &[
            ReplicaDescribed,
            ReplicaReady,
            ReplicaOpened,
            ReplicaHandedOver,
            ReplicaForgotten,
            Detached,
            DatagramCame,
            PieceTaken,
            ValueAboutToShow,
            ValueShown,
            CallCame,
            CallShown,
        ],
    );
}

#[test]
fn a_coordinator_killed_at_any_step_stops_no_value_and_remembers() {
    use Step::*;
    let folder = Folder::new("coordinator");
    let (app, near_orb, far_orb) = (Running::at(0), Running::at(0), Running::at(0));
    let store = folder.file("store.redb");
    let start =
        |port: &str, step: i64| Victim::start(&format!("coordinator {port} {} {step}", store.display()));
    let first = start("0", -1);
    let port = first.1.clone();
    let glob = format!("corbaloc::1.2@127.0.0.1:{port}/ReflectiveMemory");
    let sockets = [folder.file("near"), folder.file("far"), folder.file("third")];
    let server = |orb: &Running, which: usize| {
        let config = ServerConfig::new(["near", "far", "third"][which], &sockets[which]);
        let glob = orb.0.resolve::<Glob_CommRef>(&glob)?;
        NodeServer::start(&orb.0, config, Some(glob))
    };
    let (_near, _far) = (server(&near_orb, 0).unwrap(), server(&far_orb, 1).unwrap());
    let near = Library::connect(&app.0, &sockets[0]).unwrap();
    let far = Library::connect(&app.0, &sockets[1]).unwrap();
    drop(first);
    for step in [NodeCame, NodeStored, AreaCame, AreaStored, AreaLeaves, AreaForgotten, Located] {
        let at = format!("coordinator at {step:?}");
        let mut victim = start(&port, step as i64);
        let mut work = Work::default();
        work.do_it(&at, &near, &far, &mut || victim.lives());
        if victim.lives() {
            let third = Running::at(0);
            // Which may be what the victim dies of, at the latest now.
            let _ = server(&third, 2);
        }
        // The servers may not have found this coordinator when they were asked: what did not come to it is done again.
        let deadline = Deadline::after(PATIENCE);
        for again in 1.. {
            if !victim.lives() {
                break;
            }
            assert!(!deadline.is_past(), "{at}: it lives on");
            Work::default().do_it(&format!("{at}, again {again}"), &near, &far, &mut || victim.lives());
            std::thread::sleep(Duration::from_millis(5));
        }
        // Values need no coordinator.
        work.write(2, &mut || true);
        let _next = start(&port, -1);
        work.goes_on(&at, &at, &near, &far);
    }
}

#[test]
fn a_coordinator_without_memory_learns_everything_from_the_servers() {
    let folder = Folder::new("forgetful");
    let (app, near_orb, far_orb) = (Running::at(0), Running::at(0), Running::at(0));
    let store = folder.file("store.redb");
    let start = |port: &str| Victim::start(&format!("coordinator {port} {} -1", store.display()));
    let mut coordinator = start("0");
    let port = coordinator.1.clone();
    let glob = format!("corbaloc::1.2@127.0.0.1:{port}/ReflectiveMemory");
    let sockets = [folder.file("near"), folder.file("far")];
    let server = |orb: &Running, name: &str, which: usize| {
        let glob = orb.0.resolve::<Glob_CommRef>(&glob).unwrap();
        NodeServer::start(&orb.0, ServerConfig::new(name, &sockets[which]), Some(glob)).unwrap()
    };
    let (_near, _far) = (server(&near_orb, "near", 0), server(&far_orb, "far", 1));
    let near = Library::connect(&app.0, &sockets[0]).unwrap();
    let far = Library::connect(&app.0, &sockets[1]).unwrap();
    let what = Area { name: "kept".into(), size: SIZE as u32, histories: 2 };
    near.create_area(&what).unwrap();
    let mut writer = near.map_writer("kept", QOS).unwrap();
    for round in 1..=3 {
        let at = format!("round {round}");
        coordinator.kill();
        std::fs::remove_file(&store).unwrap();
        coordinator = start(&port);
        // Both nodes, and what they hold.
        let mut reader = sooner_or_later(&at, || far.attach_reader("kept", by(Path::PathUdp)));
        let last = writer.write(&value(writer.sequence() + 1)).unwrap();
        until(&at, &mut reader, last);
        let taken = sooner_or_later(&at, || match far.create_area(&what) {
            Err(Error::AreaExists(exists)) => Ok(exists.what),
            other => Err(Error::unavailable(format_args!("{other:?}"))),
        });
        assert_eq!(taken, what, "{at}");
    }
}
