//! A request to a group, and the same request to one of its members.

use super::group::GroupRef;
use crate::cursor::Cursor;
use crate::profile::TAG_UIPMC;
use crate::{Header, MessageKind, context};
use core::fmt;
use isorb_cdr::{Order, Version};

/// The offsets of a request to a group. Its target is the group's profile (clause 11), which GIOP
/// 1.2 introduced.
#[derive(Clone, Copy, Debug)]
pub struct GroupRequest<'m> {
    message: &'m [u8],
    order: Order,
    /// The group.
    pub group: GroupRef<'m>,
    /// The service context with the code sets of its text.
    pub code_sets: Option<&'m [u8]>,
    /// Start and end of the operation and the service contexts.
    middle: (usize, usize),
    /// The start of the arguments.
    body: usize,
}

/// The reason why a message is not a request to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotForGroup {
    /// The message is incomplete, not GIOP 1.2, or not a Request.
    Message,
    /// The header is malformed.
    Malformed,
    /// The target is not a group.
    Target,
    /// The sender waits for a reply, which many members would send.
    Answer,
}

impl fmt::Display for NotForGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotForGroup::Message => "no whole request of GIOP 1.2",
            NotForGroup::Malformed => "a request with a malformed header",
            NotForGroup::Target => "a request that does not name a group by its profile",
            NotForGroup::Answer => "a request that wants an answer, which a group does not give",
        })
    }
}

impl core::error::Error for NotForGroup {}

/// Offsets in a request of GIOP 1.2.
const FLAGS_AT: usize = Header::LEN + 4;
const DISPOSITION_AT: usize = FLAGS_AT + 4;
const KEY_AT: usize = DISPOSITION_AT + 8;

impl<'m> GroupRequest<'m> {
    /// Examines a whole message.
    ///
    /// # Errors
    /// [`NotForGroup`].
    ///
    /// # Real-time
    /// Linear in the header's length; allocates nothing.
    pub fn find(message: &'m [u8]) -> Result<GroupRequest<'m>, NotForGroup> {
        let header = message.first_chunk().and_then(|head| Header::parse(head).ok());
        let header = header.filter(|header| {
            header.version == Version::V1_2
                && header.kind == MessageKind::Request
                && !header.more_fragments
                && header.total() == message.len()
        });
        let header = header.ok_or(NotForGroup::Message)?;
        if message.get(FLAGS_AT).ok_or(NotForGroup::Malformed)? & 3 != 0 {
            return Err(NotForGroup::Answer);
        }
        let mut c = Cursor::at_offset(message, 0, header.order);
        let parts = parts(&mut c).map_err(|_| NotForGroup::Malformed)?;
        let Parts { profile, code_sets, middle } = parts;
        let group = profile.and_then(GroupRef::find).ok_or(NotForGroup::Target)?;
        let body = middle.1.next_multiple_of(8).min(message.len());
        Ok(GroupRequest { message, order: header.order, group, code_sets, middle, body })
    }

    /// Writes the same request to the object with this key, and returns its length. `None` when
    /// there is no room.
    ///
    /// # Real-time
    /// Copies the message; allocates nothing.
    pub fn to_key(&self, key: &[u8], into: &mut [u8]) -> Option<usize> {
        let key_ends = (KEY_AT + key.len()).next_multiple_of(4);
        let (from, to) = self.middle;
        let middle_ends = key_ends + (to - from);
        let body = &self.message[self.body..];
        // Arguments begin at a multiple of eight octets; without any there is no padding.
        let body_at = if body.is_empty() { middle_ends } else { middle_ends.next_multiple_of(8) };
        let total = body_at + body.len();
        let into = into.get_mut(..total)?;
        let number = |number: usize| match self.order {
            Order::Little => (number as u32).to_le_bytes(),
            Order::Big => (number as u32).to_be_bytes(),
        };
        into[..DISPOSITION_AT].copy_from_slice(&self.message[..DISPOSITION_AT]);
        into[Header::SIZE_AT..Header::LEN].copy_from_slice(&number(total - Header::LEN));
        into[DISPOSITION_AT..KEY_AT - 4].fill(0);
        into[KEY_AT - 4..KEY_AT].copy_from_slice(&number(key.len()));
        into[KEY_AT..KEY_AT + key.len()].copy_from_slice(key);
        into[KEY_AT + key.len()..key_ends].fill(0);
        into[key_ends..middle_ends].copy_from_slice(&self.message[from..to]);
        into[middle_ends..body_at].fill(0);
        into[body_at..].copy_from_slice(body);
        Some(total)
    }

    /// The most octets that [`GroupRequest::to_key`] may need for a message and key of these
    /// lengths.
    pub const fn room(message: usize, key: usize) -> usize {
        message + key + 16
    }
}

struct Parts<'m> {
    /// Length of the target in a request to a group.
    profile: Option<&'m [u8]>,
    code_sets: Option<&'m [u8]>,
    middle: (usize, usize),
}

fn parts<'m>(c: &mut Cursor<'m>) -> isorb_cdr::Result<Parts<'m>> {
    c.take(DISPOSITION_AT)?;
    let tagged = |c: &mut Cursor<'m>| -> isorb_cdr::Result<(u32, &'m [u8])> { Ok((c.u32()?, c.octets()?)) };
    let mut profile = None;
    match c.u16()? {
        0 => _ = c.octets()?,
        1 => profile = Some(tagged(c)?),
        2 => {
            let selected = c.u32()?;
            c.octets()?;
            for index in 0..c.count(8)? {
                let found = tagged(c)?;
                if index == selected as usize {
                    profile = Some(found);
                }
            }
        }
        _ => return Err(c.error(isorb_cdr::ErrorKind::Value)),
    }
    let begins = c.position().next_multiple_of(4);
    c.octets()?;
    let mut code_sets = None;
    for _ in 0..c.count(8)? {
        let (id, data) = tagged(c)?;
        if id == context::CODE_SETS {
            code_sets = Some(data);
        }
    }
    let profile = profile.filter(|(tag, _)| *tag == TAG_UIPMC).map(|(_, data)| data);
    Ok(Parts { profile, code_sets, middle: (begins, c.position()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{self, Addressed, Request, RequestHead, Response, ServiceContext};
    use crate::miop::{Group, Packet, UipmcProfile};
    use crate::{Ior, TaggedProfile};
    use alloc::vec;
    use alloc::vec::Vec;
    use isorb_cdr::{Encoder, Text};
    use isorb_scope::Region;
    use proptest::prelude::*;

    fn profile(domain: &str) -> TaggedProfile {
        let group = Group { domain: domain.into(), id: 9, ref_version: 0 };
        let components = vec![group.to_tagged().unwrap()];
        let profile =
            UipmcProfile { version: Version::V1_0, address: "225.1.1.1".into(), port: 5000, components };
        profile.to_tagged().unwrap()
    }

    fn request(address: Addressed<'_>, contexts: &[ServiceContext<'_>], argument: Option<f64>) -> Vec<u8> {
        let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
        message::write_request_to(&mut e, 7, Response::None, address, "feed", contexts);
        let body = message::begin_body(&mut e);
        if let Some(argument) = argument {
            e.put(argument);
        }
        message::end_body(&mut e, body);
        let mut written = e.finish().unwrap();
        message::finish_header(&mut written).unwrap();
        written.into_buffer()
    }

    #[test]
    fn a_head_that_is_kept_is_what_is_written() {
        let (profile, mut e) = (profile("dom"), Encoder::new(Vec::new(), Text::DEFAULT));
        RequestHead::by_profile(&profile).unwrap().write(&mut e, 7, Response::None, "feed", &[]);
        let body = message::begin_body(&mut e);
        e.put(1.5);
        message::end_body(&mut e, body);
        let mut written = e.finish().unwrap();
        message::finish_header(&mut written).unwrap();
        assert_eq!(written.into_buffer(), request(Addressed::Profile(&profile), &[], Some(1.5)));
    }

    fn check(message: &[u8], key: &[u8], contexts: usize, argument: Option<f64>) {
        let found = GroupRequest::find(message).unwrap();
        assert_eq!(found.group.id, 9);
        let mut into = vec![0xee; GroupRequest::room(message.len(), key.len())];
        let length = found.to_key(key, &mut into).unwrap();
        into.truncate(length);
        assert_eq!(found.to_key(key, &mut vec![0; length - 1]), None);
        let header = Header::parse(into.first_chunk().unwrap()).unwrap();
        assert_eq!(header.total(), length);
        let mut region = Region::new(64);
        let scope = region.enter();
        let (request, mut d) = Request::open(&mut into, &header, &scope).unwrap();
        assert_eq!((request.id, request.response, request.target.key()), (7, Response::None, Some(key)));
        assert_eq!((request.operation.text(), request.contexts.iter().count()), (Ok("feed"), contexts));
        if let Some(argument) = argument {
            assert_eq!(d.get(), Ok(argument));
        }
    }

    #[test]
    fn to_each_member() {
        let code_sets =
            ServiceContext { id: context::CODE_SETS, data: b"\x01\0\0\0\x01\0\x01\x05\x09\x01\x01\0" };
        let other = ServiceContext { id: 99, data: b"xyz" };
        for domain in ["d", "do", "dom", "doma", "domai"] {
            let profile = profile(domain);
            let ior = Ior { type_id: "IDL:T:1.0".into(), profiles: vec![profile.clone()] };
            for key in [&b""[..], b"k", b"key4", b"a longer key"] {
                for contexts in [&[][..], &[code_sets][..], &[other, code_sets][..]] {
                    for argument in [None, Some(1.5)] {
                        let by_profile = request(Addressed::Profile(&profile), contexts, argument);
                        check(&by_profile, key, contexts.len(), argument);
                        let by_reference = Addressed::Reference { ior: &ior, selected: 0 };
                        check(&request(by_reference, contexts, argument), key, contexts.len(), argument);
                        let found = GroupRequest::find(&by_profile).unwrap();
                        assert_eq!(found.code_sets.is_some(), !contexts.is_empty());
                    }
                }
            }
        }
    }

    /// A packet that JacORB 3.9 sent, big endian: `add(3)` to group 1 of domain "test" at
    /// 225.77.1.1:5099, with its code sets.
    const JACORB: &str = "4d494f50 10020084 00000000 00000001 0000000c 343939393035313436330000\
        47494f50 01020000 00000078 00000000 00000000 0001 0000 00000003 00000040\
        00010000 0000000b 3232352e37372e312e310000 13eb0000 00000001 00000027 0000001c\
        00010000 00000005 7465737400000000 0000000000000001 00000000\
        00000004 61646400 00000001 00000001 0000000c 00000000 05010001 00010109 00000003";

    #[test]
    fn as_jacorb_sends_it() {
        let digits: Vec<u8> = JACORB.bytes().filter(u8::is_ascii_hexdigit).collect();
        let octet = |pair: &[u8]| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap();
        let datagram: Vec<u8> = digits.chunks(2).map(octet).collect();
        let packet = Packet::parse(&datagram).unwrap();
        assert_eq!(
            (packet.number, packet.count, packet.last, packet.id),
            (0, 1, true, &b"4999051463\0\0"[..])
        );
        let found = GroupRequest::find(packet.data).unwrap();
        assert_eq!((found.group.domain, found.group.id, found.group.ref_version), ("test", 1, 0));
        let sets = context::CodeSets::read(found.code_sets.unwrap()).unwrap();
        assert_eq!((sets.char_data, sets.wchar_data), (0x0501_0001, 0x0001_0109));
        let mut into = vec![0; GroupRequest::room(packet.data.len(), 3)];
        let length = found.to_key(b"key", &mut into).unwrap();
        into.truncate(length);
        let header = Header::parse(into.first_chunk().unwrap()).unwrap();
        let mut region = Region::new(64);
        let scope = region.enter();
        let (request, mut d) = Request::open(&mut into, &header, &scope).unwrap();
        assert_eq!(
            (request.operation.text(), request.target.key(), d.get()),
            (Ok("add"), Some(&b"key"[..]), Ok(3i32))
        );
    }

    #[test]
    fn what_is_not_for_a_group() {
        let good = request(Addressed::Profile(&profile("d")), &[], None);
        let error = |message: &[u8]| GroupRequest::find(message).err();
        assert_eq!(error(&good), None);
        let mut answered = good.clone();
        answered[FLAGS_AT] = 3;
        assert_eq!(error(&answered), Some(NotForGroup::Answer));
        assert_eq!(error(&good[..good.len() - 1]), Some(NotForGroup::Message));
        let mut reply = good.clone();
        reply[7] = 1;
        assert_eq!(error(&reply), Some(NotForGroup::Message));
        let mut old = good.clone();
        old[5] = 0;
        assert_eq!(error(&old), Some(NotForGroup::Message));
        let iiop = TaggedProfile { tag: 0, data: profile("d").data };
        assert_eq!(error(&request(Addressed::Profile(&iiop), &[], None)), Some(NotForGroup::Target));
        let bare = TaggedProfile { tag: 3, data: vec![1, 1, 0] };
        assert_eq!(error(&request(Addressed::Profile(&bare), &[], None)), Some(NotForGroup::Target));
    }

    proptest! {
        #[test]
        fn damaged(at in 0usize..200, octet: u8, key in proptest::collection::vec(0u8.., 0..20)) {
            let mut message = request(Addressed::Profile(&profile("d")), &[], Some(2.5));
            let at = at % message.len();
            message[at] = octet;
            if let Ok(found) = GroupRequest::find(&message) {
                let mut into = vec![0; GroupRequest::room(message.len(), key.len())];
                let length = found.to_key(&key, &mut into).unwrap();
                let header = Header::parse(into.first_chunk().unwrap()).unwrap();
                prop_assert_eq!(header.total(), length);
            }
        }
    }
}
