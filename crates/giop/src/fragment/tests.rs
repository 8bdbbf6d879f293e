use super::*;
use crate::message::{self, Request, Response};
use crate::{Answer, Header, MessageKind, ProtocolError};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use isorb_cdr::{Encoder, LEND_FROM, Message, Order, Text, Version};
use isorb_scope::{BufferPool, Region};
use proptest::prelude::*;

fn pool() -> Arc<BufferPool> {
    BufferPool::new(1 << 20, 1 << 20)
}

fn limits() -> Limits {
    Limits { messages: 2, bytes: 1 << 16, message: 1 << 15 }
}

fn request<'v>(id: u32, body: &'v [u8]) -> Message<'v> {
    let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
    message::write_request(&mut e, id, Response::Target, b"key", "take", &[]);
    let start = message::begin_body(&mut e);
    e.plain_seq(body);
    e.put(7u64);
    message::end_body(&mut e, start);
    let mut message = e.finish().unwrap();
    message::finish_header(&mut message).unwrap();
    message
}

fn bytes<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    pieces.fold(Vec::new(), |mut all, piece| {
        all.extend_from_slice(piece);
        all
    })
}

fn push(assembler: &mut Assembler, message: &[u8]) -> Result<Assembled, ProtocolError> {
    assembler.push(&Header::parse(message.first_chunk().unwrap())?, message)
}

/// A message with explicit parts, in big endian.
fn part(minor: u8, flags: u8, kind: MessageKind, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let mut bytes = Vec::from(*b"GIOP\x01");
    bytes.extend([minor, flags, kind as u8]);
    bytes.extend((body.len() as u32).to_be_bytes());
    bytes.extend(body);
    bytes
}

const ID: [u8; 4] = [0, 0, 0, 9];

#[test]
fn by_request_id() {
    let mut assembler = Assembler::new(pool(), limits());
    let other = [0, 0, 0, 4];
    // 12 + 12 octets, then 12 + 4 + 8, then the end: two messages interleaved (clause 9.4.9).
    let first = part(2, 2, MessageKind::Reply, &[&ID, b"abcdefgh"]);
    assert!(matches!(push(&mut assembler, &first), Ok(Assembled::Pending)));
    let second = part(2, 2, MessageKind::LocateReply, &[&other, b"ABCDEFGH"]);
    assert!(matches!(push(&mut assembler, &second), Ok(Assembled::Pending)));
    let more = part(2, 2, MessageKind::Fragment, &[&ID, b"ijklmnop"]);
    assert!(matches!(push(&mut assembler, &more), Ok(Assembled::Pending)));
    assert_eq!(assembler.pending(), 2);
    let end = part(2, 0, MessageKind::Fragment, &[&other, b"I"]);
    let Ok(Assembled::Complete(header, buffer)) = push(&mut assembler, &end) else { panic!() };
    assert_eq!(
        &buffer.bytes()[..header.total()],
        part(2, 0, MessageKind::LocateReply, &[&other, b"ABCDEFGHI"])
    );
    // An unfragmented message in between is not the assembler's.
    let whole = part(2, 0, MessageKind::Reply, &[&other, b"?"]);
    assert!(matches!(push(&mut assembler, &whole), Ok(Assembled::Whole)));
    let end = part(2, 0, MessageKind::Fragment, &[&ID]);
    let Ok(Assembled::Complete(header, buffer)) = push(&mut assembler, &end) else { panic!() };
    assert_eq!(
        &buffer.bytes()[..header.total()],
        part(2, 0, MessageKind::Reply, &[&ID, b"abcdefghijklmnop"])
    );
    assert_eq!(assembler.pending(), 0);
}

#[test]
fn one_at_a_time_in_1_1() {
    let mut assembler = Assembler::new(pool(), limits());
    // No contexts, id 9, status 0 and twelve octets: 12 + 24 = 36, four more than a multiple of 8.
    let start: &[u8] = &[&[0; 4][..], &ID, &[0; 4], b"abcdefghijkl"].concat();
    let first = part(1, 2, MessageKind::Reply, &[start]);
    assert_eq!(first.len() % 8, 4);
    assert!(matches!(push(&mut assembler, &first), Ok(Assembled::Pending)));
    let cancel = part(1, 0, MessageKind::CancelRequest, &[&ID]);
    assert!(matches!(push(&mut assembler, &cancel), Ok(Assembled::Whole)));
    let end = part(1, 0, MessageKind::Fragment, &[b"xyz"]);
    let Ok(Assembled::Complete(header, buffer)) = push(&mut assembler, &end) else { panic!() };
    assert_eq!(&buffer.bytes()[..header.total()], part(1, 0, MessageKind::Reply, &[start, b"xyz"]));

    assert_eq!(push(&mut assembler, &end).unwrap_err(), ProtocolError::FragmentOrder);
    push(&mut assembler, &first).unwrap();
    let another = part(1, 0, MessageKind::Reply, &[start]);
    assert_eq!(push(&mut assembler, &another).unwrap_err(), ProtocolError::FragmentOrder);
    assert!(assembler.cancel(9), "the id was found behind the contexts");
    assert!(matches!(push(&mut assembler, &another), Ok(Assembled::Whole)));
}

/// A reply of GIOP 1.1 as omniORB cuts it: a double behind the boundary is aligned from the
/// fragment's header.
#[test]
fn alignment_of_1_1() {
    let mut assembler = Assembler::new(pool(), limits());
    let start: &[u8] = &[&[0; 4][..], &ID, &[0; 4], b"\0\0\0\x05abcde"].concat();
    push(&mut assembler, &part(1, 2, MessageKind::Reply, &[start])).unwrap();
    let rest: &[u8] = b"fg\0\0\x3f\xf0\0\0\0\0\0\0\0\0\0\x07";
    push(&mut assembler, &part(1, 2, MessageKind::Fragment, &[&rest[..14]])).unwrap();
    let end = part(1, 0, MessageKind::Fragment, &[&rest[14..], &[0, 0, 0, 0, 0, 8]]);
    let Ok(Assembled::Complete(header, mut buffer)) = push(&mut assembler, &end) else { panic!() };
    assert_eq!(header.fragment_boundaries, 2);
    let mut region = Region::new(256);
    let scope = region.enter();
    let mut d = message::start(&mut buffer.bytes_mut()[..header.total()], &header, &scope).unwrap();
    assert_eq!(message::Reply::read(&mut d).unwrap().id, 9);
    assert_eq!(d.plain_seq::<u8>(), Ok(&b"abcde"[..]));
    assert_eq!((d.take(4).map(|pad| pad.to_vec()), d.get()), (Ok(b"fg\0\0".to_vec()), Ok(1.0f64)));
    // Two octets of padding are left in this fragment, and two in the next.
    assert_eq!((d.get(), d.remaining()), (Ok(0x0007_0000u32), 4));
    assert_eq!((d.get(), d.remaining()), (Ok(8u32), 0));
    assert_eq!(assembler.pending(), 0);
}

#[test]
fn cancelled_messages_are_dropped() {
    let mut assembler = Assembler::new(pool(), limits());
    let first = part(2, 2, MessageKind::Request, &[&ID, b"abcdefgh"]);
    push(&mut assembler, &first).unwrap();
    assert!(!assembler.cancel(8));
    assert!(assembler.cancel(9));
    let end = part(2, 0, MessageKind::Fragment, &[&ID, b"x"]);
    assert!(matches!(push(&mut assembler, &end), Ok(Assembled::Ignored)));
    assert_eq!((assembler.pending(), assembler.cancel(9)), (0, false));
}

#[test]
fn breaches() {
    let mut assembler = Assembler::new(pool(), limits());
    let odd = part(2, 2, MessageKind::Request, &[&ID, b"abc"]);
    assert_eq!(push(&mut assembler, &odd).unwrap_err(), ProtocolError::FragmentLength(7));
    let first = part(2, 2, MessageKind::Request, &[&ID, b"abcdefgh"]);
    push(&mut assembler, &first).unwrap();
    assert_eq!(push(&mut assembler, &first).unwrap_err(), ProtocolError::FragmentId(9));
    let odd = part(2, 2, MessageKind::Fragment, &[&ID, b"abc"]);
    assert_eq!(push(&mut assembler, &odd).unwrap_err(), ProtocolError::FragmentLength(7));
    let short = part(2, 0, MessageKind::Fragment, &[b"abc"]);
    assert!(matches!(push(&mut assembler, &short), Err(ProtocolError::Malformed(_))));
    let little = part(2, 1, MessageKind::Fragment, &[&[9, 0, 0, 0]]);
    let mut little = little;
    little[8..12].copy_from_slice(&4u32.to_le_bytes());
    assert_eq!(push(&mut assembler, &little).unwrap_err(), ProtocolError::FragmentOrder);
}

#[test]
fn limits_hold() {
    let pool = pool();
    let mut assembler = Assembler::new(pool.clone(), limits());
    for id in 0..2u32 {
        let first = part(2, 2, MessageKind::Request, &[&id.to_be_bytes(), b"abcdefgh"]);
        push(&mut assembler, &first).unwrap();
    }
    let third = part(2, 2, MessageKind::Request, &[&ID, b"abcdefgh"]);
    let error = push(&mut assembler, &third).unwrap_err();
    assert_eq!((error, error.answer()), (ProtocolError::FragmentLimit, Answer::Close));
    assembler.clear();
    assert_eq!(pool.out(), 0);

    push(&mut assembler, &third).unwrap();
    let chunk = part(2, 2, MessageKind::Fragment, &[&ID, &[0; 4096]]);
    let error = (0..100).find_map(|_| push(&mut assembler, &chunk).err()).unwrap();
    assert_eq!(error, ProtocolError::TooLarge { size: 8 * 4096 + 12 });
    assert!(pool.out() <= limits().bytes);
    drop(assembler);
    assert_eq!(pool.out(), 0);

    let tight = Limits { messages: 8, bytes: 8192, message: 8192 };
    let mut assembler = Assembler::new(pool, tight);
    for (id, good) in [(1u32, true), (2, true), (3, false)] {
        let first = part(2, 2, MessageKind::Request, &[&id.to_be_bytes(), b"abcdefgh"]);
        assert_eq!(push(&mut assembler, &first).is_ok(), good, "{id}");
    }
}

#[test]
fn what_cannot_be_cut() {
    let body = [0; 200];
    assert!(split(&request(1, &body), 300).is_none(), "short enough");
    let mut e = Encoder::new(Vec::new(), Text::fallback(Version::V1_1));
    message::write_request(&mut e, 1, Response::Target, b"key", "take", &[]);
    e.plain_seq(&body);
    let mut old = e.finish().unwrap();
    message::finish_header(&mut old).unwrap();
    assert!(split(&old, 64).is_none());
}

#[test]
fn cut_and_put_together() {
    let body = vec![3; 3 * LEND_FROM];
    let message = request(5, &body);
    assert!(message.contiguous().is_none(), "part of it is lent");
    let whole = bytes(message.pieces());
    for max in [0, 32, 100, 1024, 4096, 5000, 12288] {
        let mut assembler = Assembler::new(pool(), limits());
        let mut complete = None;
        for fragment in split(&message, max).unwrap() {
            assert!(complete.is_none());
            let sent = [fragment.head(), &bytes(fragment.pieces())].concat();
            assert_eq!(sent.len(), fragment.len());
            assert!(sent.len() <= max.max(MIN_FRAGMENT));
            match push(&mut assembler, &sent).unwrap() {
                Assembled::Pending => {}
                Assembled::Complete(header, buffer) => complete = Some((header, buffer)),
                other => panic!("{other:?}"),
            }
        }
        let (header, mut buffer) = complete.unwrap();
        assert_eq!(&buffer.bytes()[..header.total()], whole, "{max}");
        let mut region = Region::new(0);
        let scope = region.enter();
        let mut d = message::start(&mut buffer.bytes_mut()[..header.total()], &header, &scope).unwrap();
        assert_eq!(Request::read(&mut d).unwrap().id, 5);
        message::body(&mut d);
        assert_eq!(d.plain_seq::<u8>().unwrap(), body);
        assert_eq!((d.get(), d.remaining(), d.order()), (Ok(7u64), 0, Order::NATIVE));
    }
}

proptest! {
    #[test]
    fn any_fragments(parts in proptest::collection::vec((0u8..3, 0u8..4, 0u8..8, any::<[u8; 4]>(), 0usize..40), 0..30)) {
        let mut assembler = Assembler::new(pool(), limits());
        for (minor, flags, kind, mut body, length) in parts {
            body[1..3].fill(0);
            let mut message = Vec::from(*b"GIOP\x01");
            message.extend([minor, flags, kind]);
            let size = 4 + length as u32;
            message.extend(if flags & 1 == 0 { size.to_be_bytes() } else { size.to_le_bytes() });
            message.extend(body);
            message.extend(vec![0; length]);
            let Ok(header) = Header::parse(message.first_chunk().unwrap()) else { continue };
            if let Ok(Assembled::Complete(header, buffer)) = assembler.push(&header, &message) {
                let written = Header::parse(buffer.bytes().first_chunk().unwrap());
                prop_assert_eq!(written, Ok(Header { fragment_boundaries: 0, ..header }));
            }
            prop_assert!(assembler.pending() <= limits().messages);
        }
    }
}
