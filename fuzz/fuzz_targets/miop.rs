//! Datagrams to a group from a hostile network. An assembled message consists of pieces of one id,
//! one for each number from 0 on, within the limits. Reading it as a request to a group, and
//! writing it to a member, never panics.
#![no_main]

use isorb_giop::miop::{Collector, GroupRef, GroupRequest, Limits, Packet, PacketHead, Taken, UipmcProfile};
use isorb_giop::{Header, explain};
use libfuzzer_sys::fuzz_target;
use std::collections::HashMap;

const LIMITS: Limits = Limits { messages: 3, octets: 512, packets: 16, age_ns: 1000 };

/// All received pieces, by id and number.
type Came = HashMap<(Vec<u8>, u32), Vec<Vec<u8>>>;

fn is_made_of(whole: &[u8], id: &[u8], number: u32, came: &Came) -> bool {
    if whole.is_empty() {
        return number > 0;
    }
    let pieces = came.get(&(id.to_vec(), number)).map_or(&[][..], |pieces| pieces);
    pieces
        .iter()
        .any(|piece| whole.strip_prefix(&**piece).is_some_and(|rest| is_made_of(rest, id, number + 1, came)))
}

fn read(message: &[u8]) {
    let request = match GroupRequest::find(message) {
        Ok(request) => request,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let mut into = vec![0; GroupRequest::room(message.len(), 8)];
    let length = request.to_key(b"8 octets", &mut into).expect("room for all");
    let header = Header::parse(into.first_chunk().expect("a header")).expect("the header that was read");
    assert_eq!(header.total(), length);
}

fuzz_target!(|data: &[u8]| {
    read(data);
    let found = GroupRef::find(data).map(|group| group.to_group());
    if let Ok(profile) = UipmcProfile::parse(data) {
        assert_eq!(found, profile.group());
        let tagged = profile.to_tagged().expect("what was read can be written");
        let _ = explain::explain_ior(&isorb_giop::Ior { type_id: String::new(), profiles: vec![tagged] });
    }
    // Datagrams, each behind a header of five octets: its length, its sender and whether it is
    // taken unchanged, a pause; number and count.
    let (mut collector, mut came, mut now, mut rest) = (Collector::new(LIMITS), Came::new(), 0, data);
    while let Some(([length, kind, pause, number, count], after)) = rest.split_first_chunk() {
        let (piece, after) = after.split_at(usize::from(*length).min(after.len()));
        rest = after;
        now += u64::from(*pause);
        let made;
        let datagram = if kind & 1 == 0 {
            piece
        } else {
            let mut id = *b"twelve octet";
            id[0] = kind >> 6;
            let (number, count) = (u32::from(number % 20), u32::from(count % 20));
            let head = PacketHead { number, count, id, length: piece.len() as u16 };
            made = [&head.write()[..], piece].concat();
            &made
        };
        let Ok(packet) = Packet::parse(datagram) else { continue };
        assert!(!packet.data.is_empty());
        came.entry((packet.id.to_vec(), packet.number)).or_default().push(packet.data.to_vec());
        if let Taken::Whole(whole) = collector.take(kind >> 4 & 1, &packet, now) {
            assert!(whole.len() <= LIMITS.octets && is_made_of(whole, packet.id, 0, &came));
            read(whole);
        }
        assert!(collector.under_way() <= LIMITS.messages);
    }
});
