//! A stream of GIOP messages, as a connection receives it: headers, fragments, the header of each
//! message, its service contexts and the bodies that the ORB itself reads.
#![no_main]

use isorb_giop::connection::{Connection, Incoming, Role};
use isorb_giop::fragment::{Assembled, Assembler, Limits};
use isorb_giop::message::{self, LocateReply, LocateRequest, Reply, Request, ServiceContexts};
use isorb_giop::{Header, Ior, MessageKind, SystemException, Version, context, explain};
use isorb_scope::{BufferPool, Region};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let limits = Limits { messages: 4, bytes: 1 << 17, message: 1 << 16 };
    let mut assembler = Assembler::new(BufferPool::new(1 << 20, 1 << 20), limits);
    let mut connection = Connection::<u8>::new(Role::Acceptor, 4);
    connection.set_bidirectional();
    let mut rest = data;
    while let Some(Ok(header)) = rest.first_chunk().map(Header::parse) {
        assert_eq!(Header::parse(&header.write()), Ok(header));
        let Some((message, after)) = rest.split_at_checked(header.total()) else { return };
        rest = after;
        if let Ok(Incoming::End(end)) = connection.received(&header) {
            connection.end(end).for_each(drop);
        }
        match assembler.push(&header, message) {
            Ok(Assembled::Whole) => {
                if let Some(id) = read(&header, &mut message.to_vec()) {
                    assembler.cancel(id);
                }
            }
            Ok(Assembled::Complete(header, mut buffer)) => {
                read(&header, &mut buffer.bytes_mut()[..header.total()]);
            }
            Ok(Assembled::Pending | Assembled::Ignored) => {}
            Err(error) => drop(error.to_string()),
        }
    }
});

/// Reads one message; the id in a CancelRequest.
fn read(header: &Header, bytes: &mut [u8]) -> Option<u32> {
    let mut region = Region::new(1 << 16);
    let scope = region.enter();
    let mut d = message::start(bytes, header, &scope).ok()?;
    let contexts = match header.kind {
        MessageKind::Request => {
            let request = Request::read(&mut d).ok()?;
            let _ = request.target.key();
            request.contexts
        }
        MessageKind::Reply => Reply::read(&mut d).ok()?.contexts,
        MessageKind::LocateRequest => {
            let _ = LocateRequest::read(&mut d).ok()?.target.key();
            ServiceContexts::EMPTY
        }
        MessageKind::LocateReply => {
            LocateReply::read(&mut d).ok()?;
            ServiceContexts::EMPTY
        }
        MessageKind::CancelRequest => return message::read_cancel(&mut d).ok(),
        _ => return None,
    };
    assert_eq!(contexts.iter().count(), contexts.len());
    for each in contexts {
        let _ = context::CodeSets::read(each.data).map(|sets| sets.text(Version::V1_2));
        let _ = context::read_rt_corba_priority(each.data);
        let _ = context::PriorityRange::read(each.data);
        let _ = context::read_listen_points(each.data);
        let _ = context::read_invocation_policies(each.data);
        let _ = context::read_exception_detail(each.data);
        let _ = context::decoder(each.data, d.text(), &scope);
    }
    message::body(&mut d);
    // The low bit of the length chooses the kind of the body.
    if d.remaining() & 1 == 0 {
        let _ = SystemException::decode(&mut d).map(|exception| exception.to_string());
    } else {
        let _ = Ior::decode(&mut d).map(|ior| explain::explain_ior(&ior));
    }
    None
}
