//! One priority level of a member: a federation of its own, except for the links.

use super::event_log::EventBuffer;
use super::gateways::LevelLink;
use super::protocol::Protocol;
use super::{FederationBuilder, LinkId};
use crate::admin::{ProxyPushConsumer, ProxyPushSupplier};
use crate::connection::Connection;
use crate::dispatch::Dispatch;
use crate::error::ConnectError;
use crate::filter::Filter;
use crate::observer::Union;
use isorb_rt::priority::Priority;
use isorb_rt::sync::{PiMutex, Turn};
use std::sync::Arc;

pub(super) struct LevelState {
    pub(super) level: u8,
    pub(super) protocol: PiMutex<Protocol>,
    pub(super) dispatch: Option<Arc<dyn Dispatch>>,
    level_links: PiMutex<Vec<Arc<LevelLink>>>,
    delivering: Turn,
    /// The event that is being delivered, used by the thread that has the turn.
    delivered: PiMutex<EventBuffer>,
    pub(super) subscribing: Turn,
    /// The consumer of events that are wanted elsewhere, and its filters.
    pub(super) collector: PiMutex<(Option<ProxyPushSupplier>, Vec<Filter>)>,
}

impl LevelState {
    pub(super) fn new(
        level: u8,
        begin: Priority,
        id: u64,
        (incarnation, first): (u64, u64),
        membership: &FederationBuilder,
    ) -> Result<LevelState, ConnectError> {
        Ok(LevelState {
            level,
            protocol: PiMutex::new(Protocol::new(id, incarnation, first, membership.history)),
            dispatch: membership.gateways.at(begin)?,
            level_links: PiMutex::new(Vec::new()),
            delivering: Turn::new(),
            delivered: PiMutex::new(EventBuffer::with_capacity(super::node::PAYLOAD)),
            subscribing: Turn::new(),
            collector: PiMutex::new((None, Vec::new())),
        })
    }

    pub(super) fn join(&self, level_link: LevelLink) {
        self.protocol.lock().join(level_link.id);
        self.level_links.lock().push(Arc::new(level_link));
    }

    pub(super) fn leave(&self, link: LinkId) {
        self.protocol.lock().leave(link);
        let mut level_links = self.level_links.lock();
        let at = level_links.iter().position(|level_link| level_link.id == link);
        let gone = at.map(|at| level_links.remove(at));
        drop(level_links);
        drop(gone);
    }

    /// The links, one after the other. Links may be added and removed meanwhile.
    pub(super) fn level_links(&self) -> impl Iterator<Item = Arc<LevelLink>> + '_ {
        (0..).map_while(|at| self.level_links.lock().get(at).cloned())
    }

    /// Updates the filters of own consumers with the priorities that `here` accepts.
    pub(super) fn own_changed(&self, wanted: &[(Priority, Vec<Filter>)], here: impl Fn(Priority) -> bool) {
        let mut union = Union::default();
        let own = wanted.iter().filter(|(priority, _)| here(*priority));
        own.flat_map(|(_, filters)| filters).for_each(|filter| union.add(filter));
        self.protocol.lock().own_changed(&union.into_filters());
    }

    /// Delivers received events to the own consumers that `to` accepts.
    pub(super) fn deliver(&self, supplier: &ProxyPushConsumer, to: impl Fn(&Connection) -> bool) {
        if !self.delivering.take() {
            return;
        }
        loop {
            let mut buffer = self.delivered.lock();
            while self.protocol.lock().deliver(&mut buffer) {
                supplier.push_among(&buffer.event(), &to);
            }
            drop(buffer);
            if self.delivering.pass() {
                return;
            }
        }
    }
}
