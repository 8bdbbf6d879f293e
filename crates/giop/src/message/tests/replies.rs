//! Replies, messages that locate objects, and messages that concern the connection.

use super::*;
use isorb_cdr::Text;

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
