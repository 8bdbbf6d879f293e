//! How a channel takes part in a federation.

use super::{History, Levels};
use crate::dispatch::{Dispatch, Queued, Strategy, ThreadSetup};
use crate::error::ConnectError;
use crate::placement::Quality;
use isorb_rt::priority::Priority;
use std::fmt;
use std::sync::Arc;

/// How a channel takes part in a federation.
#[derive(Clone, Debug, Default)]
pub struct Membership {
    /// What its gateways are given, which the channel dispatches to as to any consumer.
    pub quality: Quality,
    /// What it remembers, at each level.
    pub history: History,
    /// The levels of urgency.
    pub levels: Levels,
    /// Who runs its gateways.
    pub gateways: Gateways,
}

/// Who runs a member's gateways, which send what is wanted beyond their links.
#[derive(Clone, Default)]
pub enum Gateways {
    /// The channel's own dispatching.
    #[default]
    Channel,
    /// A dispatcher for all of them: a link that stalls then holds up no consumer.
    Dispatcher(Arc<dyn Dispatch>),
    /// So many threads at each level, with the priority at which the level begins: a link that stalls holds up no consumer, and what
    /// is less urgent nothing that is more so. Each link has a further thread, with the priority of the most urgent level, that tells
    /// the neighbour how things are: one that is frozen holds up neither events from elsewhere nor who is told elsewhere.
    Threads(usize, ThreadSetup),
}

impl Gateways {
    /// The dispatcher of the level that begins here, if it is not the channel's.
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
}

impl Gateways {
    /// How the threads that tell neighbours are started, if there are to be any.
    pub(super) fn tellers(&self) -> Option<ThreadSetup> {
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
