//! Processes that misuse their session, their doorbell and the memory that they may write. The
//! server survives, and other processes are not affected: every value of another area arrives, and
//! every call is answered.

use crate::coordinator::{Coordinator, MemoryStore};
use crate::idl::{Area, Lib_CommRef, Path, ReaderQoS, WriterQoS};
use crate::kill_tests::{SIZE, Victim, arrival, by};
use crate::memory::Segment;
use crate::node::{NodeServer, ServerConfig};
use crate::session_socket::{self, Kind, Message};
use crate::{AreaReader, AreaWriter, Error, Library};
use isorb::{Orb, Reference};
use isorb_testkit::{RunningOrb, TempFolder, retry};
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const PATHS: [Path; 3] = [Path::PathUdp, Path::PathOrb, Path::PathOneway];
/// The octet of the scribbler's values. An area without values consists of zeros.
const OCTET: u8 = 0x5a;
const PERIOD_NS: u64 = 20_000_000;

/// A session by the protocol alone, without the library.
struct RawSession {
    socket: OwnedFd,
    number: u64,
    server: Lib_CommRef,
}

impl RawSession {
    fn open(orb: &Orb, socket: &FilePath) -> Option<RawSession> {
        let socket = session_socket::connect_to(socket).ok()?;
        match session_socket::receive(&socket).ok()?? {
            Message { kind: Kind::Hello, number, text, .. } => {
                let server = orb.resolve::<Lib_CommRef>(&text).ok()?;
                Some(RawSession { socket, number, server })
            }
            _ => None,
        }
    }

    /// An area that this session writes.
    fn area(&self, name: &str) -> Wilderness {
        let what = Area::new(name, SIZE as u32, 2);
        self.server.create_area(self.number, &what).unwrap();
        self.writes(name).unwrap()
    }

    /// The area of this name, if it exists.
    fn writes(&self, name: &str) -> Option<Wilderness> {
        let qos = WriterQoS { period: PERIOD_NS, size: 0, type_hash: 0 };
        let ticket = self.server.map_writer(self.number, name, qos).ok()?;
        let message = session_socket::receive(&self.socket).unwrap().unwrap();
        assert_eq!((message.kind, message.number), (Kind::Segment, ticket));
        Some(Wilderness { file: message.descriptor.unwrap(), doorbell: message.doorbell.unwrap() })
    }
}

/// The descriptors of a writer.
struct Wilderness {
    file: OwnedFd,
    doorbell: OwnedFd,
}

impl Wilderness {
    fn ring(&self, count: u64) {
        let _ = rustix::io::write(&self.doorbell, &count.to_ne_bytes());
    }
}

/// Runs in a process of its own until it is killed.
pub(crate) fn begin(how: &str, orb: &Orb, socket: &FilePath) {
    let session = RawSession::open(orb, socket).unwrap();
    let area = session.area("wild");
    match how {
        "scribbles" => drop(std::thread::spawn(move || scribble(session, area))),
        "rings" => drop(std::thread::spawn(move || ring(session, area))),
        "babbles" => {
            let (orb, socket) = (orb.clone(), socket.to_owned());
            std::thread::spawn(move || babble(&orb, &socket, session, area));
        }
        _ => panic!("{how}"),
    }
}

/// Writes values, and between them overwrites their positions, lengths and numbers.
fn scribble(_session: RawSession, area: Wilderness) {
    /// Of the head: epoch, state and doorbell, period, latest, signal.
    const HEAD: [u64; 5] = [24, 32, 40, 64, 72];
    let segment = Segment::attach(area.file.try_clone().unwrap()).unwrap();
    let file = File::from(segment.writable_fd().unwrap());
    let geometry = segment.geometry();
    let slots = geometry.buffers() as u64;
    // The first buffer follows the head; each begins with mark, length, time, epoch and the number
    // at the source.
    let slot_bytes = (geometry.total_bytes() as u64 - 256) / slots;
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0_u64.. {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        if round % 64 == 0 {
            // A new writer finds arbitrary content.
            let Ok(mut writer) = segment.writer() else { continue };
            let _ = writer.write(&[OCTET; SIZE]);
        }
        let at = match random % 2 {
            0 => HEAD[(random >> 8) as usize % HEAD.len()],
            _ => 256 + (random >> 8) % slots * slot_bytes + (random >> 16) % 5 * 8,
        };
        let what = match (random >> 32) % 5 {
            0 => u64::MAX,
            1 => random,
            2 => (1 << 61) - 1,
            3 => SIZE as u64 + 1,
            _ => (random >> 40) % 16,
        };
        file.write_all_at(&what.to_ne_bytes(), at).unwrap();
        if round % 16 == 0 {
            // A value that every reader must accept, with impossible numbers: mark, length, time,
            // epoch and number.
            let n = [1, (1 << 61) - 1, (1 << 60) + random % 8][(random >> 44) as usize % 3];
            let lie =
                [2 * n, random % SIZE as u64, what, random, [u64::MAX, what][(random >> 50) as usize % 2]];
            let octets: Vec<u8> = lie.iter().flat_map(|word| word.to_ne_bytes()).collect();
            file.write_all_at(&octets, 256 + n % slots * slot_bytes).unwrap();
            file.write_all_at(&n.to_ne_bytes(), 64).unwrap();
        }
        area.ring(1);
        if round == 100_000 {
            // A process that maps it later finds neither size nor number of buffers.
            file.write_all_at(&[0xff; 16], 8).unwrap();
        }
    }
}

/// Rings without end; at intervals so often that the doorbell is full.
fn ring(_session: RawSession, area: Wilderness) {
    let segment = Segment::attach(area.file.try_clone().unwrap()).unwrap();
    let mut writer = segment.writer().unwrap();
    for round in 0_u64.. {
        area.ring(1);
        if round % 1000 == 0 {
            area.ring(u64::MAX - 1);
            let _ = writer.write(&[OCTET; SIZE]);
            let _ = rustix::io::read(&area.doorbell, &mut [0; 8]);
        }
    }
}

/// Sends messages without end and reads no answer. The server ends the session after an invalid
/// message; then the process opens another and keeps the doorbells.
fn babble(orb: &Orb, socket: &FilePath, first: RawSession, area: Wilderness) {
    let null = File::open("/dev/null").unwrap();
    let (mut session, mut doorbells) = (first, VecDeque::from([area]));
    loop {
        for number in 0..1000 {
            let descriptor = (number % 2 == 0).then(|| null.as_fd());
            let descriptor = descriptor.as_slice();
            let _ = session_socket::send(&session.socket, Kind::HandBack, number, "4096 other", descriptor);
            doorbells.iter().for_each(|area| area.ring(1));
        }
        while session_socket::send(&session.socket, Kind::Hello, 0, "", &[]).is_ok() {}
        let Some(next) = RawSession::open(orb, socket) else { continue };
        session = next;
        doorbells.extend(session.writes("wild"));
        if doorbells.len() > 100 {
            doorbells.pop_front();
        }
    }
}

#[test]
fn a_process_that_hands_back_forged_areas_does_not_fill_the_node() {
    let folder = TempFolder::new();
    let (server, app) = (RunningOrb::new(), RunningOrb::new());
    let mut config = ServerConfig::new("near", folder.file("near"));
    config.limits.areas = 20;
    config.limits.handed_back = 5;
    let node = NodeServer::start(&server, config, None).unwrap();
    let hand_back = |session: &RawSession, name: &str| {
        let segment = Segment::create(name, crate::memory::Geometry::new(64, 1).unwrap()).unwrap();
        let file = segment.writable_fd().unwrap();
        session_socket::send(
            &session.socket,
            Kind::HandBack,
            PERIOD_NS,
            &format!("64 {name}"),
            &[file.as_fd()],
        )
        .unwrap();
        let answer = session_socket::receive(&session.socket).unwrap().unwrap();
        assert_eq!(answer.kind, Kind::Adopted);
        answer.number != 0
    };
    // Another session of the same process.
    let sessions = [(); 2].map(|()| RawSession::open(&app, &folder.file("near")).unwrap());
    let taken = (0..30).filter(|n| hand_back(&sessions[n % 2], &format!("forged/{n}"))).count();
    assert_eq!(taken, 5);
    assert_eq!(node.status(0).0.refused_back, 25);
    assert_eq!(node.counts().0, 5);
    // Other processes find room, and a destroyed area makes room.
    let library = Library::connect(&app, folder.file("near")).unwrap();
    library.create_area(&Area::new("sound", 64, 1)).unwrap();
    library.destroy_area("forged/0").unwrap();
    assert!(hand_back(&sessions[0], "one more") && !hand_back(&sessions[1], "too many"));
}

#[test]
fn an_area_beyond_the_nodes_memory_is_not_taken_back() {
    let folder = TempFolder::new();
    let (server, app) = (RunningOrb::new(), RunningOrb::new());
    let mut config = ServerConfig::new("near", folder.file("near"));
    config.limits.bytes = 1 << 20;
    let node = NodeServer::start(&server, config, None).unwrap();
    let session = RawSession::open(&app, &folder.file("near")).unwrap();
    let segment = Segment::create("large", crate::memory::Geometry::new(2 << 20, 1).unwrap()).unwrap();
    let text = format!("{} large", 2 << 20);
    let file = segment.writable_fd().unwrap();
    session_socket::send(&session.socket, Kind::HandBack, PERIOD_NS, &text, &[file.as_fd()]).unwrap();
    let answer = session_socket::receive(&session.socket).unwrap().unwrap();
    assert_eq!((answer.kind, answer.number), (Kind::Adopted, 0));
    assert_eq!((node.status(0).0.refused_back, node.status(0).0.bytes.0), (1, 0));
}

/// A node with a server in a process of its own, a second node that reads, and an area that the
/// hostile process does not use.
struct Scene {
    server: Victim,
    socket: PathBuf,
    near: Library,
    far: Library,
    writer: AreaWriter,
    readers: Vec<AreaReader>,
    last: u64,
    // In this order they end.
    _far_server: NodeServer,
    _app: RunningOrb,
    _orbs: [RunningOrb; 2],
    _folder: TempFolder,
}

impl Scene {
    fn new() -> Scene {
        let folder = TempFolder::new();
        let orbs = [RunningOrb::new(), RunningOrb::new()];
        let glob = Coordinator::start(&orbs[0], Arc::new(MemoryStore::default())).unwrap();
        let glob = glob.object().object().to_string();
        let (socket, far_socket) = (folder.file("near"), folder.file("far"));
        let config = ServerConfig::new("far", &far_socket);
        let far_server = NodeServer::start(&orbs[1], config, Some(orbs[1].resolve(&glob).unwrap())).unwrap();
        let server = Victim::start(&format!("node near {} {glob} -1", socket.display()));
        let app = RunningOrb::new();
        let near = retry("the node", || Library::connect(&app, &socket));
        let far = Library::connect(&app, &far_socket).unwrap();
        near.create_area(&Area::new("sound", 64, 2)).unwrap();
        let writer =
            near.map_writer("sound", WriterQoS { period: PERIOD_NS, size: 0, type_hash: 0 }).unwrap();
        let mut readers: Vec<AreaReader> =
            PATHS.map(|path| far.attach_reader("sound", by(path)).unwrap()).into();
        let sure = ReaderQoS { guaranteed: true, deadline: PERIOD_NS, ..by(Path::PathUdp) };
        readers.push(far.attach_reader("sound", sure).unwrap());
        let (_far_server, _app, _orbs, _folder) = (far_server, app, orbs, folder);
        Scene { server, socket, near, far, writer, readers, last: 0, _far_server, _app, _orbs, _folder }
    }

    /// Each of `values` values arrives on all paths before the next is written.
    fn goes_on(&mut self, what: &str, values: u64, mut meanwhile: impl FnMut()) {
        for _ in 0..values {
            self.last = self.writer.write(&[self.last as u8; 64]).unwrap();
            for (path, reader) in self.readers.iter_mut().enumerate() {
                let out = arrival(format!("{what}: path {path}"), reader, self.last);
                assert_eq!(out, [(self.last - 1) as u8; 64], "{what}");
            }
            meanwhile();
            assert!(self.server.lives(), "{what}: the server ended");
        }
    }

    /// Set-up works as well: an area is created, read on all paths, and destroyed.
    fn answers(&self, what: &str, name: &str) {
        let area = Area::new(name, SIZE as u32, 2);
        // A repeated call, after a late answer, reports the first one's effect.
        retry(what, || match self.near.create_area(&area) {
            Err(Error::AreaExists(exists)) if exists.what == area => Ok(()),
            other => other,
        });
        let qos = WriterQoS { period: 0, size: 0, type_hash: 0 };
        let mut writer = retry(what, || self.near.map_writer(name, qos));
        for path in PATHS {
            let mut reader = retry(what, || self.far.attach_reader(name, by(path)));
            let last = writer.write(&[7; SIZE]).unwrap();
            arrival(format!("{what}: {name} by {path:?}"), &mut reader, last);
        }
        drop(writer);
        retry(what, || match self.near.destroy_area(name) {
            Err(Error::UnknownArea(_)) => Ok(()),
            other => other,
        });
    }

    fn hostile(&self, how: &str) -> Victim {
        Victim::start(&format!("hostile {how} {}", self.socket.display()))
    }

    /// The number of descriptors that the server's pollers watch.
    fn watched(&self) -> usize {
        let folder = format!("/proc/{}/fdinfo", self.server.process.id());
        let of = |file: std::io::Result<std::fs::DirEntry>| {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap_or_default();
            text.lines().filter(|line| line.starts_with("tfd:")).count()
        };
        std::fs::read_dir(folder).unwrap().map(of).sum()
    }
}

/// Reads of the area that is overwritten.
#[derive(Default, Debug)]
struct Wild {
    values: u64,
    errors: u64,
}

impl Wild {
    fn look(&mut self, reader: &mut AreaReader) {
        let mut out = [0; SIZE];
        match reader.latest(&mut out) {
            Ok(sample) => {
                assert!(out[..sample.len].iter().all(|octet| [0, OCTET].contains(octet)), "not its own");
                self.values += 1;
            }
            Err(_) => self.errors += 1,
        }
    }
}

#[test]
fn a_process_that_scribbles_over_its_area_harms_that_area_only() {
    let mut scene = Scene::new();
    scene.goes_on("before", 3, || ());
    let mut hostile = scene.hostile("scribbles");
    let (mut here, mut there) = (Wild::default(), [(); 3].map(|()| Wild::default()));
    let mut near = retry("a reader", || scene.near.attach_reader("wild", by(Path::PathUdp)));
    let mut far = PATHS.map(|path| retry("a reader elsewhere", || scene.far.attach_reader("wild", by(path))));
    let mut look = || {
        (0..100).for_each(|_| here.look(&mut near));
        far.iter_mut().zip(&mut there).for_each(|(reader, seen)| seen.look(reader));
    };
    scene.goes_on("while one scribbles", 60, &mut look);
    scene.answers("while one scribbles", "new");
    scene.goes_on("while one scribbles", 60, &mut look);
    assert!(hostile.lives(), "it scribbled until now");
    assert!(here.errors > 0, "what it wrote was nonsense: {here:?}");
    assert!(there.iter().all(|seen| seen.values > 0), "and it was pushed: {there:?}");
    hostile.process.kill();
    scene.goes_on("afterwards", 3, || ());
    // The area itself works again after it has been created anew.
    drop((near, far));
    retry("destroying it", || scene.near.destroy_area("wild"));
    scene.answers("afterwards", "wild");
}

#[test]
fn a_process_that_rings_without_end_does_not_block_the_others() {
    let mut scene = Scene::new();
    scene.goes_on("before", 3, || ());
    let mut hostile = scene.hostile("rings");
    let _far = PATHS.map(|path| retry("a reader", || scene.far.attach_reader("wild", by(path))));
    scene.goes_on("while one rings", 60, || ());
    scene.answers("while one rings", "new");
    scene.goes_on("while one rings", 60, || ());
    assert!(hostile.lives(), "it rang until now");
    hostile.process.kill();
    scene.goes_on("afterwards", 3, || ());
}

#[test]
fn a_process_that_floods_its_session_stops_no_other_session() {
    let mut scene = Scene::new();
    scene.goes_on("before", 3, || ());
    let before = scene.watched();
    let mut hostile = scene.hostile("babbles");
    let _far = PATHS.map(|path| retry("a reader", || scene.far.attach_reader("wild", by(path))));
    scene.goes_on("while one babbles", 60, || ());
    scene.answers("while one babbles", "new");
    scene.goes_on("while one babbles", 60, || ());
    assert!(hostile.lives(), "it sent until now");
    // The process keeps a hundred doorbells of ended writers; the server watches only the present
    // one.
    let most = before + 20;
    assert!(before > 2 && scene.watched() < most, "{} watched, {before} before", scene.watched());
    hostile.process.kill();
    scene.goes_on("afterwards", 3, || ());
}

/// Processor time of the server's session thread, in ticks of a hundredth of a second.
fn session_ticks(server: &Victim) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.process.id())).unwrap();
    let is_session = |folder: &PathBuf| {
        std::fs::read_to_string(folder.join("comm")).is_ok_and(|name| name.trim().ends_with("-sessions"))
    };
    let folder = tasks.map(|task| task.unwrap().path()).find(is_session).expect("the session thread");
    let stat = std::fs::read_to_string(folder.join("stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    // User and system time, the 14th and 15th field of the line.
    fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

#[test]
fn a_server_without_descriptors_waits_and_accepts_sessions_again() {
    let mut scene = Scene::new();
    scene.goes_on("before", 3, || ());
    let pid = scene.server.pid();
    let limit = getrlimit(Resource::Nofile);
    prlimit(Some(pid), Resource::Nofile, Rlimit { current: Some(3), ..limit }).unwrap();
    let waiting = session_socket::connect_to(&scene.socket).unwrap();
    let before = session_ticks(&scene.server);
    std::thread::sleep(Duration::from_secs(1));
    let ticks = session_ticks(&scene.server) - before;
    assert!(ticks < 25, "the session thread spins: {ticks} ticks of 100");
    scene.goes_on("without descriptors", 20, || ());
    prlimit(Some(pid), Resource::Nofile, limit).unwrap();
    let hello = session_socket::receive(&waiting).unwrap().unwrap();
    assert_eq!(hello.kind, Kind::Hello);
    scene.answers("afterwards", "new");
}

#[test]
fn a_client_with_only_the_servers_reference_cannot_act_for_a_process() {
    let mut scene = Scene::new();
    scene.goes_on("before", 3, || ());
    let orb = RunningOrb::new();
    let own = RawSession::open(&orb, &scene.socket).unwrap();
    let what = Area::new("forged", 64, 2);
    let near = (1..200).chain((0..9).map(|bit| own.number ^ (1 << bit)));
    for number in near {
        assert!(own.server.create_area(number, &what).is_err(), "{number}");
        assert!(own.server.destroy_area(number, "sound").is_err(), "{number}");
        assert!(own.server.detach(number, number % 16).is_err(), "{number}");
    }
    own.server.create_area(own.number, &what).unwrap();
    scene.goes_on("afterwards", 3, || ());
}
