//! Readers' nodes that died: what is pushed to them ends.

use super::Shared;
use super::failover::FailoverRef;
use crate::Error;
use crate::idl::CRM_CommRef;
use isorb::Kind;
use std::collections::HashMap;
use std::time::Duration;

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(1);
/// After so many questions without an answer, two seconds or more apart, a node is dead. A node that was cut off opens its channels anew.
const QUESTIONS: u32 = 5;

impl Shared {
    /// Asks the servers of the nodes that are pushed to whether they live; `unanswered` is kept from round to round, by the incarnation.
    pub(super) fn forget_the_dead(&self, unanswered: &mut HashMap<u64, u32>) {
        let mut nodes: HashMap<u64, FailoverRef<CRM_CommRef>> = HashMap::new();
        for channel in self.tables.lock().channels.values() {
            if let Some(reader) = &channel.reader {
                nodes.entry(channel.incarnation).or_insert_with(|| reader.clone());
            }
        }
        unanswered.retain(|incarnation, _| nodes.contains_key(incarnation));
        for (incarnation, server) in nodes {
            let count = unanswered.entry(incarnation).or_default();
            match ask(&server) {
                Answer::Lives => *count = 0,
                Answer::Nothing => *count += 1,
                Answer::Gone => *count = QUESTIONS,
            }
            if *count >= QUESTIONS {
                self.end_channels(|channel| channel.incarnation == incarnation);
            }
        }
    }
}

enum Answer {
    Lives,
    Nothing,
    /// Another process answers in its place.
    Gone,
}

fn ask(server: &FailoverRef<CRM_CommRef>) -> Answer {
    match server.within(ANSWER).call(CRM_CommRef::ping) {
        Ok(()) => Answer::Lives,
        Err(Error::System(error)) if error.kind == Kind::ObjectNotExist => Answer::Gone,
        Err(_) => Answer::Nothing,
    }
}
