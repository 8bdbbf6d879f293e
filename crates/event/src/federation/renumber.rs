//! Numbers of an earlier process of a member.
//!
//! A member numbers its events from the clock of the day on, so that neighbours take the events of
//! a new process for new. If the clock was set back meanwhile, they remember larger numbers. Their
//! requests say which, and the member goes on above these.

use super::protocol::Protocol;

/// Numbers that are skipped. A request names the events that arrived without a gap; later ones may
/// have arrived as well, at most as many as a history holds.
const AHEAD: u64 = 1 << 20;

/// Larger numbers are ignored: no clock leads to them, and a forger must not use up all numbers.
const MOST: u64 = 1 << 63;

impl Protocol {
    /// A member has events of this one up to number `known`. Continues above it, if that is more
    /// than this process has numbered.
    ///
    /// Events that no neighbour was sent yet are numbered anew. Where some were, the member that
    /// asks does not get them, and they are counted as lost.
    pub(super) fn number_above(&mut self, known: u64) {
        if known <= self.sequence || known > MOST {
            return;
        }
        let source = self.id;
        let is_sent = |link_state: &super::protocol::LinkState| {
            link_state.streams.get(&source).is_some_and(|stream| stream.epoch != 0)
        };
        if self.links.values().any(is_sent) {
            self.counts.lost += self.log.count(source);
            self.sequence = known + AHEAD;
        } else {
            let by = known + AHEAD - self.first;
            self.sequence += by;
            self.log.renumber(source, by);
            self.interests.renumber(by);
        }
        self.first = known + AHEAD;
    }
}
