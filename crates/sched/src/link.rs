//! A link as a resource: what a message costs in time on the wire.

use crate::{Nanos, Task};

/// A link of constant rate that carries one packet after another. A message is cut into packets,
/// and a more urgent message waits for the packet on the wire: [`crate::Preemption::Deferred`] with
/// the packet as section.
///
/// ```
/// use isorb_sched::{Admission, AdmissionConfig, Link, Nanos, Preemption};
/// let link = Link { bits_per_second: 100_000_000, packet_octets: 1472, overhead_octets: 66 };
/// assert_eq!(link.time_of(1472), Nanos::new(123_040));
/// let config = AdmissionConfig { preemption: Preemption::Deferred, ..AdmissionConfig::default() };
/// let mut admission = Admission::new(config);
/// admission.try_admit(link.message("plant/pressure", 10_000, Nanos::from_ms(5)))?;
/// # Ok::<(), Box<isorb_sched::Refusal>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The rate.
    pub bits_per_second: u64,
    /// The most octets of a message that a packet carries.
    pub packet_octets: u64,
    /// Octets that each packet adds on the wire: headers, check sums, preamble and gap.
    pub overhead_octets: u64,
}

impl Link {
    /// The time that a message of `octets` occupies the link, rounded up; [`Nanos::MAX`] where the
    /// rate is zero.
    #[must_use]
    pub fn time_of(&self, octets: u64) -> Nanos {
        let packets = octets.div_ceil(self.packet_octets.max(1)).max(1);
        let on_wire = u128::from(octets) + u128::from(packets) * u128::from(self.overhead_octets);
        if self.bits_per_second == 0 {
            return Nanos::MAX;
        }
        let ns = (on_wire * 8).saturating_mul(1_000_000_000).div_ceil(u128::from(self.bits_per_second));
        Nanos::new(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// A message of at most `octets` every `period` as a task of this link.
    #[must_use]
    pub fn message(&self, name: impl Into<String>, octets: u64, period: Nanos) -> Task {
        let packet = self.time_of(octets.min(self.packet_octets.max(1)));
        Task::new(name, self.time_of(octets), period).section(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_links() {
        let link = Link { bits_per_second: 8_000, packet_octets: 10, overhead_octets: 1 };
        assert_eq!(link.time_of(0), Nanos::from_ms(1));
        assert_eq!(link.time_of(10), Nanos::from_ms(11));
        assert_eq!(link.time_of(11), Nanos::from_ms(13));
        let message = link.message("m", 25, Nanos::from_ms(100));
        assert_eq!((message.cost, message.section), (Nanos::from_ms(28), Some(Nanos::from_ms(11))));
        assert_eq!(Link { bits_per_second: 0, ..link }.time_of(1), Nanos::MAX);
        assert_eq!(Link { bits_per_second: 1, ..link }.time_of(u64::MAX), Nanos::MAX);
    }
}
