//! Overrides of a client, at three scopes: ORB, thread, object (RT-CORBA 1.2, binding
//! and protocol configuration).
//!
//! A set of overrides is made once and then only passed on. Each set has a number; the plans that
//! follow from it are cached under that number. If several scopes set a policy, the narrowest
//! decides.

use crate::sched::policy::{PriorityBand, Protocol, RtPolicy};
use crate::{Result, SystemException};
use isorb_giop::{Kind, minor};
use isorb_rt::sync::PiMutex;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Real-Time CORBA policies that a client sets: its protocols, private connections, priority bands.
/// Cheap to clone.
///
/// ```
/// use isorb::rt::Overrides;
/// use isorb::rt::policy::{PriorityBand, RtPolicy};
///
/// let bands = [PriorityBand { low: 0, high: 9_999 }, PriorityBand { low: 10_000, high: 32_767 }];
/// let overrides = Overrides::new(&[RtPolicy::PrivateConnection, RtPolicy::PriorityBands(bands.into())])?;
/// isorb::rt::set_thread_overrides(overrides);
/// # isorb::rt::set_thread_overrides(Overrides::default());
/// # Ok::<(), isorb::SystemException>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Overrides(Option<Arc<Set>>);

#[derive(Debug)]
struct Set {
    stamp: u64,
    policies: Box<[RtPolicy]>,
}

impl Overrides {
    /// A set of overrides.
    ///
    /// # Errors
    /// NO_PERMISSION for a policy that only a server may set (40, 41, 42); INV_POLICY for an
    /// invalid one; BAD_PARAM (OMG|30) for two of one type.
    pub fn new(policies: &[RtPolicy]) -> Result<Overrides> {
        for (i, policy) in policies.iter().enumerate() {
            if !policy.is_client_override() {
                return Err(SystemException::from(Kind::NoPermission)
                    .detail(format!("policy {} is the server's to set", policy.policy_type())));
            }
            policy.check().map_err(|error| {
                SystemException::from(Kind::InvPolicy)
                    .minor(minor::INV_POLICY_RECONCILE)
                    .detail(error.to_string())
            })?;
            if policies[..i].iter().any(|other| other.policy_type() == policy.policy_type()) {
                return Err(SystemException::from(Kind::BadParam)
                    .minor(minor::BAD_PARAM_DUPLICATE_POLICY)
                    .detail(format!("policy {} is there twice", policy.policy_type())));
            }
        }
        static NEXT: AtomicU64 = AtomicU64::new(1);
        if policies.is_empty() {
            return Ok(Overrides(None));
        }
        let stamp = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(Overrides(Some(Arc::new(Set { stamp, policies: policies.into() }))))
    }

    /// The policies.
    pub fn policies(&self) -> &[RtPolicy] {
        self.0.as_ref().map_or(&[], |set| &set.policies)
    }

    /// These policies, and the open ones from `wider`.
    ///
    /// # Real-time
    /// Allocates unless one of the two is empty.
    #[must_use]
    pub fn or(&self, wider: &Overrides) -> Overrides {
        if self.policies().is_empty() || wider.policies().is_empty() {
            return if self.policies().is_empty() { wider.clone() } else { self.clone() };
        }
        let missing = |policy: &&RtPolicy| {
            !self.policies().iter().any(|mine| mine.policy_type() == policy.policy_type())
        };
        let all = self.policies().iter().chain(wider.policies().iter().filter(missing));
        // Each was checked before, and no type occurs twice.
        Overrides::new(&all.cloned().collect::<Vec<_>>()).unwrap_or_default()
    }

    /// Its number; 0 for an empty one.
    #[inline]
    pub(crate) fn stamp(&self) -> u64 {
        self.0.as_ref().map_or(0, |set| set.stamp)
    }

    pub(crate) fn protocols(&self) -> Option<&[Protocol]> {
        self.policies().iter().find_map(|policy| match policy {
            RtPolicy::ClientProtocol(protocols) => Some(protocols.as_slice()),
            _ => None,
        })
    }

    pub(crate) fn bands(&self) -> Option<&[PriorityBand]> {
        self.policies().iter().find_map(|policy| match policy {
            RtPolicy::PriorityBands(bands) => Some(bands.as_slice()),
            _ => None,
        })
    }

    pub(crate) fn private(&self) -> bool {
        self.policies().contains(&RtPolicy::PrivateConnection)
    }
}

impl PartialEq for Overrides {
    fn eq(&self, other: &Overrides) -> bool {
        self.policies() == other.policies()
    }
}

/// The overrides of an ORB.
#[derive(Default)]
pub(crate) struct SharedOverrides {
    set: PiMutex<Overrides>,
    stamp: AtomicU64,
}

impl SharedOverrides {
    pub fn get(&self) -> Overrides {
        self.set.lock().clone()
    }

    pub fn set(&self, overrides: Overrides) -> Overrides {
        let mut set = self.set.lock();
        self.stamp.store(overrides.stamp(), Ordering::Release);
        std::mem::replace(&mut *set, overrides)
    }

    /// The number of the set; 0 for an empty one.
    #[inline]
    pub fn stamp(&self) -> u64 {
        self.stamp.load(Ordering::Acquire)
    }
}

thread_local! {
    static THREAD: RefCell<Overrides> = const { RefCell::new(Overrides(None)) };
    /// Its number; read in each call.
    static THREAD_STAMP: Cell<u64> = const { Cell::new(0) };
}

/// The calling thread's overrides of Real-Time CORBA policies (CORBA::PolicyCurrent).
pub fn thread_overrides() -> Overrides {
    THREAD.with_borrow(Overrides::clone)
}

/// Sets the calling thread's overrides of Real-Time CORBA policies and returns the previous ones.
/// Setting an earlier set again finds its cached plans.
///
/// # Real-time
/// Does not allocate.
pub fn set_thread_overrides(overrides: Overrides) -> Overrides {
    THREAD_STAMP.set(overrides.stamp());
    THREAD.replace(overrides)
}

#[inline]
pub(crate) fn thread_stamp() -> u64 {
    THREAD_STAMP.get()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rt::policy::{PriorityModel, PriorityModelPolicy, TcpProperties};

    fn bands(list: &[(i16, i16)]) -> RtPolicy {
        RtPolicy::PriorityBands(list.iter().map(|&(low, high)| PriorityBand { low, high }).collect())
    }

    #[test]
    fn what_a_client_may_not_set_is_refused() {
        let model = PriorityModelPolicy { model: PriorityModel::ClientPropagated, server_priority: 0 };
        let tcp = Protocol::iiop(TcpProperties::default());
        for (policies, kind) in [
            (vec![RtPolicy::PriorityModel(model)], Kind::NoPermission),
            (vec![RtPolicy::ThreadPool(1)], Kind::NoPermission),
            (vec![RtPolicy::PrivateConnection, RtPolicy::ServerProtocol(vec![tcp])], Kind::NoPermission),
            (vec![bands(&[])], Kind::InvPolicy),
            (vec![bands(&[(5, 4)])], Kind::InvPolicy),
            (vec![bands(&[(-1, 4)])], Kind::InvPolicy),
            (vec![RtPolicy::ClientProtocol(vec![])], Kind::InvPolicy),
            (vec![RtPolicy::PrivateConnection, RtPolicy::PrivateConnection], Kind::BadParam),
        ] {
            assert_eq!(Overrides::new(&policies).unwrap_err().kind, kind, "{policies:?}");
        }
        assert_eq!(Overrides::new(&[]), Ok(Overrides::default()));
    }

    #[test]
    fn the_narrower_scope_wins() {
        let narrow = Overrides::new(&[bands(&[(1, 2)])]).unwrap();
        let wide = Overrides::new(&[bands(&[(0, 9)]), RtPolicy::PrivateConnection]).unwrap();
        let both = narrow.or(&wide);
        assert_eq!(both.bands(), Some(&[PriorityBand { low: 1, high: 2 }][..]));
        assert!(both.private() && both.protocols().is_none());
        assert_eq!(narrow.or(&Overrides::default()).stamp(), narrow.stamp(), "nothing was made anew");
        assert_eq!(Overrides::default().or(&wide).stamp(), wide.stamp());
        assert_ne!(both.stamp(), narrow.stamp());
    }

    #[test]
    fn a_thread_has_its_own() {
        let mine = Overrides::new(&[RtPolicy::PrivateConnection]).unwrap();
        assert_eq!(set_thread_overrides(mine.clone()), Overrides::default());
        assert_eq!((thread_overrides(), thread_stamp()), (mine.clone(), mine.stamp()));
        std::thread::spawn(|| assert_eq!(thread_stamp(), 0)).join().unwrap();
        assert_eq!(set_thread_overrides(Overrides::default()), mine);
        assert_eq!(thread_stamp(), 0);
    }
}
