//! One level of urgency of a member: a federation by itself, but for the links and who says what over them.

use super::gateways::Wire;
use super::log::Copied;
use super::machine::Machine;
use super::{LinkId, Membership};
use crate::admin::{ProxyPushConsumer, ProxyPushSupplier};
use crate::connection::Connection;
use crate::dispatch::Dispatch;
use crate::error::ConnectError;
use crate::filter::Filter;
use crate::observer::Union;
use isorb_rt::priority::Priority;
use isorb_rt::sync::{PiMutex, Turn};
use std::sync::Arc;

pub(super) struct Plane {
    pub(super) level: u8,
    pub(super) machine: PiMutex<Machine>,
    pub(super) dispatch: Option<Arc<dyn Dispatch>>,
    wires: PiMutex<Vec<Arc<Wire>>>,
    delivering: Turn,
    /// The event that own consumers are given; of whoever has the turn.
    delivered: PiMutex<Copied>,
    pub(super) subscribing: Turn,
    /// The consumer of what is wanted elsewhere, and what that is.
    pub(super) collector: PiMutex<(Option<ProxyPushSupplier>, Vec<Filter>)>,
}

impl Plane {
    pub(super) fn new(
        level: u8,
        begin: Priority,
        id: u64,
        first: u64,
        membership: &Membership,
    ) -> Result<Plane, ConnectError> {
        Ok(Plane {
            level,
            machine: PiMutex::new(Machine::new(id, first, membership.history)),
            dispatch: membership.gateways.at(begin)?,
            wires: PiMutex::new(Vec::new()),
            delivering: Turn::new(),
            delivered: PiMutex::new(Copied::with_capacity(super::node::PAYLOAD)),
            subscribing: Turn::new(),
            collector: PiMutex::new((None, Vec::new())),
        })
    }

    pub(super) fn join(&self, wire: Wire) {
        self.machine.lock().join(wire.id);
        self.wires.lock().push(Arc::new(wire));
    }

    pub(super) fn leave(&self, link: LinkId) {
        self.machine.lock().leave(link);
        let mut wires = self.wires.lock();
        let at = wires.iter().position(|wire| wire.id == link);
        let gone = at.map(|at| wires.remove(at));
        drop(wires);
        drop(gone);
    }

    /// The links, one after the other; others may come and go meanwhile.
    pub(super) fn wires(&self) -> impl Iterator<Item = Arc<Wire>> + '_ {
        (0..).map_while(|at| self.wires.lock().get(at).cloned())
    }

    /// What this channel's own consumers want, of those whom `here` names by their priority.
    pub(super) fn own_changed(&self, wanted: &[(Priority, Vec<Filter>)], here: impl Fn(Priority) -> bool) {
        let mut union = Union::default();
        let own = wanted.iter().filter(|(priority, _)| here(*priority));
        own.flat_map(|(_, filters)| filters).for_each(|filter| union.add(filter));
        self.machine.lock().own_changed(&union.into_filters());
    }

    /// Gives own consumers what has come for them: those whom `to` names.
    pub(super) fn deliver(&self, supplier: &ProxyPushConsumer, to: impl Fn(&Connection) -> bool) {
        if !self.delivering.take() {
            return;
        }
        loop {
            let mut copied = self.delivered.lock();
            while self.machine.lock().deliver(&mut copied) {
                supplier.push_among(&copied.event(), &to);
            }
            drop(copied);
            if self.delivering.pass() {
                return;
            }
        }
    }
}
