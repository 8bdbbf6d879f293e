//! The fail points at which processes are killed, and the state that must hold afterwards.

use super::*;
use crate::fail_points::{ALL, FailPoint, FailPoint::*};
use std::collections::HashSet;
use std::net::UdpSocket;

/// Steps of the writer's node while areas are created and handed back.
const MADE: [FailPoint; 15] = [
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
];
/// Its steps while it pushes.
const PUSHED: [FailPoint; 11] = [
    ChannelAsked,
    ChannelReplaced,
    ChannelStarted,
    ChannelClosed,
    Rung,
    DatagramMade,
    DatagramSent,
    ValueTaken,
    OnewaySent,
    Settling,
    Settled,
];
/// Steps of the readers' node.
const READ: [FailPoint; 13] = [
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
    BeatCame,
];
/// Steps of the writer's node with a group.
const GROUPED: [FailPoint; 5] = [GroupAsked, GroupMade, GroupEntered, GroupLeft, GroupEnded];
/// Steps of the readers' node with a group.
const JOINED: [FailPoint; 2] = [GroupJoined, GroupForgotten];
/// Steps of the readers' node when its first path fails.
const CHOSE: [FailPoint; 2] = [ChoiceMade, ChoiceSent];
/// Steps of the writer's node then.
const CHOSEN: [FailPoint; 1] = [ChoiceCame];
const COORDINATOR: [FailPoint; 7] =
    [NodeCame, NodeStored, AreaCame, AreaStored, AreaLeaves, AreaForgotten, Located];

/// A new fail point must be added to a list.
#[test]
fn a_process_is_killed_at_every_fail_point() {
    let lists: [&[FailPoint]; 9] =
        [&MADE, &PUSHED, &READ, &GROUPED, &JOINED, &CHOSE, &CHOSEN, &COORDINATOR, &library::STEPS];
    let listed: HashSet<FailPoint> = lists.concat().into_iter().collect();
    let missing: Vec<&FailPoint> = ALL.iter().filter(|step| !listed.contains(*step)).collect();
    assert!(missing.is_empty(), "no process is killed at {missing:?}");
}

/// The paths of the readers, and the arguments of both servers, the writer's first.
struct Setting {
    paths: Vec<Path>,
    words: [String; 2],
}

impl Setting {
    fn nothing() -> Setting {
        Setting { paths: PATHS.into(), words: Default::default() }
    }

    fn a_group() -> Setting {
        let port = UdpSocket::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
        let words = format!("group=239.255.78.1:{port}");
        Setting { paths: vec![Path::PathMulticast], words: [words.clone(), words] }
    }

    /// The first path leads to a socket that is never read.
    fn two_paths(unread: &UdpSocket) -> Setting {
        let port = unread.local_addr().unwrap().port();
        Setting { paths: vec![Path::PathUdp], words: ["second".into(), format!("second publish={port}")] }
    }
}

/// Kills node `which` (0 the writer's, 1 the reader's) at each of the steps.
fn kill_a_node(which: usize, steps: &[FailPoint], with: &Setting) {
    let folder = TempFolder::new();
    let coordinator = RunningOrb::new();
    let glob = Coordinator::start(&coordinator, Arc::new(MemoryStore::default())).unwrap();
    let glob = glob.object().object().to_string();
    let sockets = [folder.file("near"), folder.file("far")];
    let names = ["near", "far"];
    let other_orb = RunningOrb::new();
    let config = configured(names[1 - which], &sockets[1 - which], &with.words[1 - which]);
    let other = NodeServer::start(&other_orb, config, Some(other_orb.resolve(&glob).unwrap())).unwrap();
    let start = |step: i64| {
        let (name, socket, words) = (names[which], sockets[which].display(), &with.words[which]);
        Victim::start(format!("node {name} {socket} {glob} {step} {words}").trim())
    };
    let app = RunningOrb::new();
    for &step in steps {
        let at = format!("{} at {step:?}", names[which]);
        let adopts = [AdoptBegun, AdoptRegistered, Adopted].contains(&step);
        let mut victim = start(if adopts { -1 } else { step as i64 });
        let library = |socket: &FilePath| retry(&at, || Library::connect(&app, socket));
        let mut work = AreaUse { paths: with.paths.clone(), ..AreaUse::default() };
        let near = Library::connect(&app, &sockets[0]);
        let far = Library::connect(&app, &sockets[1]);
        if let (Ok(near), Ok(far)) = (&near, &far) {
            work.use_area(&at, near, far, &mut || victim.lives());
        }
        if adopts {
            victim.process.kill();
            victim = start(step as i64);
        }
        // A library that leaves.
        drop(far);
        if which == 0 && victim.lives() {
            drop(Library::connect(&app, &sockets[0]));
        }
        wait_until(format!("{at}: its end"), || !victim.lives());
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
    kill_a_node(0, &MADE, &Setting::nothing());
}

#[test]
fn a_writers_server_killed_while_it_pushes() {
    kill_a_node(0, &PUSHED, &Setting::nothing());
}

#[test]
fn a_readers_server_killed_at_any_step() {
    kill_a_node(1, &READ, &Setting::nothing());
}

#[test]
fn a_writers_server_killed_while_a_group_comes_and_goes() {
    kill_a_node(0, &GROUPED, &Setting::a_group());
}

#[test]
fn a_readers_server_killed_while_it_joins_and_leaves_a_group() {
    kill_a_node(1, &JOINED, &Setting::a_group());
}

#[test]
fn servers_killed_while_they_go_over_to_the_second_path() {
    let unread = UdpSocket::bind("127.0.0.1:0").unwrap();
    kill_a_node(1, &CHOSE, &Setting::two_paths(&unread));
    kill_a_node(0, &CHOSEN, &Setting::two_paths(&unread));
}

#[test]
fn a_coordinator_killed_at_any_step_stops_no_value_and_remembers() {
    let folder = TempFolder::new();
    let (app, near_orb, far_orb) = (RunningOrb::new(), RunningOrb::new(), RunningOrb::new());
    let store = folder.file("store.redb");
    let start =
        |port: &str, step: i64| Victim::start(&format!("coordinator {port} {} {step}", store.display()));
    let first = start("0", -1);
    let port = first.ready.clone();
    let glob = format!("corbaloc::1.2@127.0.0.1:{port}/ReflectiveMemory");
    let sockets = [folder.file("near"), folder.file("far"), folder.file("third")];
    let server = |orb: &RunningOrb, which: usize| {
        let config = ServerConfig::new(["near", "far", "third"][which], &sockets[which]);
        let glob = orb.resolve::<Glob_CommRef>(&glob)?;
        NodeServer::start(orb, config, Some(glob))
    };
    let (_near, _far) = (server(&near_orb, 0).unwrap(), server(&far_orb, 1).unwrap());
    let near = Library::connect(&app, &sockets[0]).unwrap();
    let far = Library::connect(&app, &sockets[1]).unwrap();
    drop(first);
    for step in COORDINATOR {
        let at = format!("coordinator at {step:?}");
        let mut victim = start(&port, step as i64);
        let mut work = AreaUse { paths: PATHS.into(), ..AreaUse::default() };
        work.use_area(&at, &near, &far, &mut || victim.lives());
        if victim.lives() {
            let third = RunningOrb::new();
            // This registration may be the step at which the victim ends.
            let _ = server(&third, 2);
        }
        // The servers may not have reached this coordinator yet, so the calls that it missed are
        // repeated.
        let mut again = 0;
        wait_until(format!("{at}: its end"), || {
            if !victim.lives() {
                return true;
            }
            again += 1;
            let mut work = AreaUse { paths: PATHS.into(), ..AreaUse::default() };
            work.use_area(&format!("{at}, again {again}"), &near, &far, &mut || victim.lives());
            false
        });
        // Values need no coordinator.
        work.write(2, &mut || true);
        let _next = start(&port, -1);
        work.goes_on(&at, &at, &near, &far);
    }
}

#[test]
fn a_coordinator_without_memory_learns_everything_from_the_servers() {
    let folder = TempFolder::new();
    let (app, near_orb, far_orb) = (RunningOrb::new(), RunningOrb::new(), RunningOrb::new());
    let store = folder.file("store.redb");
    let start = |port: &str| Victim::start(&format!("coordinator {port} {} -1", store.display()));
    let mut coordinator = start("0");
    let port = coordinator.ready.clone();
    let glob = format!("corbaloc::1.2@127.0.0.1:{port}/ReflectiveMemory");
    let sockets = [folder.file("near"), folder.file("far")];
    let server = |orb: &RunningOrb, name: &str, which: usize| {
        let glob = orb.resolve::<Glob_CommRef>(&glob).unwrap();
        NodeServer::start(orb, ServerConfig::new(name, &sockets[which]), Some(glob)).unwrap()
    };
    let (_near, _far) = (server(&near_orb, "near", 0), server(&far_orb, "far", 1));
    let near = Library::connect(&app, &sockets[0]).unwrap();
    let far = Library::connect(&app, &sockets[1]).unwrap();
    let what = Area::new("kept", SIZE as u32, 2);
    near.create_area(&what).unwrap();
    let mut writer = near.map_writer("kept", QOS).unwrap();
    for round in 1..=3 {
        let at = format!("round {round}");
        coordinator.process.kill();
        std::fs::remove_file(&store).unwrap();
        coordinator = start(&port);
        // It knows both nodes and their areas again.
        let mut reader = retry(&at, || far.attach_reader("kept", by(Path::PathUdp)));
        let last = writer.write(&value(writer.sequence() + 1)).unwrap();
        until(&at, &mut reader, last);
        let taken = retry(&at, || match far.create_area(&what) {
            Err(Error::AreaExists(exists)) => Ok(exists.what),
            other => Err(format!("{other:?}")),
        });
        assert_eq!(taken, what, "{at}");
    }
}
