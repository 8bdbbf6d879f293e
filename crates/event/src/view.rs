//! The channel as one event sees it, from its entry to the last consumer.

use crate::modules::Pipeline;
use crate::table::Tables;

/// The subscriptions and modules at one moment. An event uses the view of its entry to the end.
#[derive(Clone, Default)]
pub struct View {
    pub(crate) tables: Tables,
    pub(crate) pipeline: Pipeline,
    /// Counts the views of the channel.
    pub(crate) version: u64,
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").field("pipeline", &self.pipeline).finish_non_exhaustive()
    }
}
