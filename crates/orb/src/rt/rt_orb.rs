//! `RTCORBA::RTORB`: the ORB's operations for real-time programs.

use crate::pool::{DestroyError, InvalidThreadpool, LaneStatus, ThreadpoolLane, ThreadpoolOptions};
use crate::sched::policy::{PRIORITY_MODEL, RtPolicy, SERVER_PROTOCOL, THREAD_POOL};
use crate::sched::{
    Budget, BudgetStatus, Mutex, MutexNotFound, OverrunObserver, PriorityTransform, ThreadpoolId,
    WatchdogOptions,
};
use crate::{Orb, Result, SystemException};
use isorb_giop::{Kind, minor};
use isorb_rt::priority::PriorityMapping;
use std::fmt;
use std::sync::Arc;

/// The real-time interface of an [`Orb`] (RT-CORBA 1.2: `RTORB`), from [`Orb::rt`]. Cheap to
/// clone.
///
/// ```
/// let orb = isorb::Orb::with_config(isorb::Config::default())?;
/// let rt = orb.rt();
/// let (mutex, created) = rt.create_named_mutex("display")?;
/// assert!(created);
/// mutex.lock()?;
/// assert!(rt.open_named_mutex("display").is_ok());
/// mutex.unlock()?;
/// # Ok::<(), isorb::SystemException>(())
/// ```
#[derive(Clone)]
pub struct RtOrb {
    pub(super) orb: Orb,
}

impl Orb {
    /// The real-time interface of this ORB: thread pools, mutexes, priority mappings.
    pub fn rt(&self) -> RtOrb {
        RtOrb { orb: self.clone() }
    }
}

impl RtOrb {
    /// The ORB.
    pub fn orb(&self) -> &Orb {
        &self.orb
    }

    /// Creates a thread pool without lanes: one endpoint, with threads that wait at the default
    /// priority and run each upcall at the priority of its request.
    ///
    /// # Errors
    /// BAD_PARAM for no static threads or a negative priority; DATA_CONVERSION with minor code
    /// OMG|2 for a priority without a native one; NO_PERMISSION when the configuration requires
    /// real time and the process has no right to it; COMM_FAILURE when the endpoint cannot be
    /// opened; NO_RESOURCES when a thread cannot be started.
    ///
    /// # Real-time
    /// Allocates and blocks: for start-up. The threads start with the requested class, processors
    /// and stack, or the pool is not created.
    pub fn create_threadpool(
        &self,
        threads: ThreadpoolLane,
        options: &ThreadpoolOptions,
    ) -> Result<ThreadpoolId> {
        self.orb.server().resources.pools.create(&self.orb, &[threads], false, options)
    }

    /// Creates a thread pool with lanes: each has an endpoint, connections and threads of its own,
    /// which process a request entirely at the lane's priority.
    ///
    /// ```no_run
    /// # use isorb::rt::{ThreadpoolLane, ThreadpoolOptions};
    /// # let orb = isorb::Orb::with_config(isorb::Config::default())?;
    /// let lanes = [ThreadpoolLane::new(1_000, 4), ThreadpoolLane::new(20_000, 2)];
    /// let pool = orb.rt().create_threadpool_with_lanes(&lanes, &ThreadpoolOptions::default())?;
    /// # Ok::<(), isorb::SystemException>(())
    /// ```
    ///
    /// # Errors
    /// As [`create_threadpool`](Self::create_threadpool); BAD_PARAM for no lanes or two of one
    /// priority, and for a lane without an endpoint of its own in an ORB that listens over TLS only
    /// (lanes have no TLS).
    ///
    /// # Real-time
    /// As [`create_threadpool`](Self::create_threadpool).
    pub fn create_threadpool_with_lanes(
        &self,
        lanes: &[ThreadpoolLane],
        options: &ThreadpoolOptions,
    ) -> Result<ThreadpoolId> {
        self.orb.server().resources.pools.create(&self.orb, lanes, true, options)
    }

    /// Destroys a pool: its endpoints close, and its threads end after their present requests. Does
    /// not wait for that.
    ///
    /// # Errors
    /// InvalidThreadpool; BAD_INV_ORDER while POAs use it.
    pub fn destroy_threadpool(&self, pool: ThreadpoolId) -> Result<(), DestroyError> {
        self.orb.server().resources.pools.destroy(pool)
    }

    /// The state of a pool's lanes, lowest priority first.
    ///
    /// # Errors
    /// [`InvalidThreadpool`].
    ///
    /// # Real-time
    /// Allocates; locks each lane briefly.
    pub fn threadpool_status(&self, pool: ThreadpoolId) -> Result<Vec<LaneStatus>, InvalidThreadpool> {
        self.orb.server().resources.pools.status(pool)
    }

    /// Sets the priority model, the thread pool and the protocols of POAs that are created without
    /// them from now on, the root POA among them (RT-CORBA 1.2, priority models and thread pools:
    /// policies at the scope of the ORB). Returns those that were set before.
    ///
    /// ```
    /// # use isorb::rt::{ThreadpoolLane, ThreadpoolOptions};
    /// # use isorb::rt::policy::{PriorityModel, PriorityModelPolicy, RtPolicy};
    /// # let orb = isorb::Orb::with_config(isorb::Config::default())?;
    /// let lane = ThreadpoolLane::new(20_000, 1).messages(4096, 2);
    /// let pool = orb.rt().create_threadpool_with_lanes(&[lane], &ThreadpoolOptions::default())?;
    /// let model = PriorityModelPolicy { model: PriorityModel::ServerDeclared, server_priority: 20_000 };
    /// orb.rt().set_poa_policies(&[RtPolicy::ThreadPool(pool), RtPolicy::PriorityModel(model)])?;
    /// let root = orb.root_poa()?; // its objects are served by the pool
    /// # Ok::<(), isorb::SystemException>(())
    /// ```
    ///
    /// # Errors
    /// NO_PERMISSION for policies that only clients set; INV_POLICY for an invalid one; BAD_PARAM
    /// (OMG|30) for two of one type. Whether a pool exists is checked when a POA is created.
    pub fn set_poa_policies(&self, policies: &[RtPolicy]) -> Result<Vec<RtPolicy>> {
        for (i, policy) in policies.iter().enumerate() {
            let kind = policy.policy_type();
            if !matches!(kind, PRIORITY_MODEL | THREAD_POOL | SERVER_PROTOCOL) {
                let sentence = format!("policy {kind} is not one of POAs at the scope of the ORB");
                return Err(SystemException::from(Kind::NoPermission).detail(sentence));
            }
            policy.check().map_err(|error| {
                let exception = SystemException::from(Kind::InvPolicy).minor(minor::INV_POLICY_RECONCILE);
                exception.detail(error.to_string())
            })?;
            if policies[..i].iter().any(|other| other.policy_type() == kind) {
                let exception =
                    SystemException::from(Kind::BadParam).minor(minor::BAD_PARAM_DUPLICATE_POLICY);
                return Err(exception.detail(format!("policy {kind} is there twice")));
            }
        }
        let mut set = self.orb.server().resources.poa_policies.lock();
        Ok(std::mem::replace(&mut *set, policies.to_vec()))
    }

    /// Sets a budget of processor time for an operation of an interface, and of the interfaces
    /// derived from it. Every upcall counts from now on; setting the budget again resets the
    /// counts.
    ///
    /// ```
    /// # use isorb::rt::{Budget, Overrun};
    /// # use std::time::Duration;
    /// # let orb = isorb::Orb::with_config(isorb::Config::default())?;
    /// let budget = Budget { worst_case: Duration::from_micros(200), overrun: Overrun::Demote };
    /// orb.rt().set_budget("IDL:Sensors/Probe:1.0", "sample", budget)?;
    /// # Ok::<(), isorb::SystemException>(())
    /// ```
    ///
    /// # Errors
    /// BAD_PARAM for a budget of zero; IMP_LIMIT for more than 4,096.
    pub fn set_budget(&self, interface: &str, operation: &str, budget: Budget) -> Result<()> {
        self.orb.sched().budgets.set(interface, operation, budget)
    }

    /// Removes a budget; false if there was none.
    pub fn clear_budget(&self, interface: &str, operation: &str) -> bool {
        self.orb.sched().budgets.clear(interface, operation)
    }

    /// The state of all operations with budgets.
    pub fn budgets(&self) -> Vec<BudgetStatus> {
        self.orb.sched().budgets.status()
    }

    /// Sets the observer of overruns; without one they are logged.
    pub fn set_overrun_observer(&self, observer: Option<Arc<dyn OverrunObserver>>) {
        self.orb.sched().budgets.set_observer(observer);
    }

    /// Starts the thread that finds overruns during an upcall, and demotes the upcall's thread if
    /// the budget asks for it. It replaces a running one. Without it overruns are found at the end
    /// of the upcall.
    ///
    /// # Errors
    /// BAD_PARAM for a period under 50 us or a negative priority; DATA_CONVERSION, NO_PERMISSION
    /// and NO_RESOURCES as [`create_threadpool`](Self::create_threadpool).
    ///
    /// # Real-time
    /// The thread checks up to 256 upcalls in each period, with a PI lock and a system call for
    /// each. It does not allocate unless it reports.
    pub fn start_watchdog(&self, options: &WatchdogOptions) -> Result<()> {
        let orb = self.orb.clone();
        let check_running = move || orb.sched().budgets.check_running();
        self.orb.sched().watchdog.start(&self.orb.sched().priorities, options, check_running)
    }

    /// Stops the watchdog.
    pub fn stop_watchdog(&self) {
        self.orb.sched().watchdog.stop();
    }

    /// A mutex without a name.
    ///
    /// # Real-time
    /// Allocates. [`Mutex`] documents the cost of its methods.
    pub fn create_mutex(&self) -> Mutex {
        self.orb.sched().mutexes.create()
    }

    /// Destroys a mutex: threads that use it from now on, or wait for it, get OBJECT_NOT_EXIST. Its
    /// owner may still unlock it.
    pub fn destroy_mutex(&self, mutex: &Mutex) {
        self.orb.sched().mutexes.destroy(mutex);
    }

    /// The mutex of a name in this ORB; creates it if there is none. Returns true if it was
    /// created.
    ///
    /// # Errors
    /// IMP_LIMIT for more than 65,536 of them.
    pub fn create_named_mutex(&self, name: &str) -> Result<(Mutex, bool)> {
        self.orb.sched().mutexes.create_named(name)
    }

    /// The mutex of a name in this ORB.
    ///
    /// # Errors
    /// [`MutexNotFound`].
    pub fn open_named_mutex(&self, name: &str) -> Result<Mutex, MutexNotFound> {
        self.orb.sched().mutexes.open_named(name)
    }

    /// The mapping from CORBA priorities to native ones.
    pub fn priority_mapping(&self) -> Arc<dyn PriorityMapping> {
        self.orb.sched().priorities.mapping()
    }

    /// Replaces the mapping. Set it before threads get priorities; a thread keeps the one that it
    /// has.
    pub fn set_priority_mapping(&self, mapping: Arc<dyn PriorityMapping>) {
        self.orb.sched().priorities.set_mapping(mapping);
    }

    /// The priority transform, if one is set.
    pub fn priority_transform(&self) -> Option<Arc<dyn PriorityTransform>> {
        self.orb.sched().priorities.transform()
    }

    /// Sets, replaces or removes the priority transform. Running requests are not affected.
    pub fn set_priority_transform(&self, transform: Option<Arc<dyn PriorityTransform>>) {
        self.orb.sched().priorities.set_transform(transform);
    }
}

impl fmt::Debug for RtOrb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RtOrb").field("orb", &self.orb).finish()
    }
}
