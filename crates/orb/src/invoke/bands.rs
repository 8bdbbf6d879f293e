//! Agreeing with a server on the band of a connection, and opening connections before they are needed.

use super::attempt::{Call, Own};
use super::reply::{Failure, Outcome};
use crate::buffers::with_scope;
use crate::connection::Connection;
use crate::object::Target;
use crate::peer::{Lease, LeaseRequest, Peer};
use crate::policy::{Rebind, Timeout};
use crate::sched::BIND_PRIORITY_BAND;
use crate::sched::policy::PriorityBand;
use crate::{Object, Operation, Result, SystemException};
use isorb_giop::Kind;
use isorb_giop::message::Response;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

static BIND: Operation = Operation { name: BIND_PRIORITY_BAND, oneway: false };

impl Call<'_, '_> {
    /// Tells the server which band a connection is for, before its first request (RT-CORBA 1.2, clause 5.13.2): the implicit operation
    /// `_bind_priority_band`, with the band in a context. A server that does not know the operation serves the connection as any other;
    /// one that has no lane for the band refuses, and the connection is of no use.
    #[cold]
    pub fn bind_band(
        &self,
        target: &Target,
        connection: &Arc<Connection>,
        band: PriorityBand,
    ) -> Result<(), Failure> {
        let Call { orb, object, began, deadline, timeout, .. } = *self;
        let call = Call {
            orb,
            object,
            operation: BIND_PRIORITY_BAND,
            response: Response::Target,
            arguments: &|_| (),
            began,
            deadline,
            timeout,
            wary: Cell::new(false),
            late: Cell::new(true),
            exchange: None,
        };
        let own = Own { priority: None, band: Some(band.write()) };
        let answered = with_scope(|scope| {
            let answer = call.over(target, connection, scope, Timeout::until(deadline), own);
            let outcome = answer.and_then(|answer| match answer {
                Some(answer) => Ok(matches!(call.outcome(answer, scope)?, Outcome::Reply(_))),
                None => Ok(false),
            });
            Ok::<_, SystemException>(outcome)
        })?;
        let agreed = match answered {
            // If not agreed: elsewhere, or addressed otherwise, of which the request itself will hear, too.
            Ok(agreed) => agreed,
            Err(Failure::Final(exception))
                if matches!(exception.kind, Kind::BadOperation | Kind::NoImplement) =>
            {
                true
            }
            Err(failure) => {
                if let Failure::Final(exception) = &failure
                    && matches!(exception.kind, Kind::NoResources | Kind::InvPolicy)
                {
                    connection.break_off();
                }
                return Err(failure);
            }
        };
        connection.band_agreed.store(agreed, Ordering::Release);
        Ok(())
    }
}

impl Object {
    /// Opens a connection of a peer, or takes one that no call uses, and agrees on its band.
    ///
    /// # Errors
    /// What the connection could not be opened for, or what the server said to its band.
    pub(crate) fn open_on(&self, target: &Target, peer: &Peer) -> Result<Lease> {
        let policies = self.effective_policies();
        let call = self.call(&BIND, Response::Target, &|_| (), policies)?;
        let reconnect = policies.rebind != Rebind::NoReconnect;
        let request = LeaseRequest {
            began: call.began,
            deadline: call.deadline,
            timeout: call.timeout,
            reconnect,
            wary: true,
        };
        let lease = peer.lease(self.orb().connector(), request)?;
        if let Some(band) = peer.setup().band
            && !lease.band_agreed.load(Ordering::Acquire)
        {
            call.bind_band(target, &lease, band).map_err(Failure::into_exception)?;
        }
        Ok(lease)
    }
}
