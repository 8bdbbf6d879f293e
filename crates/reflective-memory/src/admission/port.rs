//! The port of a reader's node, into which several nodes send at the same time.
//!
//! In any interval, a sender's guaranteed channels send at most the rate of its link, and at most
//! the sums of their bursts and rates (token buckets). The sum over all senders, less what the port
//! carries, is the longest queue in front of the port in any order of service. If the rates
//! together exceed the share of the port, the queue has no bound.

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
}

impl Port {
    pub fn new(bits_per_s: u64, share: f64) -> Port {
        Port { capacity: bits_per_s as f64 / 8.0, share, ..Port::default() }
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
        let delay_s = self.delay(&senders.into_values().collect::<Vec<_>>());
        if delay_s > within_s { Err(Excess::Delay(delay_s, within_s)) } else { Ok(()) }
    }

    /// The longest time in the queue, with a frame of best effort before it. The queue grows until
    /// one of the senders has sent its burst, so it is longest at one of those moments.
    fn delay(&self, senders: &[Flow]) -> f64 {
        let ends = senders.iter().map(|sender| match sender.link - sender.rate {
            left if left > 0.0 => (sender.burst - FRAME).max(0.0) / left,
            _ => 0.0,
        });
        let sent = |at: f64| -> f64 {
            let of = |sender: &Flow| (FRAME + sender.link * at).min(sender.burst + sender.rate * at);
            senders.iter().map(of).sum()
        };
        let queue = ends.chain([0.0]).map(|at| sent(at) - self.capacity * at).fold(0.0, f64::max);
        (queue + FRAME) / self.capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A port of 10 Mbit/s, of which eight tenths are for guaranteed channels.
    fn port() -> Port {
        Port::new(10_000_000, 0.8)
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

    /// Senders that use all of their rates and bursts, as early as possible, packet by packet.
    #[test]
    fn no_queue_is_longer_than_the_bound() {
        for (senders, bursts) in [(2, 30_000.0), (3, 10_000.0), (7, 4_000.0)] {
            let flows: Vec<Flow> = (0..senders).map(|_| flow(1.0, bursts, 1.0)).collect();
            let port = port();
            let bound = port.delay(&flows);
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
