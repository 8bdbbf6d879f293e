//! Requests: their headers, how they are addressed, the names of operations.

use super::*;
use crate::{ProtocolError, SystemException};
use isorb_cdr::Text;

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

/// A server reads the target of a request in the form in which a client wrote it, key included.
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
