//! How urgent a packet is: to the network, and to the queue of this machine's interface.

use super::Priority;

/// What the packets of a connection are marked with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct NetworkPriority {
    /// Differentiated-services code point, 0 to 63, which the network sees
    /// ([`set_dscp`](crate::net::set_dscp)).
    pub dscp: u8,
    /// Socket priority, which the queueing discipline of the interface sees
    /// ([`set_priority`](crate::net::set_priority)). 0 to 6 need no right.
    pub queue: u8,
}

/// Chooses the marks for a CORBA priority.
pub trait NetworkPriorityMapping: Send + Sync {
    /// The marks for packets of work at `corba`; `None` leaves the connection as it is.
    fn to_network(&self, corba: Priority) -> Option<NetworkPriority>;
}

/// Marks nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unmarked;

impl NetworkPriorityMapping for Unmarked {
    fn to_network(&self, _: Priority) -> Option<NetworkPriority> {
        None
    }
}

/// Spreads the CORBA priorities evenly over the class selectors CS0 to CS5 and expedited forwarding
/// (RFC 2474, RFC 3246), and over the queue priorities 0 to 6. CS6 and CS7 are for the network's
/// own control traffic and are left to it.
///
/// ```
/// use isorb_rt::priority::{ClassSelectors, NetworkPriority, NetworkPriorityMapping, Priority};
///
/// assert_eq!(ClassSelectors.to_network(Priority::MAX), Some(NetworkPriority { dscp: 46, queue: 6 }));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClassSelectors;

/// Code point of expedited forwarding.
const EF: u8 = 46;

impl NetworkPriorityMapping for ClassSelectors {
    fn to_network(&self, corba: Priority) -> Option<NetworkPriority> {
        const CLASSES: u32 = 7;
        let class = (corba.get() as u32 * CLASSES / (i16::MAX as u32 + 1)) as u8;
        let dscp = if class < 6 { class << 3 } else { EF };
        Some(NetworkPriority { dscp, queue: class })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn marks_rise_with_the_priority_through_all_classes() {
        let marks: Vec<_> =
            (0..=i16::MAX).map(|p| ClassSelectors.to_network(Priority::new(p).unwrap()).unwrap()).collect();
        assert!(marks.is_sorted_by_key(|m| m.dscp) && marks.is_sorted_by_key(|m| m.queue));
        let mut classes: Vec<_> = marks.iter().map(|m| (m.dscp, m.queue)).collect();
        classes.dedup();
        assert_eq!(classes, [(0, 0), (8, 1), (16, 2), (24, 3), (32, 4), (40, 5), (46, 6)]);
        assert_eq!(Unmarked.to_network(Priority::MAX), None);
    }
}
