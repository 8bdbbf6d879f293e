//! How a channel becomes a member of a federation.

use super::node::Federation;
use super::{History, Levels, Pace, Security};
use crate::channel::Channel;
use crate::dispatch::{Dispatch, Queued, Strategy, ThreadSetup};
use crate::error::ConnectError;
use crate::placement::Quality;
use isorb_rt::priority::Priority;
use std::fmt;
use std::sync::Arc;

/// Makes a channel a member of a federation. See [`Federation::builder`].
#[derive(Clone, Debug)]
pub struct FederationBuilder {
    pub(super) channel: Channel,
    pub(super) quality: Quality,
    pub(super) history: History,
    pub(super) levels: Levels,
    pub(super) gateways: Gateways,
    pub(super) security: Security,
    pub(super) paces: Vec<Pace>,
}

impl FederationBuilder {
    pub(super) fn new(channel: &Channel) -> FederationBuilder {
        FederationBuilder {
            channel: channel.clone(),
            quality: Quality::default(),
            history: History::default(),
            levels: Levels::default(),
            gateways: Gateways::default(),
            security: Security::default(),
            paces: Vec::new(),
        }
    }

    /// The quality of the member's gateways, which the channel serves like other consumers.
    #[must_use]
    pub fn quality(mut self, quality: Quality) -> Self {
        self.quality = quality;
        self
    }

    /// How many events the member keeps at each level.
    #[must_use]
    pub fn history(mut self, history: History) -> Self {
        self.history = history;
        self
    }

    /// The priority levels. All members need the same number of them.
    #[must_use]
    pub fn levels(mut self, levels: Levels) -> Self {
        self.levels = levels;
        self
    }

    /// The threads that run the gateways.
    #[must_use]
    pub fn gateways(mut self, gateways: Gateways) -> Self {
        self.gateways = gateways;
        self
    }

    /// Which hosts the member exchanges events with; by default this one only.
    #[must_use]
    pub fn security(mut self, security: Security) -> Self {
        self.security = security;
        self
    }

    /// What gateways send of each level over each link at most; the last of a level counts. Levels
    /// without a pace are sent as fast as the link takes them.
    #[must_use]
    pub fn paces(mut self, paces: &[Pace]) -> Self {
        self.paces = paces.to_vec();
        self
    }

    /// Makes the channel a member.
    ///
    /// # Errors
    /// [`ConnectError`]: `Destroyed` also for a channel with [`ChannelBuilder::id`](crate::ChannelBuilder::id) 0,
    /// `Thread` if a thread of the gateways did not start.
    pub fn build(self) -> Result<Federation, ConnectError> {
        Federation::start(self)
    }
}

/// The threads that run a member's gateways. A gateway is the consumer that sends events over a
/// link.
#[derive(Clone, Default)]
pub enum Gateways {
    /// The channel's own dispatching.
    #[default]
    Channel,
    /// A dispatcher for all gateways, so that a stalled link delays no other consumer.
    Dispatcher(Arc<dyn Dispatch>),
    /// Threads at each level, with the priority at which the level begins. A stalled link delays no
    /// consumer, and less urgent events delay no more urgent ones. Each link also has a notifier
    /// thread with the priority of the most urgent level, which sends control messages. So a
    /// neighbour that does not answer delays neither events nor other neighbours.
    Threads(usize, ThreadSetup),
}

impl Gateways {
    /// The dispatcher of the level that begins at this priority; `None` for the channel's.
    pub(super) fn at(&self, level: Priority) -> Result<Option<Arc<dyn Dispatch>>, ConnectError> {
        match self {
            Gateways::Channel => Ok(None),
            Gateways::Dispatcher(dispatch) => Ok(Some(dispatch.clone())),
            Gateways::Threads(per_level, setup) => {
                let strategy = Strategy::Threads { per_level: *per_level };
                let queued = Queued::alone(strategy, &[level], setup).map_err(ConnectError::Thread)?;
                Ok(queued.map(|queued| Arc::new(queued) as Arc<dyn Dispatch>))
            }
        }
    }

    /// How notifier threads are started; `None` if links have none.
    pub(super) fn notifiers(&self) -> Option<ThreadSetup> {
        match self {
            Gateways::Threads(_, setup) => Some(setup.clone()),
            Gateways::Channel | Gateways::Dispatcher(_) => None,
        }
    }
}

impl fmt::Debug for Gateways {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gateways::Channel => f.write_str("Channel"),
            Gateways::Dispatcher(_) => f.write_str("Dispatcher"),
            Gateways::Threads(per_level, setup) => {
                f.debug_tuple("Threads").field(per_level).field(setup).finish()
            }
        }
    }
}
