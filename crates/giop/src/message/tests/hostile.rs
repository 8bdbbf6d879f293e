//! Messages that no honest peer sends: false counts, damaged messages, random octets.

use super::ordinary::{opens_as_it_reads, ordinary, recognises_what_it_finds};
use super::*;
use crate::SystemException;
use isorb_cdr::Text;
use proptest::prelude::*;

#[test]
fn hostile_counts_end_at_once() {
    // 2^32-1 contexts, a context and a key of such a length, an unknown response flag.
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
