//! Readers' nodes that died: the pushes to them end.

use super::Channels;
use crate::Error;
use crate::idl::CRM_CommRef;
use crate::node::failover::FailoverRef;
use isorb::Kind;
use std::collections::HashMap;
use std::time::Duration;

/// The time that a ping has.
const ANSWER: Duration = Duration::from_secs(1);
/// A node is dead after this many pings without an answer, which are two seconds or more apart. A
/// node that was only cut off opens its channels again.
const PINGS: u32 = 5;

/// Unanswered pings of each reader's node, by its incarnation.
pub(in crate::node) type Unanswered = HashMap<u64, u32>;

impl Channels {
    /// Pings the servers of the readers' nodes and ends the channels to dead ones.
    pub fn ping_readers(&self, unanswered: &mut Unanswered) {
        let mut nodes: HashMap<u64, FailoverRef<CRM_CommRef>> = HashMap::new();
        for channel in self.lock().pushes() {
            if let Some(reader) = &channel.reader {
                nodes.entry(channel.incarnation).or_insert_with(|| reader.clone());
            }
        }
        unanswered.retain(|incarnation, _| nodes.contains_key(incarnation));
        for (incarnation, server) in nodes {
            let count = unanswered.entry(incarnation).or_default();
            match server.within(ANSWER).call(CRM_CommRef::ping) {
                Ok(()) => *count = 0,
                // Another process has the address.
                Err(Error::System(error)) if error.kind == Kind::ObjectNotExist => *count = PINGS,
                Err(_) => *count += 1,
            }
            if *count >= PINGS {
                self.end_if(|channel| channel.incarnation == incarnation);
            }
        }
    }
}
