//! An application killed while it hands its areas back to the next server, and while it pushes
//! events.

use super::*;
use crate::fail_points::{FailPoint, FailPoint::*};
use crate::idl::EventQoS;
use crate::memory::State;
use crate::{EventSink, Notice};
use std::time::Duration;

pub(super) const STEPS: [FailPoint; 7] =
    [HandBackSent, HandedBack, Resumed, Reattached, NoticeRead, NoticeMade, NoticePushed];

/// A channel that accepts all events.
struct Sink;

impl EventSink for Sink {
    fn push(&mut self, _: &Notice<'_>) -> Result<(), Error> {
        Ok(())
    }
}

fn far_area(name: &str) -> String {
    format!("{name}-far")
}

/// The victim: writes an area of its node, and receives the values of another node's area as
/// events.
pub(super) fn begin(orb: &Orb, socket: &FilePath, name: &str) {
    let library = Library::connect(orb, socket).unwrap();
    library.create_area(&Area::new(name, SIZE as u32, 2)).unwrap();
    let mut writer = library.map_writer(name, QOS).unwrap();
    let reader = library.attach_reader(&far_area(name), by(Path::PathUdp)).unwrap();
    std::thread::spawn(move || {
        let all = EventQoS { on_value: 20, on_state: 21, source: 7, spacing: 0, with_value: true };
        let _notifier = reader.notify(Sink, all).unwrap();
        loop {
            writer.write(&value(writer.sequence() + 1)).unwrap();
            std::thread::sleep(Duration::from_millis(2));
        }
    });
}

#[test]
fn an_application_killed_at_any_step_leaves_its_areas_to_others() {
    let folder = TempFolder::new();
    let (coordinator, app) = (RunningOrb::new(), RunningOrb::new());
    let glob = Coordinator::start(&coordinator, Arc::new(MemoryStore::default())).unwrap();
    let glob = glob.object().object().to_string();
    let (near_orb, far_orb) = (RunningOrb::new(), RunningOrb::new());
    let sockets = [folder.file("near"), folder.file("far")];
    let start = |orb: &RunningOrb, name: &str, socket: &FilePath| {
        NodeServer::start(orb, ServerConfig::new(name, socket), Some(orb.resolve(&glob).unwrap())).unwrap()
    };
    let near_server = || start(&near_orb, "near", &sockets[0]);
    let mut near_servers = vec![near_server()];
    let _far_server = start(&far_orb, "far", &sockets[1]);
    let near = Library::connect(&app, &sockets[0]).unwrap();
    let far = Library::connect(&app, &sockets[1]).unwrap();
    for step in STEPS {
        let name = format!("app-at-{step:?}");
        let other = far_area(&name);
        far.create_area(&Area::new(&other, SIZE as u32, 2)).unwrap();
        let mut events = far.map_writer(&other, QOS).unwrap();
        let mut victim = Victim::start(&format!("library {} {name} {}", sockets[0].display(), step as u32));
        let mut here = near.attach_reader(&name, by(Path::PathUdp)).unwrap();
        let mut there = retry(&name, || far.attach_reader(&name, by(Path::PathUdp)));
        until(&name, &mut here, 1);
        until(&name, &mut there, 1);
        if [HandBackSent, HandedBack, Resumed, Reattached].contains(&step) {
            // One server ends before the next begins.
            near_servers.clear();
            near_servers.push(near_server());
        }
        wait_until(format!("{name}: its end"), || {
            // For its notifier.
            events.write(&value(events.sequence() + 1)).unwrap();
            whole(&mut here);
            whole(&mut there);
            !victim.lives()
        });
        let last = whole(&mut here);
        wait_until(format!("{name}: no writer"), || here.state() == Some(State::WriterGone));
        // Another writer continues after its last value.
        let mut writer = retry(&name, || near.map_writer(&name, QOS));
        assert_eq!(writer.sequence(), last, "{name}");
        let next = writer.write(&value(last + 1)).unwrap();
        until(&name, &mut here, next);
        until(&name, &mut there, next);
        // The area that it read works as well.
        let mut again = retry(&name, || near.attach_reader(&other, by(Path::PathUdp)));
        let next = events.write(&value(events.sequence() + 1)).unwrap();
        until(&name, &mut again, next);
    }
}
