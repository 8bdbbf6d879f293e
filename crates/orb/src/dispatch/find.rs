//! The object of a request or a LocateRequest.

use super::ServerCore;
use crate::buffers::CallBuffers;
use crate::connection::{Arrived, Connection};
use crate::orb_core::SendReply;
use crate::poa::{Refusal, UpcallTarget};
use crate::server::deliver;
use crate::{Orb, Result, SystemException};
use isorb_cdr::{Encoder, Text};
use isorb_giop::message::{self, LocateStatus, OperationName};
use isorb_giop::{Kind, ProtocolError};
use isorb_scope::Scope;

/// The target of a request, by a key that this ORB made or by a registered plain key.
pub(super) fn enter<'u>(
    server: &ServerCore,
    orb: &Orb,
    key: &'u [u8],
    operation: OperationName<'u>,
    scope: &'u Scope<'u>,
) -> Result<UpcallTarget<'u>, Refusal> {
    match server.registry.enter(key, operation) {
        Ok(entered) => Ok(entered),
        Err(refusal) => enter_by_plain_key(server, orb, key, operation, scope, refusal),
    }
}

#[cold]
pub(super) fn enter_by_plain_key<'u>(
    server: &ServerCore,
    orb: &Orb,
    key: &'u [u8],
    operation: OperationName<'u>,
    scope: &'u Scope<'u>,
    refusal: Refusal,
) -> Result<UpcallTarget<'u>, Refusal> {
    let Some(object) = server.plain_key(key) else { return Err(server.forward(orb, key, refusal)) };
    match object.local_key(orb) {
        Some(key) => {
            let key = scope.slice(&key).map_err(SystemException::from)?;
            server.registry.enter(key, operation)
        }
        None => Err(Refusal::Forward { to: object, permanent: false }),
    }
}

/// Whether there is an object behind a key.
pub(super) fn find(server: &ServerCore, orb: &Orb, key: &[u8]) -> Result<(), Refusal> {
    match (server.registry.locate(key), server.plain_key(key)) {
        (Err(_), Some(object)) => match object.local_key(orb) {
            Some(key) => server.registry.locate(&key),
            None => Err(Refusal::Forward { to: object, permanent: false }),
        },
        (Err(refusal), None) => Err(server.forward(orb, key, refusal)),
        (found, _) => found,
    }
}

/// Answers where an object is.
pub(super) fn locate(
    server: &ServerCore,
    orb: &Orb,
    connection: &Connection,
    arrived: Arrived,
    buffers: &mut CallBuffers,
    send: &mut SendReply<'_>,
) -> Result<(), ProtocolError> {
    let CallBuffers { region, encode, block, .. } = buffers;
    let scope = region.enter();
    let bytes = &mut block.bytes_mut()[..arrived.len];
    let mut d = message::start(bytes, &arrived.header, &scope)?;
    let request = message::LocateRequest::read(&mut d)?;
    let text = Text::fallback(arrived.header.version);
    let new = arrived.header.version >= isorb_cdr::Version::V1_2;
    let mut e = Encoder::new(encode.take(), text);
    let mut answer = |status| message::write_locate_reply(&mut e, request.id, status);
    match request.target.key().map(|key| find(server, orb, key)) {
        None if new => {
            answer(LocateStatus::NeedsAddressingMode);
            e.put(0u16);
        }
        None => answer(LocateStatus::UnknownObject),
        Some(Ok(())) => {
            connection.mark_found();
            answer(LocateStatus::ObjectHere);
        }
        Some(Err(Refusal::Forward { to, permanent })) => {
            answer(if permanent && new {
                LocateStatus::ObjectForwardPerm
            } else {
                LocateStatus::ObjectForward
            });
            to.ior().encode(&mut e);
        }
        Some(Err(Refusal::Exception(exception))) if new && exception.kind != Kind::ObjectNotExist => {
            answer(LocateStatus::SystemException);
            exception.encode(&mut e);
        }
        Some(Err(Refusal::Exception(_))) => answer(LocateStatus::UnknownObject),
    }
    deliver(&mut e, send);
    encode.put_back(e.into_buffer());
    Ok(())
}
