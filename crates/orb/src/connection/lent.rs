//! Parts of a reply that lie in memory of the server.

use super::Connection;
use crate::lent::LentParts;
use std::sync::Arc;

/// The parts of a reply, in the scope of its caller. They are released when the scope is left.
#[derive(Debug)]
pub(crate) struct LentReply {
    pub parts: LentParts,
    pub connection: Arc<Connection>,
}

impl Drop for LentReply {
    fn drop(&mut self) {
        self.parts.release(self.connection.stream());
    }
}
