//! Exclusive ownership: of the suppliers of one instance only the strongest living one is heard
//! (OWNERSHIP and OWNERSHIP_STRENGTH of DDS 1.4, 2.2.3.9 and 2.2.3.10).

use crate::event::Header;
use crate::instances::Instances;
use isorb_rt::sync::PiMutex;
use std::time::Duration;

/// How a supplier competes for the instances that it pushes.
///
/// An instance is the events of one type from one source. Its owner is the strongest supplier that
/// pushed it within its lease; events of weaker ones are dropped and counted. Of equally strong
/// ones the first stays the owner. Suppliers without an ownership do not compete: their events are
/// always delivered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ownership {
    /// Greater is stronger.
    pub strength: i32,
    /// After so long without an event of an instance the supplier gives way there; zero: only when
    /// it disconnects.
    pub lease: Duration,
}

impl Ownership {
    /// This strength, until the supplier disconnects.
    pub fn new(strength: i32) -> Ownership {
        Ownership { strength, lease: Duration::ZERO }
    }

    /// Gives way after so long without an event of an instance.
    #[must_use]
    pub fn lease(self, lease: Duration) -> Ownership {
        Ownership { lease, ..self }
    }
}

/// What became of an event of a supplier with an ownership.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Claim {
    /// The supplier owns the instance.
    Owned,
    /// It does so since this event.
    Taken,
    /// A stronger supplier owns it.
    Refused,
    /// There are more instances than are known; it is delivered.
    Unknown,
}

#[derive(Clone, Copy, Debug)]
struct Owner {
    /// 0: it left.
    supplier: u32,
    strength: i32,
    /// When its lease ends, on the channel's clock.
    until: u64,
}

/// The owners of a channel's instances.
#[derive(Debug)]
pub(crate) struct Owners(PiMutex<Instances<Owner>>);

impl Owners {
    pub fn new(instances: usize) -> Owners {
        Owners(PiMutex::new(Instances::new(instances)))
    }

    /// Decides on an event at `now`.
    ///
    /// # Real-time
    /// Does not allocate. One PI lock for at most eight comparisons.
    pub fn claim(&self, supplier: u32, ownership: Ownership, header: &Header, now: u64) -> Claim {
        let lease = u64::try_from(ownership.lease.as_nanos()).unwrap_or(u64::MAX);
        let until = if lease == 0 { u64::MAX } else { now.saturating_add(lease) };
        let mine = Owner { supplier, strength: ownership.strength, until };
        let is_over = |owner: &Owner| owner.supplier == 0 || owner.until <= now;
        let mut owners = self.0.lock();
        let none = Owner { supplier: 0, ..mine };
        let Some(owner) = owners.entry((header.event_type, header.source), none, is_over) else {
            return Claim::Unknown;
        };
        let claim = if owner.supplier == supplier {
            Claim::Owned
        } else if is_over(owner) || owner.strength < ownership.strength {
            Claim::Taken
        } else {
            return Claim::Refused;
        };
        *owner = mine;
        claim
    }

    /// Frees what a supplier owns.
    ///
    /// # Real-time
    /// One PI lock, for a look at each instance that may be known.
    pub fn leave(&self, supplier: u32) {
        let mut owners = self.0.lock();
        let of_it = |owner: &&mut crate::instances::Instance<Owner>| owner.value.supplier == supplier;
        owners.iter_mut().filter(of_it).for_each(|owner| owner.value.supplier = 0);
    }
}
