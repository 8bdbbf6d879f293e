//! Datagrams from an address that no channel has: a node answers none of them, so it sends nothing
//! to a host that others forge.

mod world;

use isorb_reflective_memory::wire::{Datagram, HEADER, Kind};
use isorb_testkit::wait_until;
use std::net::UdpSocket;
use std::time::Duration;
use world::*;

/// Octets of a value.
const SIZE: usize = 1_000;

/// Each kind of datagram, for each of the first channels, with a guessed secret.
fn datagrams() -> Vec<Vec<u8>> {
    let kinds = [
        Kind::Fragment,
        Kind::Parity,
        Kind::Heartbeat,
        Kind::Choice,
        Kind::Probe,
        Kind::Answer,
        Kind::Credit,
    ];
    let of = |kind| {
        (0..4u32).flat_map(move |channel| {
            (0..2u32).map(move |epoch| {
                let mut octets = [0; HEADER];
                let sent =
                    Datagram { kind, channel, epoch, push: 1, sequence: 1 << 40, ..Datagram::default() };
                sent.write_head(&mut octets);
                octets.to_vec()
            })
        })
    };
    kinds.into_iter().flat_map(of).collect()
}

#[test]
fn a_node_answers_no_stranger() {
    let world = World::new();
    let (near, far) = (world.library(0), world.library(1));
    near.create_area(&area("line", SIZE as u32)).unwrap();
    let mut writer = near.map_writer("line", QOS).unwrap();
    let mut reader = far.attach_reader("line", on_write()).unwrap();
    let mut value = vec![0; SIZE];
    writer.write(&[1; SIZE]).unwrap();
    wait_until("the channel is open", || reader.latest(&mut value).is_ok());
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    for node in [&world.near, &world.far] {
        for datagram in datagrams() {
            stranger.send_to(&datagram, node.as_ref().unwrap().datagram_addresses()[0]).unwrap();
        }
    }
    // The channel itself goes on.
    writer.write(&[2; SIZE]).unwrap();
    wait_until("the next value comes", || reader.latest(&mut value).is_ok() && value[0] == 2);
    let answer = stranger.recv(&mut [0; 2_048]).unwrap_err();
    assert_eq!(answer.kind(), std::io::ErrorKind::WouldBlock, "an answer to a stranger");
}
