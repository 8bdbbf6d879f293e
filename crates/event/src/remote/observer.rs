//! An observer of a channel in another process.

use super::RemoteError;
use super::monitor::{Reconnectable, Shared};
use crate::event::Header;
use crate::filter::{Dependency, Filter, parse_union};
use crate::servants::stamped::rtec_event_channel_admin::{
    self as admin, ConsumerQOSView, EventChannelRef, ObserverRef, SupplierQOSView,
    event_channel::AppendObserverError,
};
use isorb::poa::ObjectId;
use isorb::{Kind, Object, Reference, Result, SystemException, Upcall};
use isorb_rt::sync::PiMutex;
use std::fmt;
use std::sync::Arc;

type Handler = Arc<dyn Fn(&[Filter]) + Send + Sync>;

/// An observer that stays connected until this is dropped; from
/// [`RemoteChannel::observe`](super::RemoteChannel::observe).
pub struct RemoteObserver(Arc<Observing>);

struct Observing {
    shared: Arc<Shared>,
    handle: Handler,
    registration: PiMutex<Option<Registration>>,
}

struct Registration {
    /// The servant's.
    id: ObjectId,
    /// The handle that the channel gave.
    number: u32,
    channel: Object,
    /// Of the connection over which it was made.
    connection: u64,
}

impl RemoteObserver {
    pub(super) fn connect(shared: &Arc<Shared>, handle: Handler) -> Result<RemoteObserver, RemoteError> {
        let observing =
            Arc::new(Observing { shared: shared.clone(), handle, registration: PiMutex::default() });
        observing.register(&shared.resolve()?)?;
        shared.add(&observing);
        Ok(RemoteObserver(observing))
    }
}

impl Reconnectable for Observing {
    /// A channel keeps no observers over a restart, so the registration belongs to the connection.
    fn proxy(&self) -> Option<Object> {
        let connection = self.shared.connection_number();
        let registration = self.registration.lock();
        let current = registration.as_ref().filter(|registration| registration.connection == connection);
        current.map(|registration| registration.channel.clone())
    }

    fn register(&self, channel: &EventChannelRef) -> Result<(), RemoteError> {
        let connection = self.shared.connection_number();
        let poa = &self.shared.poa;
        // Each registration has a servant of its own. If the channel was not restarted, it finds
        // that the former one does not exist, and removes it.
        let servant = Arc::new(Servant(self.handle.clone()));
        let reference: ObserverRef = poa.activate(servant).map_err(SystemException::from)?;
        let id =
            poa.reference_to_id(reference.object()).map_err(|_| SystemException::from(Kind::Internal))?;
        let number = match channel.append_observer(&reference) {
            Ok(number) => number,
            Err(error) => {
                let _ = poa.deactivate_object(&id);
                return Err(match error {
                    AppendObserverError::System(exception) => exception.into(),
                    _ => RemoteError::Refused("the channel takes no further observers"),
                });
            }
        };
        let channel = channel.object().clone();
        let registration = Registration { id, number, channel, connection };
        if let Some(former) = self.registration.lock().replace(registration) {
            let _ = poa.deactivate_object(&former.id);
        }
        Ok(())
    }
}

impl Drop for Observing {
    fn drop(&mut self) {
        let Some(registration) = self.registration.lock().take() else { return };
        let _ = self.shared.poa.deactivate_object(&registration.id);
        // The number is the channel's of that connection.
        if registration.connection == self.shared.connection_number() && self.shared.is_connected() {
            let _ = EventChannelRef::from_object(registration.channel).remove_observer(registration.number);
        }
    }
}

struct Servant(Handler);

impl admin::Observer for Servant {
    fn update_consumer(&self, _: Upcall<'_>, sub: ConsumerQOSView<'_>) -> Result<()> {
        let list: Vec<Dependency> = sub
            .dependencies
            .iter()
            .map(|dependency| {
                let h = &dependency.event.header;
                let (event_type, source) = (h.type_, h.source);
                let header = Header { event_type, source, ttl: h.ttl, creation_time: h.creation_time };
                Dependency { header, rt_info: 0 }
            })
            .collect();
        let filters = parse_union(&list)
            .map_err(|error| SystemException::from(Kind::BadParam).detail(error.to_string()))?;
        (self.0)(&filters);
        Ok(())
    }

    fn update_supplier(&self, _: Upcall<'_>, _: SupplierQOSView<'_>) -> Result<()> {
        Ok(())
    }
}

impl fmt::Debug for RemoteObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RemoteObserver").field(&self.0.shared.url).finish()
    }
}
