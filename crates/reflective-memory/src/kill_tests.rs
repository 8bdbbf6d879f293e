//! Servers, coordinators and applications killed at any of their steps: every area stays readable
//! with its last complete value, the next server gets the memory back, and readers go on.
//!
//! A test starts this test program again as the victim, which is told at which step to kill itself.

mod library;
mod nodes;

use crate::coordinator::{Coordinator, FileStore, MemoryStore};
use crate::fail_points::chosen;
use crate::idl::{Area, Glob_CommRef, Mode, Path, ReaderQoS, WriterQoS};
use crate::node::{NodeServer, ServerConfig};
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
const ROLE: &str = "ISORB_MEMORY_KILL_ROLE";

/// An ORB with a thread that runs it.
pub(crate) struct Running(pub Orb, Option<std::thread::JoinHandle<()>>);

impl Running {
    pub(crate) fn at(port: u16) -> Running {
        let config = Config { endpoints: vec![format!("127.0.0.1:{port}")], ..Config::default() };
        let orb = Orb::with_config(config).unwrap();
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
        ["node", name, socket, glob, at, ref more @ ..] => {
            orb = Running::at(0);
            let glob: Glob_CommRef = orb.0.resolve(glob).unwrap();
            step = number(at);
            let config = configured(name, FilePath::new(socket), &more.join(" "));
            _node = Some(NodeServer::start(&orb.0, config, Some(glob)).unwrap());
        }
        ["library", socket, name, at] => {
            orb = Running::at(0);
            (_node, step) = (None, number(at));
            library::begin(&orb.0, FilePath::new(socket), name);
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
    // Until the parent process is gone.
    let _ = std::io::stdin().read(&mut [0]);
    std::process::exit(0);
}

/// Of the words, `group=ADDRESS` is where it takes part in multicast, `publish=PORT` where its
/// first path is said to lead to; `second` gives it a second one.
fn configured(name: &str, socket: &FilePath, words: &str) -> ServerConfig {
    let mut config = ServerConfig::new(name, socket);
    for word in words.split_whitespace() {
        match word.split_once('=') {
            Some(("group", group)) => config.dispatcher.multicast = Some(group.parse().unwrap()),
            Some(("publish", port)) => config.publish_port = Some(port.parse().unwrap()),
            None if word == "second" => config.dispatcher.second = Some("127.0.0.1:0".parse().unwrap()),
            _ => panic!("{word}"),
        }
    }
    config
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
        let folder = std::env::temp_dir().join(format!("isorb-memory-kill-{}-{name}", std::process::id()));
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

/// The error of an attempt that is repeated.
pub(crate) fn not_yet(reason: impl Into<String>) -> Error {
    Error::Unavailable(crate::idl::Unavailable { reason: reason.into(), temporary: false })
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

/// How readers elsewhere may read.
const PATHS: [Path; 3] = [Path::PathUdp, Path::PathOrb, Path::PathOneway];

/// What processes of both nodes do with one area; each part is tried as long as the victim lives.
#[derive(Default)]
struct AreaUse {
    paths: Vec<Path>,
    writer: Option<AreaWriter>,
    last: u64,
    near: Vec<AreaReader>,
    far: Vec<AreaReader>,
}

impl AreaUse {
    fn use_area(&mut self, name: &str, near: &Library, far: &Library, lives: &mut dyn FnMut() -> bool) {
        let what = Area { name: name.into(), size: SIZE as u32, histories: 2 };
        let _ = near.create_area(&what);
        if lives() {
            self.writer = near.map_writer(name, QOS).ok();
        }
        for through in self.paths.clone() {
            if lives() {
                self.near.extend(near.attach_reader(name, by(through)));
            }
            if lives() {
                self.far.extend(far.attach_reader(name, by(through)));
            }
            self.write(3, lives);
        }
        if lives() {
            drop(far.attach_reader(name, ReaderQoS { parity: 3, ..by(self.paths[0]) }));
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
            assert_eq!(writer.write(&value(self.last)).unwrap(), self.last, "a writer never waits");
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

    /// Everything works again, for the former readers and for new ones.
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
        for through in [self.paths[0], Path::PathOneway] {
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
