//! Servers, coordinators and applications killed at any of their steps: every area stays readable
//! with its last complete value, the next server gets the memory back, and readers continue.
//!
//! A test starts this test program again as the victim. An argument names the step at which it
//! kills itself.

mod library;
mod nodes;

use crate::coordinator::{Coordinator, FileStore, MemoryStore};
use crate::fail_points::chosen;
use crate::idl::{Area, Glob_CommRef, Mode, Path, ReaderQoS, WriterQoS};
use crate::node::{NodeServer, ServerConfig};
use crate::{AreaReader, AreaWriter, Error, Library};
use isorb::{Orb, Reference};
use isorb_testkit::{Process, RunningOrb, TempFolder, retry, wait_for, wait_until};
use rustix::process::Pid;
use std::fmt::Display;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path as FilePath;
use std::process::Command;
use std::sync::Arc;

pub(crate) const SIZE: usize = 5_000;
const ROLE: &str = "ISORB_MEMORY_KILL_ROLE";

/// Runs in the second process only; as a test by itself it does nothing.
#[test]
fn victim() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let words: Vec<&str> = role.split(' ').collect();
    let number = |word: &str| word.parse::<i64>().unwrap();
    let mut ready = String::from("here");
    let (_node, step, orb);
    match words[..] {
        ["node", name, socket, glob, at, ref more @ ..] => {
            orb = RunningOrb::new();
            let glob: Glob_CommRef = orb.resolve(glob).unwrap();
            step = number(at);
            let config = configured(name, FilePath::new(socket), &more.join(" "));
            _node = Some(NodeServer::start(&orb, config, Some(glob)).unwrap());
        }
        ["library", socket, name, at] => {
            orb = RunningOrb::new();
            (_node, step) = (None, number(at));
            library::begin(&orb, FilePath::new(socket), name);
        }
        ["coordinator", port, store, at] => {
            orb = RunningOrb::at(vec![format!("127.0.0.1:{port}")]);
            Coordinator::start(&orb, Arc::new(FileStore::open(store).unwrap())).unwrap();
            (_node, step) = (None, number(at));
            ready = orb.endpoint_addresses()[0].1.to_string();
        }
        ["hostile", how, socket] => {
            orb = RunningOrb::new();
            (_node, step) = (None, -1);
            crate::hostile_tests::begin(how, &orb, FilePath::new(socket));
        }
        _ => panic!("{role}"),
    }
    if let Ok(step) = u32::try_from(step) {
        chosen::choose(step, 0);
    }
    writeln!(std::io::stderr(), "READY {ready}").unwrap();
    // Until the parent process ends.
    let _ = std::io::stdin().read(&mut [0]);
    std::process::exit(0);
}

/// The words: `group=ADDRESS` is the multicast group, `publish=PORT` is the published port of its
/// first path, `second` gives it a second path.
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
pub(crate) struct Victim {
    pub process: Process,
    /// The rest of its line `READY`.
    pub ready: String,
}

impl Victim {
    pub(crate) fn start(role: &str) -> Victim {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "kill_tests::victim", "--test-threads", "1"]).env(ROLE, role);
        let mut process = Process::start_on_stderr(&mut command);
        let ready = process.expect_line("READY");
        process.discard_output();
        Victim { process, ready }
    }

    pub(crate) fn lives(&mut self) -> bool {
        let status = self.process.ended();
        let signal = status.map(|status| status.signal());
        assert!(matches!(signal, None | Some(Some(9))), "the victim failed instead of being killed");
        status.is_none()
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.process.id() as i32).unwrap()
    }
}

pub(crate) const QOS: WriterQoS = WriterQoS { period: 0, size: 0, type_hash: 0 };

pub(crate) fn by(through: Path) -> ReaderQoS {
    let (how, period, deadline, histories) = (Mode::PushOnWrite, 0, 0, 1);
    ReaderQoS {
        how,
        period,
        deadline,
        histories,
        guaranteed: false,
        soft: true,
        through,
        parity: 0,
        type_hash: 0,
    }
}

fn value(n: u64) -> [u8; SIZE] {
    [n as u8 ^ 0x5a; SIZE]
}

/// Checks that each value that can be read is one that was written completely. Returns its number.
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
    wait_until(format!("{what}: value {number}"), || whole(reader) >= number);
}

/// Waits for value `number` or a later one, and returns it.
pub(crate) fn arrival(what: impl Display, reader: &mut AreaReader, number: u64) -> Vec<u8> {
    wait_for(format!("{what}: value {number}"), || {
        let mut out = [0; SIZE];
        let sample = reader.latest(&mut out).ok().filter(|sample| sample.source >= number)?;
        Some(out[..sample.len].to_vec())
    })
}

/// The paths of remote readers.
const PATHS: [Path; 3] = [Path::PathUdp, Path::PathOrb, Path::PathOneway];

/// The use of one area by processes of both nodes; each step is made only while the victim lives.
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
        let what = Area::new(name, SIZE as u32, 2);
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
            wait_until(format!("value {}", self.last), || {
                !lives() || self.far.iter_mut().all(|reader| whole(reader) >= self.last)
            });
        }
    }

    /// Everything works again, for the former readers and for new ones.
    fn goes_on(&mut self, at: &str, name: &str, near: &Library, far: &Library) {
        for reader in &mut self.near {
            assert_eq!(whole(reader), self.last, "{at}: the last complete value");
        }
        self.far.iter_mut().for_each(|reader| assert!(whole(reader) <= self.last, "{at}: invented"));
        if self.writer.is_none() {
            let what = Area::new(name, SIZE as u32, 2);
            self.writer = Some(retry(at, || {
                match near.create_area(&what) {
                    Ok(()) | Err(Error::AreaExists(_)) => {}
                    Err(error) => return Err(error),
                }
                near.map_writer(name, QOS)
            }));
        }
        for through in [self.paths[0], Path::PathOneway] {
            self.near.push(retry(at, || near.attach_reader(name, by(through))));
            self.far.push(retry(at, || far.attach_reader(name, by(through))));
            let writer = self.writer.as_mut().unwrap();
            self.last = writer.sequence() + 1;
            writer.write(&value(self.last)).unwrap();
            for reader in self.near.iter_mut().chain(&mut self.far) {
                until(at, reader, self.last);
            }
        }
        retry(at, || match near.destroy_area(name) {
            Err(Error::UnknownArea(_)) => Ok(()),
            other => other,
        });
    }
}
