//! The fast paths for ordinary messages have the results of the general ones.

use super::*;

/// Opening a message in one step gives the same header, body and errors as reading it in many.
pub(super) fn opens_as_it_reads(bytes: &[u8], header: &Header) {
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
pub(super) fn ordinary(kind: u8, order: Order) -> Vec<u8> {
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

/// The cached head recognises in a message what a full search finds in it.
pub(super) fn recognises_what_it_finds(kept: &[u8], bytes: &[u8]) -> Option<RequestOffsets> {
    let any = |_| true;
    let header = |bytes: &[u8]| Header::parse(bytes.first_chunk()?).ok();
    let (first, second) = (header(kept)?, header(bytes)?);
    let before = OrdinaryRequest::find(kept, &first, any)?;
    let mut head = CachedHeader::default();
    assert!(head.keep(kept, &first, &before));
    assert_eq!(head.matches(kept, &first, any), Some(before.offsets()));
    let seen = head.matches(bytes, &second, any)?;
    let now = OrdinaryRequest::find(bytes, &second, any).unwrap();
    assert_eq!((seen, now.names(bytes)), (now.offsets(), before.names(kept)));
    Some(seen)
}

#[test]
fn a_known_head_is_recognised() {
    assert_eq!(
        CachedHeader::default()
            .matches(&[0; 64], &Header::new(Version::V1_2, MessageKind::Request), |_| true),
        None
    );
    for (order, other) in [(Order::Big, Order::Little), (Order::Little, Order::Big)] {
        let message = |id, flags, key: &[u8; 8], name: &[u8; 8], contexts, body: &[u8]| {
            let hand = Hand::new(2, order, 0).u32(id).raw(&[flags, 0, 0, 0]).raw(&[0; 4]);
            hand.u32(5).raw(key).u32(6).raw(name).u32(contexts).raw(body).done()
        };
        let kept = message(7, 3, b"tower\0\0\0", b"total\0\0\0", 0, &[0; 12]);
        let seen = |bytes: &[u8]| recognises_what_it_finds(&kept, bytes);
        let offsets =
            |bytes: &[u8]| seen(bytes).map(|offsets| (offsets.id, offsets.response, offsets.body_at));
        assert_eq!(
            offsets(&message(9, 3, b"tower\0\0\0", b"total\0\0\0", 0, &[1; 40])),
            Some((9, Response::Target, 56))
        );
        assert_eq!(
            offsets(&message(9, 3, b"tower\0\0\0", b"total\0\0\0", 0, &[])),
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
    // A longer head is not kept, and the previous one is dropped.
    let key = [1; CachedHeader::MAX];
    let hand = Hand::new(2, Order::Big, 0).u32(1).raw(&[3, 0, 0, 0]).raw(&[0; 4]);
    let long = hand.u32(key.len() as u32).raw(&key).u32(4).raw(b"sum\0").u32(0).done();
    let short = ordinary(0, Order::Big);
    let header = |bytes: &[u8]| Header::parse(bytes.first_chunk().unwrap()).unwrap();
    let find = |bytes: &[u8]| OrdinaryRequest::find(bytes, &header(bytes), |_| true).unwrap();
    let mut head = CachedHeader::default();
    assert!(head.keep(&short, &header(&short), &find(&short)));
    assert!(!head.keep(&long, &header(&long), &find(&long)));
    for bytes in [&short, &long] {
        assert_eq!(head.matches(bytes, &header(bytes), |_| true), None);
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
        // As many contexts with other contents and lengths.
        let other = with_contexts(order, 8, &[(1, &[0; 12]), (10, &[0, 0, 0, 6])]);
        let offsets = recognises_what_it_finds(&kept, &other).unwrap();
        assert_eq!((offsets.id, offsets.body_at), (8, other.len() - 4));
        let contexts = offsets.contexts.of(&other, order);
        assert_eq!((contexts.get(1), contexts.get(10)), (Some(&[0; 12][..]), Some(&[0, 0, 0, 6][..])));
        assert_eq!((contexts.len(), contexts.get(77)), (2, None));
        let header = Header::parse(other.first_chunk().unwrap()).unwrap();
        opens_as_it_reads(&other, &header);
        // A context that is not allowed, with and without a cached head.
        let mut head = CachedHeader::default();
        assert!(head.keep(&other, &header, &OrdinaryRequest::find(&other, &header, |_| true).unwrap()));
        assert!(head.matches(&other, &header, |id| id != 99).is_some());
        assert!(head.matches(&other, &header, |id| id != 1).is_none());
        assert!(OrdinaryRequest::find(&other, &header, |id| id != 10).is_none());
        // A different number of contexts is another head.
        for unlike in [with_contexts(order, 9, &[]), with_contexts(order, 9, &[(10, &[0, 0, 0, 5])])] {
            assert_eq!(recognises_what_it_finds(&kept, &unlike), None);
        }
        // Lengths beyond the end are left to the reader, which reports the error.
        for at in [other.len() - 12, other.len() - 32] {
            let mut wrong = other.clone();
            wrong[at..at + 4].fill(0x7f);
            assert_eq!(recognises_what_it_finds(&kept, &wrong), None, "{at}");
            opens_as_it_reads(&wrong, &header);
        }
    }
}
