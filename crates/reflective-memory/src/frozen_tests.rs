//! A node or a coordinator that hangs: its process is stopped, and its sockets stay open. Other
//! nodes are not affected.

use crate::coordinator::{Coordinator, MemoryStore};
use crate::idl::{Area, Path, ReaderQoS};
use crate::kill_tests::{QOS, Victim, arrival, by};
use crate::memory::State;
use crate::node::{NodeServer, ServerConfig};
use crate::{AreaReader, AreaWriter, Error, Library};
use isorb::Reference;
use isorb_testkit::{RunningOrb, TempFolder, freeze, resume, retry, wait_until};
use std::sync::Arc;
use std::time::Duration;

/// Longer than any test: a thread that waits for the answer is late in any case.
const LONG: Duration = Duration::from_secs(180);
const PATHS: [Path; 3] = [Path::PathUdp, Path::PathOrb, Path::PathOneway];

fn area(library: &Library, name: &str) -> AreaWriter {
    library.create_area(&Area::new(name, 64, 2)).unwrap();
    library.map_writer(name, QOS).unwrap()
}

fn on_all_paths(library: &Library, name: &str) -> Vec<AreaReader> {
    PATHS.map(|path| library.attach_reader(name, by(path)).unwrap()).into()
}

fn until_state(what: &str, reader: &mut AreaReader, state: State) {
    wait_until(format!("{what}: {state:?}"), || reader.state() == Some(state));
}

fn node(
    running: &RunningOrb,
    folder: &TempFolder,
    name: &str,
    glob: &str,
    answer: Duration,
) -> (NodeServer, Library) {
    let socket = folder.file(name);
    let config = ServerConfig { answer, ..ServerConfig::new(name, &socket) };
    let server = NodeServer::start(running, config, Some(running.resolve(glob).unwrap())).unwrap();
    (server, Library::connect(running, socket).unwrap())
}

/// Three nodes that read each other's areas on all paths. One of them hangs.
#[test]
fn a_node_that_hangs_delays_no_other() {
    let folder = TempFolder::new();
    let (coordinator, orbs) = (RunningOrb::new(), [(); 2].map(|()| RunningOrb::new()));
    let glob = Coordinator::start(&coordinator, Arc::new(MemoryStore::default())).unwrap();
    let glob = glob.object().object().to_string();
    // A thread that waited for the node that hangs would not return in time.
    let answer = LONG;
    let (_near, near) = node(&orbs[0], &folder, "near", &glob, answer);
    let (_far, far) = node(&orbs[1], &folder, "far", &glob, answer);
    let ill_socket = folder.file("ill");
    let mut victim = Victim::start(&format!("node ill {} {glob} -1", ill_socket.display()));
    let app = RunningOrb::new();
    let ill = retry("the third node", || Library::connect(&app, &ill_socket));

    let (mut writer, mut of_ill) = (area(&near, "sound"), area(&ill, "ill"));
    let mut sound = on_all_paths(&far, "sound");
    let (mut from_ill, mut at_ill) = (on_all_paths(&near, "ill"), on_all_paths(&ill, "sound"));
    writer.write(b"all are well").unwrap();
    of_ill.write(b"all are well").unwrap();
    sound
        .iter_mut()
        .chain(&mut at_ill)
        .chain(&mut from_ill)
        .for_each(|reader| drop(arrival("before", reader, 1)));

    freeze(victim.process.id());
    // Another node calls it as well, and gets no answer.
    let client = far.clone();
    let asking = std::thread::spawn(move || client.attach_reader("ill", by(Path::PathUdp)).map(drop));
    for n in 2..=200 {
        // Sockets and windows towards the node that hangs fill up.
        writer.write(&[n as u8; 64]).unwrap();
        sound.iter_mut().for_each(|reader| drop(arrival("while one hangs", reader, n)));
    }
    let sure = ReaderQoS { guaranteed: true, deadline: 50_000_000, ..by(Path::PathUdp) };
    let mut promised = near.map_writer("sound", QOS).unwrap_err();
    assert!(matches!(promised, Error::WriterExists(_)), "{promised}");
    drop(writer);
    let mut writer = near
        .map_writer("sound", crate::idl::WriterQoS { period: 50_000_000, size: 0, type_hash: 0 })
        .unwrap();
    let mut new = far.attach_reader("sound", sure).expect("set-up goes on, too");
    let last = writer.write(b"new").unwrap();
    arrival("attached while one hangs", &mut new, last);
    from_ill.iter_mut().for_each(|reader| until_state("its readers", reader, State::WriterGone));
    assert!(!asking.is_finished(), "there was no answer");
    promised = near.create_area(&Area::new("ill", 64, 2)).unwrap_err();
    assert!(matches!(promised, Error::AreaExists(_)), "its areas are its own: {promised}");

    resume(victim.process.id());
    asking.join().unwrap().unwrap();
    let last = writer.write(b"well again").unwrap();
    at_ill.iter_mut().for_each(|reader| drop(arrival("afterwards", reader, last)));
    let last = of_ill.write(b"well again").unwrap();
    from_ill.iter_mut().for_each(|reader| drop(arrival("of the one that hung", reader, last)));
    drop((of_ill, at_ill, ill));
    victim.process.kill();
}

/// One node hangs, and meanwhile another one's server is killed and restarted. The rest is not
/// affected, and the second node's channels are opened again though the first one's cannot be.
#[test]
fn a_node_that_hangs_delays_no_other_that_is_started_again() {
    let folder = TempFolder::new();
    let (coordinator, orbs) = (RunningOrb::new(), [(); 2].map(|()| RunningOrb::new()));
    let glob = Coordinator::start(&coordinator, Arc::new(MemoryStore::default())).unwrap();
    let glob = glob.object().object().to_string();
    let (_near, near) = node(&orbs[0], &folder, "near", &glob, LONG);
    let (_far, far) = node(&orbs[1], &folder, "far", &glob, LONG);
    let app = RunningOrb::new();
    let start = |name: &str| {
        let socket = folder.file(name);
        Victim::start(&format!("node {name} {} {glob} -1", socket.display()))
    };
    let library = |name: &str| retry(name, || Library::connect(&app, folder.file(name)));
    let (mut frozen, mut mortal) = (start("ill"), start("mortal"));
    let (ill, other) = (library("ill"), library("mortal"));

    let mut sound = area(&near, "sound");
    let (mut of_ill, mut of_other) = (area(&ill, "ill"), area(&other, "other"));
    let mut readers = on_all_paths(&far, "sound");
    let (mut from_ill, mut at_ill) = (on_all_paths(&far, "ill"), on_all_paths(&ill, "sound"));
    let (mut from_other, mut at_other) = (on_all_paths(&far, "other"), on_all_paths(&other, "sound"));
    for writer in [&mut sound, &mut of_ill, &mut of_other] {
        writer.write(b"all are well").unwrap();
    }
    for all in [&mut readers, &mut from_ill, &mut at_ill, &mut from_other, &mut at_other] {
        all.iter_mut().for_each(|reader| drop(arrival("before", reader, 1)));
    }
    let mut goes_on = |what: &str| {
        for _ in 0..50 {
            let last = sound.write(what.as_bytes()).unwrap();
            readers.iter_mut().for_each(|reader| drop(arrival(what, reader, last)));
        }
        sound.sequence()
    };

    freeze(frozen.process.id());
    from_ill.iter_mut().for_each(|reader| until_state("its readers", reader, State::WriterGone));
    // By now a thread calls the frozen node to open its channels again, and waits.
    goes_on("while one hangs");
    std::thread::sleep(Duration::from_millis(1500));
    mortal.process.kill();
    from_other.iter_mut().for_each(|reader| until_state("the other's", reader, State::WriterGone));
    goes_on("while the other is gone");
    mortal = start("mortal");
    goes_on("while it comes back");
    wait_until("its area is handed back", || of_other.is_served());
    let last = of_other.write(b"started again").unwrap();
    from_other.iter_mut().for_each(|reader| drop(arrival("of the one that was started again", reader, last)));
    let last = goes_on("with the other back");
    at_other.iter_mut().for_each(|reader| drop(arrival("at the one that was started again", reader, last)));
    assert!(from_ill.iter_mut().all(|reader| reader.state() == Some(State::WriterGone)), "it still hangs");

    resume(frozen.process.id());
    let last = of_ill.write(b"well again").unwrap();
    from_ill.iter_mut().for_each(|reader| drop(arrival("of the one that hung", reader, last)));
    let last = goes_on("afterwards");
    at_ill.iter_mut().for_each(|reader| drop(arrival("at the one that hung", reader, last)));
    // The test waited for each value, so the ORB's paths have lost none.
    for reader in &readers[1..] {
        assert_eq!(reader.statistics().unwrap().lost, 0);
    }
    drop((of_ill, at_ill, ill, of_other, at_other, other));
    [&mut frozen, &mut mortal].into_iter().for_each(|victim| victim.process.kill());
}

#[test]
fn a_call_to_a_node_that_hangs_reports_it() {
    /// The time-out; the coordinator must answer within it on a busy machine, too.
    const ANSWER: Duration = Duration::from_secs(2);
    let folder = TempFolder::new();
    let (coordinator, orb) = (RunningOrb::new(), RunningOrb::new());
    let glob = Coordinator::start(&coordinator, Arc::new(MemoryStore::default())).unwrap();
    let glob = glob.object().object().to_string();
    let (_near, near) = node(&orb, &folder, "near", &glob, ANSWER);
    let socket = folder.file("ill");
    let mut victim = Victim::start(&format!("node ill {} {glob} -1", socket.display()));
    let app = RunningOrb::new();
    let ill = retry("the other node", || Library::connect(&app, &socket));
    let _writer = area(&ill, "ill");
    freeze(victim.process.id());
    match near.attach_reader("ill", by(Path::PathUdp)) {
        Err(Error::Unavailable(error)) => {
            assert!(error.reason.contains("the node of ill did not answer within 2s"), "{}", error.reason);
        }
        other => panic!("{other:?}"),
    }
    resume(victim.process.id());
    drop((_writer, ill));
    victim.process.kill();
}

/// Readers on the ORB's paths learn of a node's death from a thread that never waits for other
/// processes.
#[test]
fn a_coordinator_that_hangs_delays_no_news_of_a_death() {
    let folder = TempFolder::new();
    let coordinator = Victim::start(&format!("coordinator 0 {} -1", folder.file("store.redb").display()));
    let glob = format!("corbaloc::1.2@127.0.0.1:{}/ReflectiveMemory", coordinator.ready);
    let orb = RunningOrb::new();
    let (_near, near) = node(&orb, &folder, "near", &glob, LONG);
    let socket = folder.file("mortal");
    let mut victim = Victim::start(&format!("node mortal {} {glob} -1", socket.display()));
    let app = RunningOrb::new();
    let mortal = retry("the other node", || Library::connect(&app, &socket));
    let mut writer = area(&mortal, "mortal");
    let mut readers = on_all_paths(&near, "mortal");
    writer.write(b"alive").unwrap();
    readers.iter_mut().for_each(|reader| drop(arrival("before", reader, 1)));
    freeze(coordinator.process.id());
    // Longer than the interval of calls to the coordinator: the thread that calls it waits for it
    // now.
    std::thread::sleep(Duration::from_millis(2500));
    victim.process.kill();
    readers.iter_mut().for_each(|reader| until_state("its readers", reader, State::WriterGone));
    resume(coordinator.process.id());
}
