//! The port of a reader's node, into which several nodes send at the same time.
//!
//! In any interval, a sender's guaranteed channels send at most the rate of its link, and at most
//! the sums of their bursts and rates (token buckets). The sum over all senders, less what the port
//! carries, is the longest queue in front of the port in any order of service. If the rates
//! together exceed the share of the port, the queue has no bound.
//!
//! Best effort runs on credits of the node, so it adds no more than those to the queue: always to
//! the memory that the switch needs, and to the delay where the switch does not sort by class.

use super::{Switch, best_effort_window};
use std::collections::HashMap;

/// Bytes of a full frame on the wire.
const FRAME: f64 = 1538.0;

/// One guaranteed channel into the port.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Flow {
    /// Bytes a second of the channel, and of its sender's link.
    pub rate: f64,
    pub link: f64,
    /// Bytes that may arrive at once.
    pub burst: f64,
    /// The longest time in the port's queue, seconds.
    pub within_s: f64,
}

/// The guaranteed channels into a port.
#[derive(Debug, Default)]
pub(super) struct Port {
    /// Bytes a second.
    capacity: f64,
    share: f64,
    switch: Switch,
    /// Octets of best effort that may be on their way.
    best_effort: f64,
    /// The sender of each flow.
    flows: HashMap<u64, (String, Flow)>,
    last: u64,
}

/// Why a flow does not fit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Excess {
    /// The rates together, bytes a second, and what the share allows.
    Rate(f64, f64),
    /// The longest time in the queue, and what the most urgent channel allows, seconds.
    Delay(f64, f64),
    /// Octets of the longest queue, those of best effort among them, and what the switch keeps.
    Buffer { queue: f64, best_effort: f64, buffer: f64 },
}

impl Port {
    pub fn new(bits_per_s: u64, share: f64, switch: Switch) -> Port {
        let (capacity, best_effort) = (bits_per_s as f64 / 8.0, best_effort_window(bits_per_s) as f64);
        Port { capacity, share, switch, best_effort, ..Port::default() }
    }

    /// Admitted flows.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Adds a flow and returns its number.
    pub fn admit(&mut self, sender: &str, flow: Flow) -> Result<u64, Excess> {
        self.check(sender, flow)?;
        self.last += 1;
        self.flows.insert(self.last, (sender.into(), flow));
        Ok(self.last)
    }

    pub fn remove(&mut self, number: u64) {
        self.flows.remove(&number);
    }

    /// Whether a flow fits beside the admitted ones, and they beside it.
    pub fn check(&self, sender: &str, flow: Flow) -> Result<(), Excess> {
        let all = || self.flows.values().map(|(sender, flow)| (&**sender, *flow)).chain([(sender, flow)]);
        let rate: f64 = all().map(|(_, flow)| flow.rate).sum();
        if rate > self.capacity * self.share {
            return Err(Excess::Rate(rate, self.capacity * self.share));
        }
        let mut senders: HashMap<&str, Flow> = HashMap::new();
        for (sender, flow) in all() {
            let sum = senders.entry(sender).or_insert(Flow { rate: 0.0, burst: 0.0, ..flow });
            (sum.rate, sum.burst) = (sum.rate + flow.rate, sum.burst + flow.burst);
        }
        let within_s = all().map(|(_, flow)| flow.within_s).fold(f64::INFINITY, f64::min);
        let urgent = self.queue(&senders.into_values().collect::<Vec<_>>());
        let delay_s = self.delay(urgent);
        if delay_s > within_s {
            return Err(Excess::Delay(delay_s, within_s));
        }
        let (queue, best_effort) = (urgent + self.best_effort.max(FRAME), self.best_effort);
        match self.switch.buffer as f64 {
            buffer @ 1.0.. if queue > buffer => Err(Excess::Buffer { queue, best_effort, buffer }),
            _ => Ok(()),
        }
    }

    /// The longest time in the queue. Where the switch sorts, one frame of best effort goes before;
    /// else all of it that has credit.
    fn delay(&self, urgent: f64) -> f64 {
        let before = if self.switch.sorts { FRAME } else { self.best_effort.max(FRAME) };
        (urgent + before) / self.capacity
    }

    /// Octets of guaranteed channels in the longest queue. It grows until one of the senders has
    /// sent its burst, so it is longest at one of those moments.
    fn queue(&self, senders: &[Flow]) -> f64 {
        let ends = senders.iter().map(|sender| match sender.link - sender.rate {
            left if left > 0.0 => (sender.burst - FRAME).max(0.0) / left,
            _ => 0.0,
        });
        let sent = |at: f64| -> f64 {
            let of = |sender: &Flow| (FRAME + sender.link * at).min(sender.burst + sender.rate * at);
            senders.iter().map(of).sum()
        };
        ends.chain([0.0]).map(|at| sent(at) - self.capacity * at).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A port of 10 Mbit/s, of which eight tenths are for guaranteed channels.
    fn port() -> Port {
        Port::new(10_000_000, 0.8, Switch::default())
    }

    fn flow(mbit: f64, burst: f64, within_s: f64) -> Flow {
        Flow { rate: mbit * 125_000.0, link: 1_250_000.0, burst, within_s }
    }

    #[test]
    fn the_rates_of_all_senders_count_together() {
        let mut port = port();
        let one = port.admit("a", flow(6.9, 5_000.0, 1.0)).unwrap();
        assert!(matches!(port.admit("b", flow(6.9, 5_000.0, 1.0)), Err(Excess::Rate(..))));
        port.remove(one);
        port.admit("b", flow(6.9, 5_000.0, 1.0)).unwrap();
        port.admit("c", flow(1.0, 5_000.0, 1.0)).unwrap();
    }

    #[test]
    fn the_bursts_of_several_senders_make_a_queue_and_those_of_one_do_not() {
        let large = |within_s| flow(0.1, 50_000.0, within_s);
        let mut alone = port();
        for _ in 0..10 {
            alone.admit("a", large(0.005)).unwrap();
        }
        // Two senders at the port's rate: the second one's data waits, 40 ms of it.
        let mut several = port();
        several.admit("a", large(0.05)).unwrap();
        assert!(several.check("b", large(0.05)).is_ok());
        let Err(Excess::Delay(delay_s, within_s)) = several.check("b", large(0.02)) else {
            panic!("it waits")
        };
        assert!((0.039..0.045).contains(&delay_s) && within_s == 0.02, "{delay_s}");
        // A channel with a long deadline does not harm an urgent one that was admitted before.
        let mut urgent = port();
        urgent.admit("a", flow(0.1, 1_000.0, 0.01)).unwrap();
        assert!(urgent.admit("b", large(10.0)).is_ok());
        assert!(matches!(urgent.admit("c", large(10.0)), Err(Excess::Delay(..))));
    }

    #[test]
    fn what_a_switch_keeps_bounds_the_queue_and_best_effort_delays_where_it_does_not_sort() {
        // Two bursts of 20,000 octets: one is carried while the other waits, beside 6,250 octets of
        // best effort.
        let with = |buffer, sorts| {
            let mut port = Port::new(10_000_000, 0.8, Switch { buffer, sorts });
            port.admit("a", flow(0.1, 20_000.0, 0.02)).unwrap();
            port.check("b", flow(0.1, 20_000.0, 0.02))
        };
        assert_eq!((with(0, true), with(40_000, true)), (Ok(()), Ok(())));
        let Err(Excess::Buffer { queue, best_effort, buffer }) = with(24_000, true) else {
            panic!("the switch cannot keep it")
        };
        assert!(queue > 24_000.0 && queue < 30_000.0 && best_effort == 6_250.0 && buffer == 24_000.0);
        assert!(matches!(with(0, false), Err(Excess::Delay(..))), "all of best effort goes before");
    }

    /// Senders that use all of their rates and bursts, as early as possible, packet by packet.
    #[test]
    fn no_queue_is_longer_than_the_bound() {
        for (senders, bursts) in [(2, 30_000.0), (3, 10_000.0), (7, 4_000.0)] {
            let flows: Vec<Flow> = (0..senders).map(|_| flow(1.0, bursts, 1.0)).collect();
            let port = port();
            let bound = port.delay(port.queue(&flows));
            let (mut queue, mut longest, step) = (0.0_f64, 0.0_f64, 0.000_1);
            let mut sent = vec![0.0; senders];
            for at in (0..5_000).map(|number| f64::from(number) * step) {
                for (sent, flow) in sent.iter_mut().zip(&flows) {
                    let may = (FRAME + flow.link * at).min(flow.burst + flow.rate * at);
                    queue += may - *sent;
                    *sent = may;
                }
                longest = longest.max(queue);
                queue = (queue - port.capacity * step).max(0.0);
            }
            let delay_s = longest / port.capacity;
            assert!(delay_s <= bound + step && delay_s > bound / 2.0, "{delay_s} of {bound}");
        }
    }
}
