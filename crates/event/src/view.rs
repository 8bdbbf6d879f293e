//! What an event sees of the channel, from its entry to the last consumer.

use crate::modules::Row;
use crate::table::Tables;

/// Subscriptions and modules at one moment. An event that entered under one sees it to the end.
#[derive(Clone, Default)]
pub struct View {
    pub(crate) tables: Tables,
    pub(crate) row: Row,
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").field("row", &self.row).finish_non_exhaustive()
    }
}
