//! Best-effort channels on the ORB's path, of which one value at a time may stand ahead of
//! guaranteed ones.

use super::{NodeAdmission, Refused, Resource, call_octets};
use isorb_sched::{Link, Nanos};

impl NodeAdmission {
    /// Enters a best-effort channel on the ORB's path, with values of this size at most. Where the
    /// network does not sort by class ([`Switch::sorts`](super::Switch::sorts)), guaranteed
    /// channels are admitted with the longest of such values ahead of them.
    ///
    /// # Errors
    /// [`Refused`]: a guaranteed channel that was admitted before would miss its deadline.
    ///
    /// # Real-time
    /// A control path. Where the network does not sort and no value was as long, all guaranteed
    /// channels of the link are admitted anew.
    pub(crate) fn enter_best_effort(&mut self, name: &str, size: usize) -> Result<(), Refused> {
        *self.best_effort.entry(size).or_default() += 1;
        self.count_best_effort().inspect_err(|_| self.leave_best_effort(size)).map_err(|late| Refused {
            resource: Resource::Link,
            reason: format!(
                "{name} is best effort by calls, with values of {size} octets, and the network does not sort by \
                 class (--switch-fifo), so that one stands before guaranteed values: {late}"
            ),
            nearest_period_ns: None,
            nearest_deadline_ns: None,
        })
    }

    /// A best-effort channel on the ORB's path has ended.
    pub(crate) fn leave_best_effort(&mut self, size: usize) {
        if let Some(channels) = self.best_effort.get_mut(&size) {
            *channels -= 1;
            if *channels == 0 {
                self.best_effort.remove(&size);
            }
        }
        // Less stands ahead than before, so that what was admitted stays so.
        let _ = self.count_best_effort();
    }

    fn count_best_effort(&mut self) -> Result<(), String> {
        let longest = self.best_effort.last_key_value().map(|(size, _)| *size);
        let ahead = match longest {
            Some(size) if !self.config.switch.sorts => self.whole_link().time_of(call_octets(size)),
            _ => Nanos::ZERO,
        };
        let before = self.ahead;
        for part in 0..self.parts.len() {
            if let Err(late) = self.parts[part].link.set_ahead(ahead) {
                // What was admitted with is admissible.
                self.parts[..part].iter_mut().for_each(|part| drop(part.link.set_ahead(before)));
                return Err(late.to_string());
            }
        }
        self.ahead = ahead;
        Ok(())
    }

    /// The link, of which each part sends to a share.
    pub(super) fn whole_link(&self) -> Link {
        let whole = self.model.wire.bits_per_second.saturating_mul(self.parts.len() as u64);
        Link { bits_per_second: whole, ..self.model.wire }
    }
}

#[cfg(test)]
mod tests {
    use crate::admission::{CallChannel, ChannelRequest, Costs, NodeAdmission, NodeConfig, Resource, Switch};
    use crate::admission::{call_octets, link_rate};
    use crate::wire::Channel;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;
    const MBIT: u64 = 10_000_000;

    fn node(sorts: bool) -> NodeAdmission {
        let costs = Costs { call_ns: Some(1_000), push_ns: 1_000, ..Costs::default() };
        let switch = Switch { sorts, ..Switch::default() };
        NodeAdmission::new(&NodeConfig { costs, switch, link_bits_per_s: MBIT, ..NodeConfig::default() })
    }

    fn request(period_ms: u64, deadline_ms: u64) -> ChannelRequest {
        ChannelRequest { period_ns: period_ms * MS, deadline_ns: deadline_ms * MS }
    }

    const SMALL: CallChannel = CallChannel { size: 100, window: 1 };

    #[test]
    fn a_value_that_would_stand_before_guaranteed_ones_for_too_long_is_refused() {
        let mut node = node(false);
        let grant = node.admit_push_calls("radar", SMALL, request(200, 40)).unwrap();
        // Half of 40 ms are for the link. 60,000 octets take 55 ms of it, 10,000 take 10.
        node.enter_best_effort("maps", 10_000).unwrap();
        let refused = node.enter_best_effort("video", 60_000).unwrap_err();
        assert_eq!(refused.resource, Resource::Link);
        let text = refused.to_string();
        assert!(
            ["video", "60000", "--switch-fifo", "radar"].iter().all(|part| text.contains(part)),
            "{text}"
        );
        // In the other order the guarantee is refused, and a short value is no obstacle.
        node.release(&grant);
        node.enter_best_effort("video", 60_000).unwrap();
        let refused = node.admit_push_calls("radar", SMALL, request(200, 40)).unwrap_err();
        assert_eq!(refused.resource, Resource::Link, "{refused}");
        node.leave_best_effort(60_000);
        let grant = node.admit_push_calls("radar", SMALL, request(200, 40)).unwrap();
        assert!(node.enter_best_effort("video", 60_000).is_err(), "as long as it is admitted");
        node.release(&grant);
        node.leave_best_effort(10_000);
        assert!(node.best_effort.is_empty() && node.is_empty() && node.ahead.is_zero());
    }

    #[test]
    fn datagrams_wait_for_best_effort_calls_too_and_a_network_that_sorts_lets_none_wait() {
        let channel = Channel { id: 0, epoch: 1, token: 1, size: 100, fragment: 1384, parity: 0 };
        for sorts in [false, true] {
            let mut node = node(sorts).processors(2);
            node.admit_push_on(1, "radar", &channel, request(200, 40)).unwrap();
            assert_eq!(node.enter_best_effort("video", 60_000).is_ok(), sorts);
            assert!(node.enter_best_effort("maps", 10_000).is_ok());
        }
    }

    /// The completion of each channel's values on a link with one queue: a best-effort value has
    /// just begun when all channels write, and theirs leave in the least favourable order.
    fn last_ends_ns(admitted: &[(CallChannel, ChannelRequest)], best_effort: Option<usize>) -> u64 {
        let octets: u64 = admitted.iter().map(|(channel, _)| call_octets(channel.size)).sum();
        let octets = octets + best_effort.map_or(0, call_octets);
        octets * 1_000_000_000 / link_rate(MBIT)
    }

    /// The time that the link has: four eighths of the time of a value by calls.
    fn on_link_ns(request: ChannelRequest) -> u64 {
        request.deadline_ns.min(request.period_ns / 2) / 2
    }

    proptest! {
        #[test]
        fn admitted_values_leave_in_time_behind_the_longest_best_effort_value(
            wishes in prop::collection::vec((10usize..4_000, 1u64..6, 10u64..60), 1..12),
            best_effort in prop::collection::vec(10usize..60_000, 0..4),
            first in any::<bool>(),
        ) {
            let mut node = node(false);
            let mut admitted = Vec::new();
            let mut ahead = Vec::new();
            let mut enter = |node: &mut NodeAdmission| {
                for size in &best_effort {
                    if node.enter_best_effort("bulk", *size).is_ok() {
                        ahead.push(*size);
                    }
                }
            };
            if first {
                enter(&mut node);
            }
            for (size, period, percent) in wishes {
                let request = request(100 * period, period * percent);
                let channel = CallChannel { size, window: 1 };
                if node.admit_push_calls("line", channel, request).is_ok() {
                    admitted.push((channel, request));
                }
            }
            if !first {
                enter(&mut node);
            }
            let ends_ns = last_ends_ns(&admitted, ahead.iter().max().copied());
            for (_, request) in &admitted {
                prop_assert!(ends_ns <= on_link_ns(*request), "{ends_ns} {request:?} {ahead:?}");
            }
        }
    }

    /// The control of the property: where it is not counted, such a value makes others late.
    #[test]
    fn a_value_that_is_not_counted_makes_others_late() {
        let mut node = node(true);
        node.admit_push_calls("radar", SMALL, request(200, 40)).unwrap();
        node.enter_best_effort("video", 60_000).unwrap();
        let admitted = [(SMALL, request(200, 40))];
        assert!(last_ends_ns(&admitted, Some(60_000)) > on_link_ns(request(200, 40)));
    }
}
