//! Service contexts about a connection, which a client sends with its first request only.

use crate::connection::Connection;
use crate::{Orb, Result};
use isorb_cdr::Version;
use isorb_giop::message::Request;
use isorb_giop::{ProtocolError, context};
use std::sync::Arc;

/// Applies the service contexts about the connection: code sets and bidirectional listen points.
/// The inner error is for the client, also for a priority band that cannot be read.
///
/// # Errors
/// [`ProtocolError`] when a context cannot be read.
#[cold]
pub(crate) fn apply_contexts(
    orb: &Orb,
    connection: &Arc<Connection>,
    request: &Request<'_>,
    version: Version,
) -> Result<Result<()>, ProtocolError> {
    if connection.code_sets().is_none()
        && let Some(data) = request.contexts.get(context::CODE_SETS)
    {
        match context::CodeSets::read(data)?.text(version) {
            Ok(text) => connection.set_code_sets(text.narrow, orb.config().wide(text.wide)),
            Err(exception) => return Ok(Err(exception)),
        }
    }
    if let Some(data) = request.contexts.get(context::BI_DIR_IIOP) {
        orb.accept_bidirectional(connection, data);
    }
    if let Some(data) = request.contexts.get(context::RT_CORBA_PRIORITY_RANGE)
        && let Err(exception) = context::PriorityRange::read(data)
    {
        return Ok(Err(exception));
    }
    Ok(Ok(()))
}
