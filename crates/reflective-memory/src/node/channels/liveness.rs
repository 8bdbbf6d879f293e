//! Readers' nodes that died: the pushes to them end. So do channels that a node does not read,
//! because the answer to its request or its call to close them was lost: a channel is granted at
//! both nodes or at neither.

use super::Channels;
use super::table::PushChannel;
use crate::Error;
use crate::idl::CRM_CommRef;
use crate::node::failover::FailoverRef;
use isorb::Kind;
use isorb_rt::log::info;
use std::collections::HashMap;
use std::time::Duration;

/// The time that a ping has.
const ANSWER: Duration = Duration::from_secs(1);
/// A node is dead after this many pings without an answer, which are two seconds or more apart. A
/// node that was only cut off opens its channels again.
const PINGS: u32 = 5;

/// Handles in one call.
const AT_ONCE: usize = 1024;

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
                Ok(()) => {
                    *count = 0;
                    self.end_unread(incarnation, &server);
                }
                // Another process has the address.
                Err(Error::System(error)) if error.kind == Kind::ObjectNotExist => *count = PINGS,
                Err(_) => *count += 1,
            }
            if *count >= PINGS {
                self.end_if(|channel| channel.incarnation == incarnation);
            }
        }
    }

    /// Ends the channels that a reader's node does not read.
    fn end_unread(&self, incarnation: u64, server: &FailoverRef<CRM_CommRef>) {
        let of_node = |(handle, channel): (u64, &PushChannel)| {
            (channel.reader.is_some() && channel.incarnation == incarnation).then_some(handle)
        };
        let handles: Vec<u64> = self.lock().handles().filter_map(of_node).collect();
        for some in handles.chunks(AT_ONCE) {
            let unread = server.within(ANSWER).call(|server| server.unread_channels(some));
            for handle in unread.unwrap_or_default().into_iter().filter(|handle| some.contains(handle)) {
                let is_closed = self.close(handle).is_ok();
                if is_closed {
                    info(
                        "isorb::memory",
                        format_args!("a channel that the reader's node does not know was ended"),
                    );
                }
            }
        }
    }

    /// Those of another node's channels to this one that are not read here.
    pub fn unread(&self, which: &[u64]) -> Vec<u64> {
        self.handles.unread(which)
    }
}
