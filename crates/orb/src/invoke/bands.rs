//! Announcing the priority band of a connection, and opening connections in advance.

use super::attempt::{Call, RtContexts};
use super::binding::PriorityBinding;
use super::reply::{Failure, Outcome};
use crate::buffers::with_scope;
use crate::connection::{Connection, ConnectionWatcher};
use crate::object::{Locality, Target};
use crate::peer::{Lease, LeaseRequest, Peer};
use crate::policy::{Rebind, Timeout};
use crate::sched::BIND_PRIORITY_BAND;
use crate::sched::policy::PriorityBand;
use crate::{Object, Operation, Result, SystemException};
use isorb_giop::Kind;
use isorb_giop::message::Response;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

static BIND: Operation = Operation { name: BIND_PRIORITY_BAND, oneway: false };

impl Call<'_, '_> {
    /// Announces the band of a connection before its first request (RT-CORBA 1.2, priority-banded
    /// connections), by the implicit operation `_bind_priority_band` with the band in a context. A
    /// server without this operation serves the connection as any other; one of TAO is not asked.
    /// A server without a lane for the band refuses it, and the connection is of no use.
    #[cold]
    pub fn bind_band(
        &self,
        target: &Target,
        connection: &Arc<Connection>,
        band: PriorityBand,
    ) -> Result<(), Failure> {
        if !target.binds_bands {
            connection.band_agreed.store(true, Ordering::Release);
            return Ok(());
        }
        let Call { object, began, deadline, timeout, .. } = *self;
        let call = Call::waiting(object, BIND_PRIORITY_BAND, &|_| (), (began, deadline, timeout));
        let own = RtContexts { priority: None, band: Some(band.write()) };
        let answered = with_scope(|scope| {
            let answer = call.on_connection(target, connection, scope, Timeout::until(deadline), own);
            let outcome = answer.and_then(|answer| match answer {
                Some(answer) => Ok(matches!(call.outcome(answer, scope)?, Outcome::Reply(_))),
                None => Ok(false),
            });
            Ok::<_, SystemException>(outcome)
        })?;
        let agreed = match answered {
            // Not agreed means a forward or another address, which the request itself will get,
            // too.
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
    /// Opens the connection that oneways of this thread will use, or takes an open one, and
    /// announces its priority band. Unlike
    /// [`validate_connection`](Self::validate_connection) it does not call the object. A `watcher`
    /// is notified when the connection has room again after a call with
    /// [`SyncScope::None`](crate::SyncScope::None) kept octets or raised TRANSIENT
    /// ([`TRANSIENT_BUSY`](crate::minor::TRANSIENT_BUSY)), and when it ends.
    ///
    /// # Errors
    /// The failure to open it, or the server's answer to its band. NO_RESOURCES if it cannot be
    /// monitored.
    ///
    /// # Real-time
    /// Connects, may call the server, and allocates, so that later calls need not.
    pub fn open_connection(&self, watcher: Option<Weak<dyn ConnectionWatcher>>) -> Result<()> {
        let target = self.target()?;
        let Locality::Remote(peer) = &target.locality else { return Ok(()) };
        let lease = if self.needs_plan(&target) {
            let binding = PriorityBinding::find(self, &target, peer)?;
            self.open_on(&target, binding.choose()?.0)?
        } else {
            self.open_on(&target, peer)?
        };
        if let Some(watcher) = watcher {
            if !self.orb().connector().monitors.add(&lease) {
                return Err(Kind::NoResources.into());
            }
            lease.add_watcher(watcher);
        }
        Ok(())
    }

    /// A connection that calls through this reference use; `None` without one, for objects of this
    /// ORB and for groups.
    #[cfg(not(loom))]
    pub(crate) fn lease(&self) -> Result<Option<Lease>> {
        let target = self.target()?;
        let Locality::Remote(peer) = &target.locality else { return Ok(None) };
        if !self.needs_plan(&target) {
            return self.open_on(&target, peer).map(Some);
        }
        let binding = PriorityBinding::find(self, &target, peer)?;
        self.open_on(&target, binding.choose()?.0).map(Some)
    }

    /// Opens a connection of a peer, or takes an idle one, and announces its band.
    ///
    /// # Errors
    /// The failure to open it, or the server's answer to its band.
    pub(crate) fn open_on(&self, target: &Target, peer: &Peer) -> Result<Lease> {
        let policies = self.effective_policies()?;
        let call = self.call(&BIND, Response::Target, &|_| (), policies)?;
        let reconnect = policies.rebind != Rebind::NoReconnect;
        let request = LeaseRequest {
            began: call.began,
            deadline: call.deadline,
            timeout: call.timeout,
            reconnect,
            only_open: false,
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
