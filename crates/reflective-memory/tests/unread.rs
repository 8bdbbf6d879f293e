//! A channel is granted at both nodes or at neither: one that the reader's node does not read,
//! since the answer to its request or its call to close it was lost, ends at the writer's node.

mod world;

use isorb_reflective_memory::idl::{CRM_CommRef, Offer, Path, ReaderQoS};
use isorb_testkit::wait_until;
use world::*;

fn offer(channel: u32) -> Offer {
    Offer {
        // Of another name: a node has one incarnation.
        node: "elsewhere".into(),
        incarnation: 4711,
        host: "127.0.0.1".into(),
        port: 9,
        channel,
        epoch: 1,
        token: 1,
        fragment: 1000,
        second_host: String::new(),
        second_port: 0,
        own_port: 0,
        second_own_port: 0,
        after: 0,
        credit: u64::MAX,
    }
}

#[test]
fn a_channel_whose_answer_was_lost_ends_and_others_go_on() {
    let world = World::new();
    let (mut writer, mut reader) = world.line(64);
    let first = writer.write(b"first").unwrap();
    until(&mut reader, first);
    let node = |node: &Option<isorb_reflective_memory::node::NodeServer>| {
        let object = node.as_ref().unwrap().object().unwrap().clone();
        let reference = isorb::Reference::object(&object).to_string();
        world.app.resolve::<CRM_CommRef>(&reference).unwrap()
    };
    let (near, far) = (node(&world.near), node(&world.far));
    let server = world.near.as_ref().unwrap();
    // The far node asks for channels, and does not receive the answers.
    let sure = ReaderQoS { guaranteed: true, deadline: 500_000_000, ..on_write() };
    let guaranteed = near.open_channel("line", sure, &offer(7), Some(&far)).unwrap();
    near.open_channel("line", ReaderQoS { through: Path::PathOrb, ..on_write() }, &offer(8), Some(&far))
        .unwrap();
    wait_until("they have ended, with what was admitted", || {
        (server.counts().3, server.status(1).0.guaranteed) == (1, 0)
    });
    assert!(near.close_channel(guaranteed).is_err(), "it is gone");
    let last = writer.write(b"last").unwrap();
    assert_eq!(until(&mut reader, last), b"last", "the channel that is read goes on");
    assert_eq!(far.unread_channels(&[guaranteed]).unwrap(), [guaranteed]);
}
