//! Messages derived by hand from the clauses, in both byte orders and all versions.

use super::*;
use crate::{ProtocolError, SystemException};
use alloc::vec::Vec;
use isorb_cdr::{Order, Text, Version};
use isorb_scope::Region;
use proptest::prelude::*;

/// Builds a message with explicit integers of either byte order; padding is written out by the caller.
struct Hand(Vec<u8>, Order);

impl Hand {
    fn new(minor: u8, order: Order, kind: u8) -> Hand {
        let mut bytes = Vec::from(*b"GIOP\x01");
        bytes.extend([minor, order.flag(), kind, 0, 0, 0, 0]);
        Hand(bytes, order)
    }
    fn u16(mut self, v: u16) -> Hand {
        self.0.extend(if self.1 == Order::Big { v.to_be_bytes() } else { v.to_le_bytes() });
        self
    }
    fn u32(mut self, v: u32) -> Hand {
        self.0.extend(if self.1 == Order::Big { v.to_be_bytes() } else { v.to_le_bytes() });
        self
    }
    fn raw(mut self, bytes: &[u8]) -> Hand {
        self.0.extend(bytes);
        self
    }
    fn done(mut self) -> Vec<u8> {
        let size = self.0.len() as u32 - 12;
        let size = if self.1 == Order::Big { size.to_be_bytes() } else { size.to_le_bytes() };
        self.0[8..12].copy_from_slice(&size);
        self.0
    }
}

const ORDERS: [Order; 2] = [Order::Big, Order::Little];

/// RTCorbaPriority 5 as a big-endian encapsulation, four octets, so that nothing after it needs padding.
const PRIORITY: ServiceContext<'static> = ServiceContext { id: 10, data: &[0, 0, 0, 5] };

/// Clause 9.4.2: the request headers; operation "sum" is 4 octets with its terminator.
fn request(minor: u8, order: Order) -> Vec<u8> {
    let hand = Hand::new(minor, order, 0);
    match minor {
        // Contexts, id, response_expected, padding, key, operation, principal; the body follows at 60.
        0 => hand
            .u32(1)
            .u32(10)
            .u32(4)
            .raw(&[0, 0, 0, 5])
            .u32(7)
            .raw(&[1, 0, 0, 0])
            .u32(5)
            .raw(b"tower\0\0\0")
            .u32(4)
            .raw(b"sum\0")
            .u32(0)
            .u32(99)
            .done(),
        // The same octets: what 1.0 pads, 1.1 reserves.
        1 => hand
            .u32(1)
            .u32(10)
            .u32(4)
            .raw(&[0, 0, 0, 5])
            .u32(7)
            .raw(&[1, 0, 0, 0])
            .u32(5)
            .raw(b"tower\0\0\0")
            .u32(4)
            .raw(b"sum\0")
            .u32(0)
            .u32(99)
            .done(),
        // Id, flags, reserved, disposition 0 padded to 4, key, operation, contexts: ends at 60, padded to 64.
        _ => hand
            .u32(7)
            .raw(&[3, 0, 0, 0])
            .u16(0)
            .raw(&[0, 0])
            .u32(5)
            .raw(b"tower\0\0\0")
            .u32(4)
            .raw(b"sum\0")
            .u32(1)
            .u32(10)
            .u32(4)
            .raw(&[0, 0, 0, 5])
            .raw(&[0; 4])
            .u32(99)
            .done(),
    }
}

/// Clause 9.4.3: 1.0 and 1.1 are contexts, id, status; 1.2 is id, status, contexts and an aligned body.
fn reply(minor: u8, order: Order) -> Vec<u8> {
    let hand = Hand::new(minor, order, 1);
    match minor {
        0 | 1 => hand.u32(0).u32(7).u32(1).u32(99).done(),
        // Ends at 24, which is aligned.
        _ => hand.u32(7).u32(1).u32(0).u32(99).done(),
    }
}

fn version(minor: u8) -> Version {
    [Version::V1_0, Version::V1_1, Version::V1_2][usize::from(minor)]
}

fn with<T>(mut bytes: Vec<u8>, read: impl FnOnce(&Header, &mut Decoder<'_>) -> T) -> T {
    let header = Header::parse(bytes.first_chunk().unwrap()).unwrap();
    assert_eq!(header.total(), bytes.len());
    let mut region = Region::new(0);
    let scope = region.enter();
    let mut d = start(&mut bytes, &header, &scope).unwrap();
    read(&header, &mut d)
}

#[test]
fn requests_are_read() {
    for minor in 0..3 {
        for order in ORDERS {
            with(request(minor, order), |header, d| {
                assert_eq!((header.version, header.kind), (version(minor), MessageKind::Request));
                let request = Request::read(d).unwrap();
                assert_eq!((request.id, request.response), (7, Response::Target));
                assert_eq!(request.target, Target::Key(b"tower"));
                assert_eq!(request.operation.text(), Ok("sum"));
                assert!(request.contexts.iter().eq([PRIORITY]));
                assert_eq!(request.contexts.get(10), Some(PRIORITY.data));
                assert_eq!(request.contexts.get(11), None);
                body(d);
                assert_eq!(d.get(), Ok(99));
                assert_eq!(d.remaining(), 0);
            });
        }
    }
}

#[test]
fn requests_are_written() {
    for minor in 0..3 {
        let mut e = Encoder::new(Vec::new(), Text::fallback(version(minor)));
        write_request(&mut e, 7, Response::Target, b"tower", "sum", &[PRIORITY]);
        let start = begin_body(&mut e);
        e.put(99);
        end_body(&mut e, start);
        let mut message = e.finish().unwrap();
        finish_header(&mut message).unwrap();
        assert_eq!(message.contiguous().unwrap(), request(minor, Order::NATIVE), "1.{minor}");
    }
}

/// What a request says that is addressed otherwise is what a server reads, key and all.
#[test]
fn requests_by_profile_and_reference() {
    let profile = crate::IiopProfile {
        version: Version::V1_2,
        host: "h".into(),
        port: 1,
        key: b"tower".to_vec(),
        components: Vec::new(),
    };
    let ior = crate::Ior::iiop("IDL:T:1.0", &profile).unwrap();
    let addresses = [Addressed::Profile(&ior.profiles[0]), Addressed::Reference { ior: &ior, selected: 0 }];
    for (i, address) in addresses.into_iter().enumerate() {
        let mut e = Encoder::new(Vec::new(), Text::fallback(Version::V1_2));
        write_request_to(&mut e, 7, Response::Target, address, "sum", &[PRIORITY]);
        let start = begin_body(&mut e);
        e.put(99);
        end_body(&mut e, start);
        let mut message = e.finish().unwrap();
        finish_header(&mut message).unwrap();
        with(message.into_buffer(), |_, d| {
            let request = Request::read(d).unwrap();
            assert_eq!(request.target.key(), Some(&b"tower"[..]));
            assert!(matches!((i, request.target), (0, Target::Profile(_)) | (1, Target::Reference(_))));
            assert_eq!((request.operation.text(), request.contexts.len()), (Ok("sum"), 1));
            body(d);
            assert_eq!(d.get(), Ok(99));
        });
        let mut old = Encoder::new(Vec::new(), Text::fallback(Version::V1_1));
        write_request_to(&mut old, 7, Response::Target, address, "sum", &[]);
        assert!(old.finish().is_err(), "GIOP 1.1 knows keys only");
    }
}

#[test]
fn replies_are_read_and_written() {
    for minor in 0..3 {
        for order in ORDERS {
            with(reply(minor, order), |header, d| {
                assert_eq!(header.kind, MessageKind::Reply);
                let reply = Reply::read(d).unwrap();
                assert_eq!((reply.id, reply.status), (7, ReplyStatus::UserException));
                assert!(reply.contexts.is_empty());
                body(d);
                assert_eq!(d.get(), Ok(99));
            });
        }
        let mut e = Encoder::new(Vec::new(), Text::fallback(version(minor)));
        let status_at = write_reply(&mut e, 7, ReplyStatus::NoException, &[]);
        let start = begin_body(&mut e);
        e.put(99);
        end_body(&mut e, start);
        e.patch(status_at, ReplyStatus::UserException as u32);
        let mut message = e.finish().unwrap();
        finish_header(&mut message).unwrap();
        assert_eq!(message.contiguous().unwrap(), reply(minor, Order::NATIVE), "1.{minor}");
    }
}

/// Clause 9.4.2.3: the body is aligned unless it is empty; then nothing follows the header.
#[test]
fn empty_bodies_have_no_padding() {
    for minor in 0..3 {
        let mut e = Encoder::new(Vec::new(), Text::fallback(version(minor)));
        write_request(&mut e, 1, Response::None, b"key", "go", &[]);
        let end = e.position();
        let start = begin_body(&mut e);
        end_body(&mut e, start);
        assert_eq!(e.position(), end);
        let mut message = e.finish().unwrap();
        finish_header(&mut message).unwrap();
        with(message.into_buffer(), |_, d| {
            assert_eq!(Request::read(d).unwrap().response, Response::None);
            body(d);
            assert_eq!(d.remaining(), 0);
        });
    }
}

/// Clause 9.4.2.1: addresses by profile and by reference, which only 1.2 has.
#[test]
fn other_targets() {
    for order in ORDERS {
        let byte = order.flag();
        // An IIOP profile: byte order, 1.2, host "h", port 0, key "key", no components.
        let mut profile = Hand(Vec::from([byte, 1, 2, 0]), order)
            .u32(2)
            .raw(b"h\0")
            .u16(2809)
            .u32(3)
            .raw(b"key\0")
            .u32(0)
            .0;
        assert_eq!(profile.len(), 24);
        let tail = |hand: Hand| hand.u32(4).raw(b"sum\0").u32(0).done();
        let by_profile = Hand::new(2, order, 0).u32(1).raw(&[0, 9, 9, 9]).u16(1).raw(&[0, 0]);
        let by_profile = tail(by_profile.u32(0).u32(24).raw(&profile));
        with(by_profile, |_, d| {
            let request = Request::read(d).unwrap();
            assert_eq!(request.response, Response::None);
            assert!(matches!(request.target, Target::Profile(_)));
            assert_eq!(request.target.key(), Some(&b"key"[..]));
            assert_eq!(request.operation.text(), Ok("sum"));
        });
        let by_reference = |selected| {
            let hand = Hand::new(2, order, 0).u32(1).raw(&[3, 0, 0, 0]).u16(2).raw(&[0, 0]);
            let hand = hand.u32(selected).u32(1).raw(&[0; 4]).u32(2).u32(9).u32(0).u32(0).u32(24);
            tail(hand.raw(&profile))
        };
        with(by_reference(1), |_, d| {
            assert_eq!(Request::read(d).unwrap().target.key(), Some(&b"key"[..]));
        });
        with(by_reference(0), |_, d| {
            let target = Request::read(d).unwrap().target;
            assert_eq!(target, Target::Reference(RawProfile { tag: 9, data: &[] }));
            assert_eq!(target.key(), None);
        });
        with(by_reference(2), |_, d| assert!(Request::read(d).is_err()));
        profile.truncate(9);
        assert_eq!(RawProfile { tag: 0, data: &profile }.key(), None);
    }
}

/// Clauses 9.4.5 and 9.4.6; the body of a LocateReply follows at once, without padding to 8.
#[test]
fn locate() {
    for minor in 0..3 {
        for order in ORDERS {
            let hand = Hand::new(minor, order, 3).u32(8);
            let hand = if minor == 2 { hand.u16(0).raw(&[0, 0]) } else { hand };
            let request = hand.u32(3).raw(b"key").done();
            with(request.clone(), |_, d| {
                let locate = LocateRequest::read(d).unwrap();
                assert_eq!((locate.id, locate.target), (8, Target::Key(b"key")));
            });
            let reply = Hand::new(minor, order, 4).u32(8).u32(2).u32(99).done();
            with(reply.clone(), |_, d| {
                let locate = LocateReply::read(d).unwrap();
                assert_eq!((locate.id, locate.status), (8, LocateStatus::ObjectForward));
                assert_eq!(d.get(), Ok(99));
            });
            let mut e = Encoder::new(Vec::new(), Text::fallback(version(minor)));
            write_locate_request(&mut e, 8, b"key");
            let mut out = e.finish().unwrap();
            finish_header(&mut out).unwrap();
            let mut e = Encoder::new(Vec::new(), Text::fallback(version(minor)));
            write_locate_reply(&mut e, 8, LocateStatus::ObjectForward);
            e.put(99);
            let mut back = e.finish().unwrap();
            finish_header(&mut back).unwrap();
            if order == Order::NATIVE {
                assert_eq!((out.into_buffer(), back.into_buffer()), (request, reply));
            }
        }
    }
}

#[test]
fn control_messages() {
    for order in ORDERS {
        let cancel = Hand::new(1, order, 2).u32(5).done();
        with(cancel.clone(), |header, d| {
            assert_eq!(header.kind, MessageKind::CancelRequest);
            assert_eq!(read_cancel(d), Ok(5));
        });
        if order == Order::NATIVE {
            assert_eq!(cancel, cancel_request(Version::V1_1, 5));
            assert_eq!(Hand::new(2, order, 5).done(), close_connection(Version::V1_2));
            assert_eq!(Hand::new(0, order, 6).done(), message_error(Version::V1_0));
        }
    }
}

#[test]
fn statuses_of_later_versions_are_refused() {
    for (minor, kind, status, good) in [
        (1, 1, 3, true),
        (1, 1, 4, false),
        (2, 1, 5, true),
        (2, 1, 6, false),
        (1, 4, 3, false),
        (2, 4, 5, true),
    ] {
        let hand = Hand::new(minor, Order::Big, kind);
        let message = match (kind, minor) {
            (1, 1) => hand.u32(0).u32(1).u32(status).done(),
            _ => hand.u32(1).u32(status).u32(0).done(),
        };
        with(message, |_, d| {
            let read = if kind == 1 { Reply::read(d).map(drop) } else { LocateReply::read(d).map(drop) };
            assert_eq!(read.is_ok(), good, "1.{minor} kind {kind} status {status}");
        });
    }
}

#[test]
fn hostile_counts_end_at_once() {
    // A count of 2^32-1 contexts, a context as long, a key as long, a response flag that does not exist.
    for message in [
        Hand::new(0, Order::Big, 0).u32(u32::MAX).done(),
        Hand::new(0, Order::Big, 0).u32(1).u32(1).u32(u32::MAX).u32(0).done(),
        Hand::new(2, Order::Big, 0).u32(1).raw(&[3, 0, 0, 0]).u16(0).raw(&[0, 0]).u32(u32::MAX).done(),
        Hand::new(2, Order::Big, 0).u32(1).raw(&[2, 0, 0, 0]).u16(0).raw(&[0, 0]).u32(0).done(),
        Hand::new(2, Order::Big, 0).u32(1).raw(&[3, 0, 0, 0]).u16(3).raw(&[0, 0]).u32(0).done(),
    ] {
        with(message, |_, d| assert!(Request::read(d).is_err()));
    }
}

#[test]
fn a_head_that_was_prepared_makes_no_difference() {
    for key in [&b""[..], b"k", b"tower", b"twelve octet"] {
        let head = RequestHead::new(key).unwrap();
        for response in [Response::None, Response::Server, Response::Target] {
            let data = &[0, 1][..];
            for contexts in [&[][..], &[ServiceContext { id: 7, data }][..]] {
                let mut prepared = Encoder::new(Vec::new(), Text::DEFAULT);
                head.write(&mut prepared, 0x0102_0304, response, "sum", contexts);
                let mut plain = Encoder::new(Vec::new(), Text::DEFAULT);
                write_request(&mut plain, 0x0102_0304, response, key, "sum", contexts);
                assert_eq!(prepared.flatten().unwrap(), plain.flatten().unwrap());
            }
        }
    }
    let mut old = Encoder::new(Vec::new(), Text::fallback(Version::V1_1));
    RequestHead::new(b"key").unwrap().write(&mut old, 1, Response::Target, "sum", &[]);
    assert_eq!(old.error().unwrap().kind, ErrorKind::NotRemotable);
}

#[test]
fn a_name_that_is_no_text_is_read_as_octets() {
    let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
    write_request(&mut e, 1, Response::Target, b"key", "sum", &[]);
    let mut message = e.finish().unwrap();
    finish_header(&mut message).unwrap();
    let mut message = message.into_buffer();
    let at = message.windows(3).position(|octets| octets == b"sum").unwrap();
    message[at + 1] = 0xff;
    with(message, |_, d| {
        let operation = Request::read(d).unwrap().operation;
        assert_eq!(operation.as_bytes(), b"s\xffm");
        assert_eq!(operation.text().unwrap_err().kind, ErrorKind::Text);
    });
}

/// An operation name without its zero octet, or with one inside.
#[test]
fn operations_are_terminated() {
    for name in [*b"sumx", *b"s\0m\0"] {
        let hand = Hand::new(2, Order::Big, 0).u32(1).raw(&[3, 0, 0, 0]).u16(0).raw(&[0, 0]).u32(0);
        let message = hand.u32(4).raw(&name).u32(0).done();
        with(message, |_, d| {
            let error = Request::read(d).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Terminator);
            assert_eq!(ProtocolError::from(error).answer(), crate::Answer::MessageError);
            assert_eq!(SystemException::from(error).kind, crate::Kind::Marshal);
        });
    }
}

/// What is read in one step is what is read in many: header, body and what is wrong.
fn opens_as_it_reads(bytes: &[u8], header: &Header) {
    fn both<T: PartialEq + core::fmt::Debug>(
        bytes: &[u8],
        header: &Header,
        read: impl for<'m> Fn(&mut Decoder<'m>, &'m Scope<'m>) -> Result<T>,
        open: impl for<'m> Fn(&'m mut [u8], &'m Scope<'m>) -> Result<(T, Decoder<'m>)>,
    ) {
        let (mut first, mut second) = (bytes.to_vec(), bytes.to_vec());
        let (mut region, mut other) = (Region::new(512), Region::new(512));
        let (scope, other) = (region.enter(), other.enter());
        let mut d = start_whole(&mut first, header, &scope);
        let read = read(&mut d, &scope);
        body(&mut d);
        let open = open(&mut second, &other);
        match (read, open) {
            (Ok(read), Ok((open, at))) => {
                assert_eq!(read, open);
                assert_eq!((d.position(), d.rest(), d.order()), (at.position(), at.rest(), at.order()));
                assert_eq!(d.text(), at.text());
            }
            (read, open) => {
                assert_eq!(read.map_err(|error| error.kind).err(), open.map_err(|error| error.kind).err());
            }
        }
    }
    let request = |request: Request<'_>| {
        let contexts: Vec<_> =
            request.contexts.iter().map(|context| (context.id, context.data.to_vec())).collect();
        let name = request.operation.as_bytes().to_vec();
        (request.id, request.response, request.target.key().map(<[u8]>::to_vec), name, contexts)
    };
    let reply = |reply: Reply<'_>| {
        let contexts: Vec<_> =
            reply.contexts.iter().map(|context| (context.id, context.data.to_vec())).collect();
        (reply.id, reply.status, contexts)
    };
    match header.kind {
        MessageKind::Request => both(
            bytes,
            header,
            |d, _| Request::read(d).map(request),
            |message, scope| Request::open(message, header, scope).map(|(read, d)| (request(read), d)),
        ),
        MessageKind::Reply => both(
            bytes,
            header,
            |d, _| Reply::read(d).map(reply),
            |message, scope| Reply::open(message, header, scope).map(|(read, d)| (reply(read), d)),
        ),
        _ => {}
    }
}

/// An ordinary message: GIOP 1.2, by key, no contexts.
fn ordinary(kind: u8, order: Order) -> Vec<u8> {
    let hand = Hand::new(2, order, kind).u32(7);
    match kind {
        0 => hand
            .raw(&[3, 0, 0, 0])
            .raw(&[0; 4])
            .u32(5)
            .raw(b"tower\0\0\0")
            .u32(4)
            .raw(b"sum\0")
            .u32(0)
            .u32(99)
            .done(),
        _ => hand.u32(0).u32(0).u32(99).done(),
    }
}

#[test]
fn ordinary_messages_open() {
    for order in ORDERS {
        let mut region = Region::new(0);
        let scope = region.enter();
        let (mut request, mut reply) = (ordinary(0, order), ordinary(1, order));
        let header = Header::parse(request.first_chunk().unwrap()).unwrap();
        opens_as_it_reads(&request, &header);
        let (read, mut d) = Request::open(&mut request, &header, &scope).unwrap();
        assert_eq!(
            (read.id, read.target, read.operation.as_bytes()),
            (7, Target::Key(b"tower"), &b"sum"[..])
        );
        assert_eq!((d.get(), d.remaining()), (Ok(99), 0));
        let header = Header::parse(reply.first_chunk().unwrap()).unwrap();
        opens_as_it_reads(&reply, &header);
        let (read, mut d) = Reply::open(&mut reply, &header, &scope).unwrap();
        assert_eq!((read.id, read.status), (7, ReplyStatus::NoException));
        assert_eq!((d.get(), d.remaining()), (Ok(99), 0));
    }
}

/// What a kept head recognises in a message is what would be found in it.
fn recognises_what_it_finds(kept: &[u8], bytes: &[u8]) -> Option<RequestPlace> {
    let any = |_| true;
    let header = |bytes: &[u8]| Header::parse(bytes.first_chunk()?).ok();
    let (first, second) = (header(kept)?, header(bytes)?);
    let before = OrdinaryRequest::find(kept, &first, any)?;
    let mut head = KnownHead::default();
    assert!(head.keep(kept, &first, &before));
    assert_eq!(head.recognise(kept, &first, any), Some(before.place()));
    let seen = head.recognise(bytes, &second, any)?;
    let now = OrdinaryRequest::find(bytes, &second, any).unwrap();
    assert_eq!((seen, now.names(bytes)), (now.place(), before.names(kept)));
    Some(seen)
}

#[test]
fn a_known_head_is_recognised() {
    assert_eq!(
        KnownHead::default().recognise(&[0; 64], &Header::new(Version::V1_2, MessageKind::Request), |_| true),
        None
    );
    for (order, other) in [(Order::Big, Order::Little), (Order::Little, Order::Big)] {
        let message = |id, flags, key: &[u8; 8], name: &[u8; 8], contexts, body: &[u8]| {
            let hand = Hand::new(2, order, 0).u32(id).raw(&[flags, 0, 0, 0]).raw(&[0; 4]);
            hand.u32(5).raw(key).u32(6).raw(name).u32(contexts).raw(body).done()
        };
        let kept = message(7, 3, b"tower\0\0\0", b"total\0\0\0", 0, &[0; 12]);
        let seen = |bytes: &[u8]| recognises_what_it_finds(&kept, bytes);
        let place = |bytes: &[u8]| seen(bytes).map(|place| (place.id, place.response, place.body_at));
        assert_eq!(
            place(&message(9, 3, b"tower\0\0\0", b"total\0\0\0", 0, &[1; 40])),
            Some((9, Response::Target, 56))
        );
        assert_eq!(
            place(&message(9, 3, b"tower\0\0\0", b"total\0\0\0", 0, &[])),
            Some((9, Response::Target, 52))
        );
        for unlike in [
            message(9, 0, b"tower\0\0\0", b"total\0\0\0", 0, &[1; 40]),
            message(9, 3, b"power\0\0\0", b"total\0\0\0", 0, &[1; 40]),
            message(9, 3, b"tower\0\0\0", b"tonal\0\0\0", 0, &[1; 40]),
            message(9, 3, b"tower\0\0\0", b"total\0\0\0", 1, &[1; 40]),
            ordinary(0, other),
            kept[..51].to_vec(),
        ] {
            assert_eq!(seen(&unlike), None, "{unlike:?}");
        }
    }
    // One that is too long is not kept, and the one before is forgotten.
    let key = [1; KnownHead::MAX];
    let hand = Hand::new(2, Order::Big, 0).u32(1).raw(&[3, 0, 0, 0]).raw(&[0; 4]);
    let long = hand.u32(key.len() as u32).raw(&key).u32(4).raw(b"sum\0").u32(0).done();
    let short = ordinary(0, Order::Big);
    let header = |bytes: &[u8]| Header::parse(bytes.first_chunk().unwrap()).unwrap();
    let find = |bytes: &[u8]| OrdinaryRequest::find(bytes, &header(bytes), |_| true).unwrap();
    let mut head = KnownHead::default();
    assert!(head.keep(&short, &header(&short), &find(&short)));
    assert!(!head.keep(&long, &header(&long), &find(&long)));
    for bytes in [&short, &long] {
        assert_eq!(head.recognise(bytes, &header(bytes), |_| true), None);
    }
}

#[test]
fn a_reply_with_a_priority_is_as_any_writer_has_it() {
    let data = crate::context::rt_corba_priority(300);
    let (mut one, mut other) =
        (Encoder::new(Vec::new(), Text::DEFAULT), Encoder::new(Vec::new(), Text::DEFAULT));
    let context = ServiceContext { id: 10, data: &data };
    let places = (
        write_prioritised_reply(&mut one, 7, ReplyStatus::NoException, 300),
        write_reply(&mut other, 7, ReplyStatus::NoException, &[context]),
    );
    assert_eq!(places.0, places.1);
    let (one, other) = (one.flatten().unwrap(), other.flatten().unwrap());
    assert_eq!(one, other);
    assert_eq!(one[20..], *Hand(Vec::new(), Order::NATIVE).u32(1).u32(10).u32(4).raw(&data).0);
}

#[test]
fn results_are_found_behind_whatever_contexts() {
    let reply = |order, status, contexts: &[(u32, &[u8])], body: &[u8]| {
        let mut hand = Hand::new(2, order, 1).u32(7).u32(status).u32(contexts.len() as u32);
        for (id, data) in contexts {
            hand = hand.u32(*id).u32(data.len() as u32).raw(data);
        }
        while !body.is_empty() && !hand.0.len().is_multiple_of(8) {
            hand.0.push(0);
        }
        hand.raw(body).done()
    };
    let results = |bytes: &[u8]| {
        let header = Header::parse(bytes.first_chunk().unwrap()).unwrap();
        let at = OrdinaryReply::results_behind_contexts(bytes, &header);
        if let Some(at) = at {
            let (mut copy, mut region) = (bytes.to_vec(), Region::new(0));
            let scope = region.enter();
            let (read, d) = Reply::open(&mut copy, &header, &scope).unwrap();
            assert_eq!((read.status, d.rest()), (ReplyStatus::NoException, &bytes[at..]));
        }
        at
    };
    for order in ORDERS {
        let priority: (u32, &[u8]) = (10, &[0, 0, 0, 5]);
        assert_eq!(results(&reply(order, 0, &[], b"body")), Some(24));
        assert_eq!(results(&reply(order, 0, &[priority], b"body")), Some(40));
        assert_eq!(results(&reply(order, 0, &[priority], b"")), Some(36));
        assert_eq!(results(&reply(order, 0, &[(77, &[1; 8]), priority], b"body")), Some(56));
        for status in 1..7 {
            assert_eq!(results(&reply(order, status, &[priority], b"body")), None);
            assert_eq!(results(&reply(order, status, &[], b"body")), None);
        }
        // More contexts than there are octets for, and one that is longer than the message.
        let mut wrong = reply(order, 0, &[priority], b"body");
        wrong[20..24].fill(0x11);
        assert_eq!(results(&wrong), None);
        let mut wrong = reply(order, 0, &[priority], b"body");
        wrong[28..32].fill(0x11);
        assert_eq!(results(&wrong), None);
        assert_eq!(results(&reply(order, 0, &[], b"")[..23]), None);
    }
}

/// A request for "sum" with these contexts, each already padded, and four octets of body.
fn with_contexts(order: Order, id: u32, contexts: &[(u32, &[u8])]) -> Vec<u8> {
    let hand = Hand::new(2, order, 0).u32(id).raw(&[3, 0, 0, 0]).raw(&[0; 4]);
    let mut hand = hand.u32(5).raw(b"tower\0\0\0").u32(4).raw(b"sum\0").u32(contexts.len() as u32);
    for (id, data) in contexts {
        hand = hand.u32(*id).u32(data.len() as u32).raw(data);
    }
    while !hand.0.len().is_multiple_of(8) {
        hand.0.push(0);
    }
    hand.u32(99).done()
}

#[test]
fn contexts_may_differ_in_a_known_head() {
    for order in ORDERS {
        let kept = with_contexts(order, 7, &[(10, &[0, 0, 0, 5]), (77, b"whatever")]);
        // Other contexts of other lengths, as many.
        let other = with_contexts(order, 8, &[(1, &[0; 12]), (10, &[0, 0, 0, 6])]);
        let place = recognises_what_it_finds(&kept, &other).unwrap();
        assert_eq!((place.id, place.body_at), (8, other.len() - 4));
        let contexts = place.contexts.of(&other, order);
        assert_eq!((contexts.get(1), contexts.get(10)), (Some(&[0; 12][..]), Some(&[0, 0, 0, 6][..])));
        assert_eq!((contexts.len(), contexts.get(77)), (2, None));
        let header = Header::parse(other.first_chunk().unwrap()).unwrap();
        opens_as_it_reads(&other, &header);
        // One that does not pass, whether it is known or not.
        let mut head = KnownHead::default();
        assert!(head.keep(&other, &header, &OrdinaryRequest::find(&other, &header, |_| true).unwrap()));
        assert!(head.recognise(&other, &header, |id| id != 99).is_some());
        assert!(head.recognise(&other, &header, |id| id != 1).is_none());
        assert!(OrdinaryRequest::find(&other, &header, |id| id != 10).is_none());
        // More of them, or fewer, are another head.
        for unlike in [with_contexts(order, 9, &[]), with_contexts(order, 9, &[(10, &[0, 0, 0, 5])])] {
            assert_eq!(recognises_what_it_finds(&kept, &unlike), None);
        }
        // Lengths that reach behind the end are for the reader that says what is wrong.
        for at in [other.len() - 12, other.len() - 32] {
            let mut wrong = other.clone();
            wrong[at..at + 4].fill(0x7f);
            assert_eq!(recognises_what_it_finds(&kept, &wrong), None, "{at}");
            opens_as_it_reads(&wrong, &header);
        }
    }
}

fn read_any(mut bytes: Vec<u8>) {
    let Some(head) = bytes.first_chunk() else { return };
    let Ok(header) = Header::parse(head) else { return };
    opens_as_it_reads(&bytes, &header);
    let mut region = Region::new(512);
    let scope = region.enter();
    let Ok(mut d) = start(&mut bytes, &header, &scope) else { return };
    let contexts = match header.kind {
        MessageKind::Request => Request::read(&mut d).map(|r| {
            let _ = r.target.key();
            r.contexts
        }),
        MessageKind::Reply => Reply::read(&mut d).map(|r| r.contexts),
        MessageKind::LocateRequest => LocateRequest::read(&mut d).map(|_| ServiceContexts::EMPTY),
        _ => LocateReply::read(&mut d).map(|_| ServiceContexts::EMPTY),
    };
    if let Ok(contexts) = contexts {
        assert_eq!(contexts.iter().count(), contexts.len());
        body(&mut d);
        let _ = SystemException::decode(&mut d);
    }
}

proptest! {
    #[test]
    fn any_message(version in 0u8..3, flags in 0u8..2, kind in 0u8..5, rest: Vec<u8>) {
        let mut bytes = Vec::from(*b"GIOP\x01");
        bytes.extend([version, flags, kind, 0, 0, 0, 0]);
        bytes.extend(rest);
        read_any(bytes);
    }

    #[test]
    fn damaged_messages(minor in 0u8..3, little: bool, at in 12usize..68, value: u8, cut in 12usize..68) {
        let order = if little { Order::Little } else { Order::Big };
        let mut bytes = request(minor, order);
        if let Some(byte) = bytes.get_mut(at) { *byte = value; }
        read_any(bytes.clone());
        bytes.truncate(cut);
        read_any(bytes);
    }

    #[test]
    fn damaged_ordinary_messages(
        kind in 0u8..2, little: bool, at in 12usize..56, value: u8, cut in 12usize..60,
    ) {
        let order = if little { Order::Little } else { Order::Big };
        let mut bytes = ordinary(kind, order);
        let kept = bytes.clone();
        read_any(bytes.clone());
        if let Some(byte) = bytes.get_mut(at) { *byte = value; }
        read_any(bytes.clone());
        recognises_what_it_finds(&kept, &bytes);
        recognises_what_it_finds(&bytes, &kept);
        bytes.truncate(cut);
        recognises_what_it_finds(&kept, &bytes);
        read_any(bytes);
    }

    #[test]
    fn round_trip(
        minor in 0u8..3, id: u32, key: Vec<u8>, operation in "[a-z_]{0,20}",
        contexts in proptest::collection::vec((any::<u32>(), any::<Vec<u8>>()), 0..4), argument: u64,
    ) {
        let contexts: Vec<_> = contexts.iter().map(|(id, data)| ServiceContext { id: *id, data }).collect();
        let mut e = Encoder::new(Vec::new(), Text::fallback(version(minor)));
        write_request(&mut e, id, Response::Target, &key, &operation, &contexts);
        let start_of_body = begin_body(&mut e);
        e.put(argument);
        end_body(&mut e, start_of_body);
        let mut message = e.finish().unwrap();
        finish_header(&mut message).unwrap();
        with(message.into_buffer(), |_, d| {
            let request = Request::read(d).unwrap();
            assert_eq!((request.id, request.target.key(), request.operation.text()), (id, Some(&key[..]), Ok(&operation[..])));
            assert!(request.contexts.iter().eq(contexts.iter().copied()));
            body(d);
            assert_eq!(d.get(), Ok(argument));
        });
    }
}
