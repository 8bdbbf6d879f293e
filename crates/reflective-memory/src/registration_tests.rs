//! A coordinator that was away, or hung, learns the changes afterwards, and no other process waits
//! for that.

use crate::idl::{Area, Glob_CommRef, Lib_CommRef, Path};
use crate::kill_tests::{QOS, Victim, arrival, by};
use crate::memory::{Geometry, Segment, State};
use crate::node::{NodeServer, ServerConfig};
use crate::session_socket::{self, Kind, Message};
use crate::{AreaWriter, Error, Library};
use isorb_testkit::{RunningOrb, TempFolder, freeze, resume, retry, wait_until};
use rustix::fd::{AsFd, OwnedFd};
use std::path::Path as FilePath;
use std::time::Duration;

/// The least time that a caller waits for the coordinator.
const SHORT: Duration = Duration::from_millis(500);
/// Longer than any test.
const LONG: Duration = Duration::from_secs(180);

struct Fixture {
    folder: TempFolder,
    coordinator: Victim,
    port: String,
    orbs: [RunningOrb; 2],
    app: RunningOrb,
}

impl Fixture {
    fn new() -> Fixture {
        let folder = TempFolder::new();
        let coordinator = Victim::start(&format!("coordinator 0 {} -1", store(&folder)));
        let port = coordinator.ready.clone();
        let orbs = [(); 2].map(|()| RunningOrb::new());
        Fixture { folder, coordinator, port, orbs, app: RunningOrb::new() }
    }

    /// It has its store again, unless the test has removed it.
    fn restart(&mut self) {
        self.coordinator = Victim::start(&format!("coordinator {} {} -1", self.port, store(&self.folder)));
    }

    fn server(&self, which: usize, answer: Duration) -> NodeServer {
        let glob = format!("corbaloc::1.2@127.0.0.1:{}/ReflectiveMemory", self.port);
        // It may be away, or hang.
        let glob: Glob_CommRef = self.orbs[which].string_to_object(&glob).unwrap().unchecked_narrow();
        let config = ServerConfig {
            answer,
            // No node counts as dead because the machine is busy.
            silence: Duration::from_secs(30),
            ..ServerConfig::new(["near", "far"][which], self.folder.file(["near", "far"][which]))
        };
        NodeServer::start(&self.orbs[which], config, Some(glob)).unwrap()
    }

    fn library(&self, which: usize) -> Library {
        Library::connect(&self.app, self.folder.file(["near", "far"][which])).unwrap()
    }
}

fn store(folder: &TempFolder) -> String {
    folder.file("store.redb").display().to_string()
}

fn what(name: &str) -> Area {
    Area::new(name, 64, 2)
}

#[test]
fn areas_that_were_handed_back_while_the_coordinator_hung_are_found_afterwards() {
    let fixture = Fixture::new();
    let (near_server, _far_server) = (fixture.server(0, SHORT), fixture.server(1, LONG));
    let (near, far) = (fixture.library(0), fixture.library(1));
    let mut writers = ["one", "two", "three"].map(|name| {
        retry(name, || near.create_area(&what(name)));
        near.map_writer(name, QOS).unwrap()
    });
    drop(near_server);
    wait_until("the library sees that", || !writers.iter().any(AreaWriter::is_served));
    freeze(fixture.coordinator.process.id());
    // It registers without areas, and the coordinator receives that after the caller has stopped
    // waiting.
    let _near_server = fixture.server(0, SHORT);
    wait_until("they are taken back without its word", || writers.iter().all(AreaWriter::is_served));
    resume(fixture.coordinator.process.id());
    for (name, writer) in ["one", "two", "three"].iter().zip(&mut writers) {
        let mut reader = retry(name, || far.attach_reader(name, by(Path::PathUdp)));
        let last = writer.write(b"found").unwrap();
        arrival("the reader", &mut reader, last);
    }
}

#[test]
fn the_name_of_an_area_that_was_destroyed_while_the_coordinator_was_away_is_free_again() {
    let mut fixture = Fixture::new();
    let (_near_server, _far_server) = (fixture.server(0, LONG), fixture.server(1, LONG));
    let (near, far) = (fixture.library(0), fixture.library(1));
    for name in ["mine", "yours", "larger"] {
        near.create_area(&what(name)).unwrap();
    }
    fixture.coordinator.process.kill();
    for name in ["mine", "yours", "larger"] {
        near.destroy_area(name).expect("it is gone, whether the coordinator knows it or not");
    }
    assert!(near.create_area(&what("mine")).is_err(), "the name may be taken");
    fixture.restart();
    retry("the same node makes it anew", || near.create_area(&what("mine")));
    // Of another size: it is not taken for the one that was there.
    let larger = Area { size: 640, ..what("larger") };
    retry("the same node makes another", || near.create_area(&larger));
    retry("another node makes it", || far.create_area(&what("yours")));
    assert!(matches!(far.create_area(&what("mine")), Err(Error::AreaExists(_))), "that is one again");
}

#[test]
fn an_area_that_is_registered_too_late_does_not_keep_its_name() {
    let fixture = Fixture::new();
    let (_near_server, _far_server) = (fixture.server(0, SHORT), fixture.server(1, LONG));
    let (near, far) = (fixture.library(0), fixture.library(1));
    freeze(fixture.coordinator.process.id());
    assert!(near.create_area(&what("late")).is_err(), "it does not answer");
    resume(fixture.coordinator.process.id());
    retry("another node makes it", || far.create_area(&what("late")));
}

#[test]
fn an_area_that_another_node_made_meanwhile_is_served_there_and_offered_again() {
    let mut fixture = Fixture::new();
    let (near_server, _far_server) = (fixture.server(0, LONG), fixture.server(1, LONG));
    let (near, far) = (fixture.library(0), fixture.library(1));
    near.create_area(&what("wanted")).unwrap();
    let mut writer = near.map_writer("wanted", QOS).unwrap();
    let mut here = near.attach_reader("wanted", by(Path::PathUdp)).unwrap();
    drop(near_server);
    wait_until("the library sees that", || !writer.is_served());
    // A coordinator that knows nothing of it.
    fixture.coordinator.process.kill();
    std::fs::remove_file(store(&fixture.folder)).unwrap();
    fixture.restart();
    retry("the name is free", || far.create_area(&what("wanted")));
    fixture.coordinator.process.kill();
    let near_server = fixture.server(0, LONG);
    wait_until("it is adopted unconfirmed", || writer.is_served());
    fixture.restart();
    wait_until("the coordinator names another node", || !writer.is_served());
    assert_eq!(near_server.counts().0, 0);
    // Processes that have it mapped go on.
    let last = writer.write(b"unserved").unwrap();
    arrival("the reader", &mut here, last);
    far.destroy_area("wanted").unwrap();
    wait_until("it is offered again", || writer.is_served());
    let mut there = retry("and found", || far.attach_reader("wanted", by(Path::PathUdp)));
    arrival("the reader", &mut there, last);
    let last = writer.write(b"served").unwrap();
    arrival("the reader", &mut there, last);
}

/// A session as the protocol has it, its number and the server's reference.
fn session(socket: &FilePath) -> (OwnedFd, u64, String) {
    let socket = session_socket::connect_to(socket).unwrap();
    let Message { kind, number, text, .. } = session_socket::receive(&socket).unwrap().unwrap();
    assert_eq!(kind, Kind::Hello);
    (socket, number, text)
}

fn hand_back(session: &OwnedFd, name: &str) {
    let segment = Segment::create(name, Geometry::new(64, 1).unwrap()).unwrap();
    let file = segment.writable_fd().unwrap();
    session_socket::send(session, Kind::HandBack, 0, &format!("64 {name}"), &[file.as_fd()]).unwrap();
}

#[test]
fn a_coordinator_that_hangs_while_areas_are_handed_back_delays_no_news_of_a_writers_death() {
    let fixture = Fixture::new();
    let _near_server = fixture.server(0, LONG);
    let near = fixture.library(0);
    near.create_area(&what("mortal")).unwrap();
    let mut reader = near.attach_reader("mortal", by(Path::PathUdp)).unwrap();
    let (mortal, number, server) = session(&fixture.folder.file("near"));
    let server: Lib_CommRef = fixture.app.resolve(&server).unwrap();
    server.map_writer(number, "mortal", QOS).unwrap();
    freeze(fixture.coordinator.process.id());
    let sessions = [(); 5].map(|()| session(&fixture.folder.file("near")).0);
    for (number, session) in sessions.iter().enumerate() {
        hand_back(session, &format!("area/{number}"));
    }
    // A second one before the first is answered is refused at once.
    hand_back(&sessions[0], "impatient");
    let answer = session_socket::receive(&sessions[0]).unwrap().unwrap();
    assert!(matches!(answer, Message { kind: Kind::Adopted, number: 0, .. }), "{answer:?}");
    // Its session ends without a word, as a killed process's does; newcomers are welcome.
    drop(mortal);
    wait_until("the writer is gone", || reader.state() == Some(State::WriterGone));
    fixture.library(0).attach_reader("mortal", by(Path::PathUdp)).unwrap();
    resume(fixture.coordinator.process.id());
    for session in &sessions {
        let answer = session_socket::receive(session).unwrap().unwrap();
        assert!(answer.kind == Kind::Adopted && answer.number != 0 && answer.descriptor.is_some());
    }
}
