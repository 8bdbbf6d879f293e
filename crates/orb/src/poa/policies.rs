//! The policies of a POA (CORBA 3.3 part 1, clause 15.3.8) and their valid combinations.

use crate::sched::ThreadpoolId;
use crate::sched::policy::{PriorityBand, PriorityModel, PriorityModelPolicy, Protocol, RtPolicy};

/// The lifetime of references.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Lifespan {
    /// References end with the POA. The default.
    #[default]
    Transient,
    /// References stay valid when the process starts again and creates the POA with the same names.
    Persistent,
}

/// Whether a servant may serve several objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IdUniqueness {
    /// One object for each servant. The default.
    #[default]
    Unique,
    /// A servant may be active under several ids.
    Multiple,
}

/// The source of object ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IdAssignment {
    /// The application.
    User,
    /// The POA. The default.
    #[default]
    System,
}

/// Whether asking for the reference of a servant activates it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ImplicitActivation {
    /// Implicit activation. Needs [`IdAssignment::System`] and [`ServantRetention::Retain`].
    Implicit,
    /// No implicit activation. The default, except for the root POA.
    #[default]
    NoImplicit,
}

/// Whether the POA remembers the servant of each object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ServantRetention {
    /// In its active object map. The default.
    #[default]
    Retain,
    /// A default servant or a servant locator provides the servant for each request.
    NonRetain,
}

/// The source of servants for objects that are not in the active object map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RequestProcessing {
    /// None: the object does not exist. Needs [`ServantRetention::Retain`]. The default.
    #[default]
    ActiveObjectMapOnly,
    /// The default servant. Needs [`IdUniqueness::Multiple`].
    DefaultServant,
    /// The servant manager: an activator with [`ServantRetention::Retain`], a locator without.
    ServantManager,
}

/// The threads that run the servants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ThreadModel {
    /// Any thread of the ORB, several at a time. The default.
    #[default]
    OrbControlled,
    /// One thread at a time in this POA; nested upcalls on the same thread are possible.
    SingleThread,
    /// One thread at a time in all POAs of this model, and only while the main thread is in
    /// `Orb::run` or `Orb::perform_work`, where it waits meanwhile. The servant does not run on the
    /// main thread itself: objects bound to a thread (a window, a thread-local) need a queue of
    /// their own.
    MainThread,
}

/// The policies that a POA is created with. The defaults are those of the standard (clause
/// 15.3.8.2).
///
/// These contradict each other, and `create_poa` raises InvalidPolicy:
/// - `NonRetain` with `ActiveObjectMapOnly`,
/// - `DefaultServant` with `Unique`,
/// - `Implicit` with `User` or with `NonRetain`.
///
/// Of the real-time policies (RT-CORBA 1.2, real-time POA), these:
/// - a thread pool with lanes, or priority bands, without a priority model,
/// - no bands, a band below 0 or one that ends before it begins, an invalid server priority,
/// - a server-declared priority outside of every band, or that no lane has,
/// - a band without any lane's priority,
/// - a thread pool or a server protocol that this ORB does not have, a private connection,
/// - more memory for an upcall than the regions of the thread pool provide.
///
/// The index in InvalidPolicy counts the policies from 0, in the order in which they were set here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoaPolicies {
    lifespan: Lifespan,
    id_uniqueness: IdUniqueness,
    id_assignment: IdAssignment,
    implicit_activation: ImplicitActivation,
    servant_retention: ServantRetention,
    request_processing: RequestProcessing,
    thread_model: ThreadModel,
    max_objects: Option<u32>,
    rt: Vec<RtPolicy>,
    region_bytes: usize,
    /// The policies that were set, in order.
    order: Vec<PolicyKind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PolicyKind {
    Lifespan,
    Uniqueness,
    Assignment,
    Implicit,
    Retention,
    Processing,
    Threads,
    /// By policy type.
    RealTime(u32),
    Region,
}

macro_rules! policy {
    ($(#[$doc:meta])* $set:ident $get:ident $type:ident $which:ident) => {
        $(#[$doc])*
        #[must_use]
        pub fn $set(mut self, value: $type) -> PoaPolicies {
            self.$set = value;
            if !self.order.contains(&PolicyKind::$which) {
                self.order.push(PolicyKind::$which);
            }
            self
        }

        #[doc = concat!("The value of the policy that [`", stringify!($set), "`](Self::", stringify!($set), ") sets.")]
        pub fn $get(&self) -> $type {
            self.$set
        }
    };
}

impl PoaPolicies {
    /// Default number of objects that may be active at a time.
    pub const DEFAULT_MAX_OBJECTS: u32 = 1 << 20;

    /// The standard defaults.
    pub fn new() -> PoaPolicies {
        PoaPolicies::default()
    }

    /// The standard's policies of the root POA: the defaults, and implicit activation.
    pub fn root() -> PoaPolicies {
        PoaPolicies::default().implicit_activation(ImplicitActivation::Implicit)
    }

    policy! {
        /// Sets the lifespan policy.
        lifespan lifespan_value Lifespan Lifespan
    }
    policy! {
        /// Sets the id uniqueness policy.
        id_uniqueness id_uniqueness_value IdUniqueness Uniqueness
    }
    policy! {
        /// Sets the id assignment policy.
        id_assignment id_assignment_value IdAssignment Assignment
    }
    policy! {
        /// Sets the implicit activation policy.
        implicit_activation implicit_activation_value ImplicitActivation Implicit
    }
    policy! {
        /// Sets the servant retention policy.
        servant_retention servant_retention_value ServantRetention Retention
    }
    policy! {
        /// Sets the request processing policy.
        request_processing request_processing_value RequestProcessing Processing
    }
    policy! {
        /// Sets the thread policy.
        thread_model thread_model_value ThreadModel Threads
    }

    /// Sets the number of objects that may be active at a time; one more is IMP_LIMIT. Not a policy
    /// of the standard.
    #[must_use]
    pub fn max_objects(mut self, limit: u32) -> PoaPolicies {
        self.max_objects = Some(limit);
        self
    }

    /// The value that [`max_objects`](Self::max_objects) sets.
    pub fn max_objects_value(&self) -> u32 {
        self.max_objects.unwrap_or(Self::DEFAULT_MAX_OBJECTS)
    }

    /// Sets a real-time policy; it replaces an earlier one of the same type.
    #[must_use]
    pub fn rt_policy(mut self, policy: RtPolicy) -> PoaPolicies {
        let policy_type = policy.policy_type();
        match self.rt.iter_mut().find(|other| other.policy_type() == policy_type) {
            Some(other) => *other = policy,
            None => {
                self.rt.push(policy);
                self.order.push(PolicyKind::RealTime(policy_type));
            }
        }
        self
    }

    /// With these real-time policies where none of their type is set.
    pub(super) fn or_rt(mut self, wider: &[RtPolicy]) -> PoaPolicies {
        for policy in wider {
            if !self.rt.iter().any(|mine| mine.policy_type() == policy.policy_type()) {
                self.rt.push(policy.clone());
            }
        }
        self
    }

    /// The real-time policies that were set, in that order; of an existing POA also those of its
    /// ORB.
    pub fn rt_policies(&self) -> &[RtPolicy] {
        &self.rt
    }

    /// Sets the priority model: the side that decides the priority of requests, and the server's
    /// priority.
    #[must_use]
    pub fn priority_model(self, model: PriorityModel, server_priority: i16) -> PoaPolicies {
        self.rt_policy(RtPolicy::PriorityModel(PriorityModelPolicy { model, server_priority }))
    }

    /// Sets the thread pool that serves the POA's objects.
    #[must_use]
    pub fn threadpool(self, pool: ThreadpoolId) -> PoaPolicies {
        self.rt_policy(RtPolicy::ThreadPool(pool))
    }

    /// Sets the priority bands for which clients have connections.
    #[must_use]
    pub fn priority_bands(self, bands: impl Into<Vec<PriorityBand>>) -> PoaPolicies {
        self.rt_policy(RtPolicy::PriorityBands(bands.into()))
    }

    /// Sets the protocols of the POA's objects, the preferred one first.
    #[must_use]
    pub fn server_protocols(self, protocols: impl Into<Vec<Protocol>>) -> PoaPolicies {
        self.rt_policy(RtPolicy::ServerProtocol(protocols.into()))
    }

    /// Sets the most memory that an upcall of this POA needs, in bytes. A thread pool with smaller
    /// regions contradicts it, so that the error shows when the POA is created and not by a
    /// request. Not a policy of the standard.
    #[must_use]
    pub fn region_bytes(mut self, bytes: usize) -> PoaPolicies {
        self.region_bytes = bytes;
        self.order.push(PolicyKind::Region);
        self
    }

    /// The value that [`region_bytes`](Self::region_bytes) sets.
    pub fn region_bytes_value(&self) -> usize {
        self.region_bytes
    }

    /// The index of the first real-time policy of one of these types, as InvalidPolicy counts;
    /// `None` where none was set.
    pub fn index_of_rt_policy(&self, policy_types: &[u32]) -> Option<u16> {
        let is_one = |set: &PolicyKind| matches!(set, PolicyKind::RealTime(of) if policy_types.contains(of));
        self.order.iter().position(is_one).and_then(|index| u16::try_from(index).ok())
    }

    /// The index of the real-time policy of this type; of the region for
    /// [`Adapter::REGION`](super::rt_adapter::Adapter::REGION).
    pub(super) fn rt_index(&self, policy_type: u32) -> u16 {
        let wanted = match policy_type {
            super::rt_adapter::Adapter::REGION => PolicyKind::Region,
            policy_type => PolicyKind::RealTime(policy_type),
        };
        let position = self.order.iter().position(|set| *set == wanted);
        position.and_then(|index| u16::try_from(index).ok()).unwrap_or(u16::MAX)
    }

    pub(super) fn persistent(&self) -> bool {
        self.lifespan == Lifespan::Persistent
    }

    pub(super) fn unique(&self) -> bool {
        self.id_uniqueness == IdUniqueness::Unique
    }

    pub(super) fn system_ids(&self) -> bool {
        self.id_assignment == IdAssignment::System
    }

    pub(super) fn implicit(&self) -> bool {
        self.implicit_activation == ImplicitActivation::Implicit
    }

    pub(super) fn retain(&self) -> bool {
        self.servant_retention == ServantRetention::Retain
    }

    pub(super) fn default_servant(&self) -> bool {
        self.request_processing == RequestProcessing::DefaultServant
    }

    pub(super) fn servant_manager(&self) -> bool {
        self.request_processing == RequestProcessing::ServantManager
    }

    /// The index of the first policy that contradicts another one.
    pub(super) fn contradiction(&self) -> Option<u16> {
        let bad = [
            (
                !self.retain() && self.request_processing == RequestProcessing::ActiveObjectMapOnly,
                PolicyKind::Retention,
                PolicyKind::Processing,
            ),
            (self.default_servant() && self.unique(), PolicyKind::Processing, PolicyKind::Uniqueness),
            (self.implicit() && !self.system_ids(), PolicyKind::Implicit, PolicyKind::Assignment),
            (self.implicit() && !self.retain(), PolicyKind::Implicit, PolicyKind::Retention),
        ];
        let position = |which| self.order.iter().position(|set| *set == which);
        bad.iter()
            .filter(|(bad, ..)| *bad)
            .filter_map(|(_, a, b)| position(*a).into_iter().chain(position(*b)).min())
            .min()
            .and_then(|index| u16::try_from(index).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clause 15.3.8 and 15.2.8.1, every combination against the rules in words.
    #[test]
    fn contradictions() {
        use {
            IdAssignment::*, IdUniqueness::*, ImplicitActivation::*, RequestProcessing::*,
            ServantRetention::*,
        };
        let mut good = 0;
        for u in [Unique, Multiple] {
            for a in [System, User] {
                for i in [Implicit, NoImplicit] {
                    for r in [Retain, NonRetain] {
                        for p in [ActiveObjectMapOnly, DefaultServant, ServantManager] {
                            let policies = PoaPolicies::new()
                                .id_uniqueness(u)
                                .id_assignment(a)
                                .implicit_activation(i)
                                .servant_retention(r)
                                .request_processing(p);
                            let expected = !matches!(
                                (u, a, i, r, p),
                                (_, _, _, NonRetain, ActiveObjectMapOnly)
                                    | (Unique, _, _, _, DefaultServant)
                                    | (_, User, Implicit, _, _)
                                    | (_, _, Implicit, NonRetain, _)
                            );
                            assert_eq!(policies.contradiction().is_none(), expected, "{policies:?}");
                            good += usize::from(expected);
                        }
                    }
                }
            }
        }
        assert_eq!(good, 21);
    }

    #[test]
    fn index_is_that_of_the_first_offender() {
        let p = PoaPolicies::new()
            .lifespan(Lifespan::Persistent)
            .request_processing(RequestProcessing::DefaultServant);
        assert_eq!(p.contradiction(), Some(1));
        let p = PoaPolicies::root().lifespan(Lifespan::Persistent).id_assignment(IdAssignment::User);
        assert_eq!(p.contradiction(), Some(0));
        assert_eq!(PoaPolicies::root().contradiction(), None);
        assert_eq!(PoaPolicies::new().contradiction(), None);
    }
}
