//! One message: the fast ways to read it give what the general one gives, and it is written again
//! and read back as the same.
#![no_main]

use isorb_cdr::{Decoder, Encoder, Text, Version};
use isorb_giop::message::{
    self, Addressed, CachedHeader, LocateReply, LocateRequest, OrdinaryReply, OrdinaryRequest, Reply,
    ReplyStatus, Request, RequestHead, ServiceContext, ServiceContexts, Target,
};
use isorb_giop::{Header, Ior, MessageKind, TaggedProfile};
use isorb_scope::Region;
use libfuzzer_sys::fuzz_target;

/// A request, apart from its message.
type Parts = (u32, message::Response, Option<Vec<u8>>, Vec<u8>, Vec<(u32, Vec<u8>)>);

fuzz_target!(|data: &[u8]| {
    let Some(Ok(header)) = data.first_chunk().map(Header::parse) else { return };
    let Some(message) = data.get(..header.total()) else { return };
    let mut region = Region::new(1 << 16);
    let scope = region.enter();
    let mut octets = message.to_vec();
    across_fragments(data, header);
    let Ok(mut d) = message::start(&mut octets, &header, &scope) else { return };
    match header.kind {
        MessageKind::Request => {
            let read = Request::read(&mut d);
            message::body(&mut d);
            let (rest, at) = (d.rest().to_vec(), d.position());
            opens(message, &header, read.as_ref().ok().map(|request| (parts(request), at, rest)));
            if let Ok(request) = read {
                write_request(&request, header.version);
            }
        }
        MessageKind::Reply => {
            let read = Reply::read(&mut d);
            message::body(&mut d);
            opens_reply(message, &header, read.as_ref().ok(), d.position());
            if let Ok(reply) = read {
                write_reply(&reply, header.version);
            }
        }
        MessageKind::LocateRequest => {
            if let Ok(request) = LocateRequest::read(&mut d)
                && let Target::Key(key) = request.target
            {
                written(
                    header.version,
                    |e| message::write_locate_request(e, request.id, key),
                    |_, d| {
                        let again = LocateRequest::read(d).expect("it was written");
                        assert_eq!((again.id, again.target), (request.id, request.target));
                    },
                );
            }
        }
        MessageKind::LocateReply => {
            if let Ok(LocateReply { id, status }) = LocateReply::read(&mut d) {
                written(
                    header.version,
                    |e| message::write_locate_reply(e, id, status),
                    |_, d| {
                        let again = LocateReply::read(d).expect("it was written");
                        assert_eq!((again.id, again.status), (id, status));
                    },
                );
            }
        }
        MessageKind::CancelRequest => {
            if let Ok(id) = message::read_cancel(&mut d) {
                let mut again = message::cancel_request(header.version, id);
                let header = Header::parse(again.first_chunk().expect("a header")).expect("a header");
                let mut d = message::start(&mut again, &header, &scope).expect("a message");
                assert_eq!(message::read_cancel(&mut d), Ok(id));
            }
        }
        kind => {
            let made = match kind {
                MessageKind::CloseConnection => message::close_connection(header.version),
                _ => message::message_error(header.version),
            };
            assert!(Header::parse(&made).is_ok());
        }
    }
});

/// The same message as fragments of GIOP 1.1 left it: what follows it are where they met.
fn across_fragments(data: &[u8], header: Header) {
    let boundaries = (data.len() - header.total()) / 4;
    if boundaries == 0 {
        return;
    }
    let header = Header { fragment_boundaries: boundaries.min(8) as u32, ..header };
    let mut octets = data[..header.total() + 4 * boundaries.min(8)].to_vec();
    let mut region = Region::new(1 << 16);
    let scope = region.enter();
    let Ok(mut d) = message::start(&mut octets, &header, &scope) else { return };
    match header.kind {
        MessageKind::Request => _ = Request::read(&mut d),
        MessageKind::Reply => _ = Reply::read(&mut d),
        _ => {}
    }
    let _ = d.string_owned();
}

fn parts(request: &Request<'_>) -> Parts {
    let Request { id, response, target, operation, .. } = request;
    (
        *id,
        *response,
        target.key().map(<[u8]>::to_vec),
        operation.as_bytes().to_vec(),
        contexts(request.contexts),
    )
}

fn contexts(contexts: ServiceContexts<'_>) -> Vec<(u32, Vec<u8>)> {
    assert!(contexts.iter().all(|one| contexts.get(one.id).is_some()));
    assert_eq!(contexts.is_empty(), contexts.iter().next().is_none());
    contexts.iter().map(|one| (one.id, one.data.to_vec())).collect()
}

fn borrowed(owned: &[(u32, Vec<u8>)]) -> Vec<ServiceContext<'_>> {
    owned.iter().map(|(id, data)| ServiceContext { id: *id, data }).collect()
}

/// Opening a request in one step, and by a head that was kept, gives what reading it gives.
fn opens(message: &[u8], header: &Header, read: Option<(Parts, usize, Vec<u8>)>) {
    let mut region = Region::new(1 << 16);
    let scope = region.enter();
    let mut octets = message.to_vec();
    let opened = Request::open(&mut octets, header, &scope);
    let opened = opened.ok().map(|(request, d)| (parts(&request), d.position(), d.rest().to_vec()));
    assert_eq!(opened, read);
    let (Some(found), Some((parts, at, _))) = (OrdinaryRequest::find(message, header, |_| true), read) else {
        return;
    };
    let names = found.names(message).expect("it was found there");
    assert_eq!((Some(names.0.to_vec()), names.1), (parts.2, &parts.3[..]));
    let offsets = found.offsets();
    assert_eq!((offsets.id, offsets.response, offsets.body_at), (parts.0, parts.1, at));
    assert_eq!(contexts(offsets.contexts.of(message, header.order)), parts.4);
    let mut cached = CachedHeader::default();
    if cached.keep(message, header, &found) {
        assert_eq!(cached.matches(message, header, |_| true), Some(offsets));
        // With one octet of its head changed, it is the same head only where the change is none.
        if let Some(last) = message.get(..at).and_then(|head| head.len().checked_sub(1)) {
            let mut other = message.to_vec();
            other[last] ^= 1;
            let _ = cached.matches(&other, header, |_| false);
        }
    }
}

fn opens_reply(message: &[u8], header: &Header, read: Option<&Reply<'_>>, at: usize) {
    let mut region = Region::new(1 << 16);
    let scope = region.enter();
    let mut octets = message.to_vec();
    let parts = |reply: &Reply<'_>| (reply.id, reply.status, contexts(reply.contexts));
    let opened =
        Reply::open(&mut octets, header, &scope).ok().map(|(reply, d)| (parts(&reply), d.position()));
    assert_eq!(opened, read.map(|reply| (parts(reply), at)));
    if let Some(behind) = OrdinaryReply::results_behind_contexts(message, header)
        && let Some(reply) = read
    {
        assert_eq!((behind, reply.status), (at, ReplyStatus::NoException));
    }
}

/// Writes a message with a body of one octet, and reads it back.
fn written(
    version: Version,
    write: impl FnOnce(&mut Encoder<'_>),
    check: impl FnOnce(&Header, &mut Decoder<'_>),
) {
    let mut e = Encoder::new(Vec::new(), Text::fallback(version));
    write(&mut e);
    let Ok(message) = e.finished() else { return };
    message::finish_header(message).expect("it is short");
    let mut octets = e.flatten().expect("it is finished");
    let header = Header::parse(octets.first_chunk().expect("a header")).expect("a header");
    assert_eq!(header.total(), octets.len());
    let mut region = Region::new(1 << 16);
    let scope = region.enter();
    check(&header, &mut message::start(&mut octets, &header, &scope).expect("a message"));
}

fn write_request(request: &Request<'_>, version: Version) {
    let owned = contexts(request.contexts);
    let contexts = borrowed(&owned);
    let Ok(operation) = request.operation.text() else { return };
    let (id, response) = (request.id, request.response);
    let same = |_: &Header, d: &mut Decoder<'_>| {
        let again = Request::read(d).expect("it was written");
        let target = request.target.key().map(<[u8]>::to_vec);
        let (id, _, key, name, contexts) = parts(&again);
        assert_eq!((id, key, &name[..], contexts), (request.id, target, operation.as_bytes(), owned.clone()));
        // Before GIOP 1.2 a request says only whether there is a reply.
        assert_eq!(again.response.expected(), response.expected());
        message::body(d);
        assert_eq!(d.rest(), [7]);
    };
    let body = |e: &mut Encoder<'_>| {
        let start = message::begin_body(e);
        e.put(7_u8);
        message::end_body(e, start);
    };
    match request.target {
        Target::Key(key) => {
            written(
                version,
                |e| {
                    message::write_request(e, id, response, key, operation, &contexts);
                    body(e);
                },
                same,
            );
            let head = RequestHead::new(key).expect("the key is short");
            written(
                version,
                |e| {
                    head.write(e, id ^ 1, response, operation, &contexts);
                    if contexts.is_empty() && e.error().is_none() {
                        RequestHead::renew(e, id, response);
                    }
                    body(e);
                },
                |header, d| {
                    if contexts.is_empty() {
                        same(header, d)
                    }
                },
            );
        }
        Target::Profile(raw) | Target::Reference(raw) => {
            let profile = TaggedProfile { tag: raw.tag, data: raw.data.into() };
            let other = TaggedProfile { tag: 77, data: b"first".as_slice().into() };
            let ior = Ior { type_id: String::from("IDL:X:1.0"), profiles: vec![other, profile.clone()] };
            for address in [Addressed::Profile(&profile), Addressed::Reference { ior: &ior, selected: 1 }] {
                written(
                    version,
                    |e| {
                        message::write_request_to(e, id, response, address, operation, &contexts);
                        body(e);
                    },
                    same,
                );
            }
            if let Some(head) = RequestHead::by_profile(&profile) {
                written(
                    version,
                    |e| {
                        head.write(e, id, response, operation, &contexts);
                        body(e);
                    },
                    same,
                );
            }
        }
    }
}

fn write_reply(reply: &Reply<'_>, version: Version) {
    let owned = contexts(reply.contexts);
    let contexts = borrowed(&owned);
    let (id, status) = (reply.id, reply.status);
    let same = |header: &Header, d: &mut Decoder<'_>| {
        let again = Reply::read(d).expect("it was written");
        assert_eq!((again.id, again.status, header.kind), (id, status, MessageKind::Reply));
        again.contexts.iter().map(|one| (one.id, one.data.to_vec())).collect::<Vec<_>>()
    };
    written(
        version,
        |e| {
            let at = message::write_reply(e, id, ReplyStatus::NoException, &contexts);
            e.patch(at, status as u32);
        },
        |header, d| assert_eq!(same(header, d), owned),
    );
    // Without a body there is no padding for one.
    written(
        version,
        |e| {
            message::write_reply(e, id, status, &contexts);
            let start = message::begin_body(e);
            message::end_body(e, start);
        },
        |header, d| {
            assert_eq!(same(header, d), owned);
            assert_eq!(d.remaining(), 0);
        },
    );
    if version == Version::V1_2 {
        written(
            version,
            |e| _ = message::write_prioritised_reply(e, id, status, 5),
            |header, d| assert_eq!(same(header, d).len(), 1),
        );
        written(
            version,
            |e| {
                message::write_reply(e, id, status, &[]);
                OrdinaryReply::add_context(e, ServiceContext { id: 4, data: b"four" });
            },
            |header, d| assert_eq!(same(header, d), [(4, b"four".to_vec())]),
        );
    }
}
