//! The service as a CORBA object.

mod alarm;
mod servant;

use crate::cos_lw_log::LogRef;
use crate::limits::Limits;
use crate::store::{LogStore, Refusal, Status};
use alarm::Alarm;
use isorb::poa::policies::{IdAssignment, Lifespan};
use isorb::poa::{CreateError, PoaPolicies};
use isorb::{Caller, Kind, Object, Orb, Poa, Reference, Result, Servant, SystemException};
use isorb_rt::log::warn;
use servant::LogServant;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The key in `corbaloc::host:port/LogService`, and the name of the initial reference.
const LOG_SERVICE: &str = "LogService";

/// The target of log records.
const TARGET: &str = "isorb::log-service";

/// The POA of the log. Its name is a part of the reference, which must not change.
const POA: &str = "log-service";

/// A log service in an ORB.
#[derive(Clone)]
pub struct LogService {
    log: LogRef,
    shared: Arc<Shared>,
}

/// The numbers of a log service, for its operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// The state of the log; `None` when it cannot be read, and after it was destroyed.
    pub status: Option<Status>,
    /// Records that were not written: the log was locked, full or had no disk, or they were too
    /// large.
    pub discarded: u64,
}

/// What the servant needs.
struct Shared {
    store: LogStore,
    limits: Limits,
    alarm: Alarm,
    discarded: AtomicU64,
    destroyed: AtomicBool,
}

impl Shared {
    /// Counts records that were not written. Producers send oneways as a rule and learn nothing, so
    /// that the process's log has the first one, and each time that their number has doubled.
    fn discard(&self, number: u64, caller: Caller<'_>, why: &SystemException) {
        let before = self.discarded.fetch_add(number, Ordering::Relaxed);
        let all = before.saturating_add(number);
        if all.checked_ilog2() > before.checked_ilog2() {
            warn(TARGET, format_args!("{all} records were not written; the last are of {caller}: {why}"));
        }
    }
}

impl LogService {
    /// Starts a service in an ORB: makes its POA below the root POA, with the root POA's manager,
    /// and offers the log as `corbaloc::host:port/LogService` and as the initial reference
    /// `LogService`.
    ///
    /// It serves as soon as the root POA's manager is active.
    ///
    /// # Errors
    /// BAD_INV_ORDER if the ORB has a log service already; PERSIST_STORE for a store that cannot be
    /// read; errors of opening the endpoints or of making the POA.
    pub fn start(orb: &Orb, store: LogStore, limits: Limits) -> Result<LogService> {
        let stamp = store.stamp().map_err(system)?;
        let alarm = Alarm::new(limits.alarm_percent);
        let shared = Arc::new(Shared {
            store,
            limits,
            alarm,
            discarded: AtomicU64::new(0),
            destroyed: AtomicBool::new(false),
        });
        let poa = make_poa(orb)?;
        // Not the same after the log was destroyed.
        let id = format!("{stamp:016x}");
        let servant = Servant::new::<LogRef, _>(Arc::new(LogServant { shared: shared.clone() }));
        poa.activate_object_with_id(&id, servant).map_err(|_| SystemException::from(Kind::Internal))?;
        let object = poa.create_reference_with_id(&id, LogRef::INTERFACE.id)?;
        orb.register_corbaloc_key(LOG_SERVICE, &object);
        orb.register_initial_reference(LOG_SERVICE, &object);
        Ok(LogService { log: LogRef::from_object(object), shared })
    }

    /// The log.
    pub fn log(&self) -> &LogRef {
        &self.log
    }

    /// The log as an object; its `Display` is the stringified reference.
    pub fn object(&self) -> &Object {
        self.log.object()
    }

    /// The numbers of the log.
    ///
    /// # Real-time
    /// Reads the store.
    pub fn numbers(&self) -> Numbers {
        let is_destroyed = self.shared.destroyed.load(Ordering::Relaxed);
        let status = if is_destroyed { None } else { self.shared.store.status().ok() };
        Numbers { status, discarded: self.shared.discarded.load(Ordering::Relaxed) }
    }
}

impl fmt::Debug for LogService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogService").field("log", &self.log).finish_non_exhaustive()
    }
}

fn make_poa(orb: &Orb) -> Result<Poa> {
    let policies = PoaPolicies::new().lifespan(Lifespan::Persistent).id_assignment(IdAssignment::User);
    let root = orb.root_poa()?;
    root.create_poa(POA, Some(&root.manager()), policies).map_err(|error| match error {
        CreateError::System(exception) => exception,
        CreateError::AdapterAlreadyExists => {
            SystemException::from(Kind::BadInvOrder).detail("the ORB has a log service already")
        }
        _ => Kind::Internal.into(),
    })
}

/// The exception of a refusal of the store.
fn system(refusal: Refusal) -> SystemException {
    let kind = match refusal {
        // Not TRANSIENT, which some ORBs answer with calls without end.
        Refusal::Locked => Kind::BadInvOrder,
        Refusal::Full { .. } => Kind::NoResources,
        Refusal::LargerThanLog { .. } => Kind::ImpLimit,
        Refusal::BelowCurrentSize { .. } => Kind::BadParam,
        Refusal::Failed(_) => Kind::PersistStore,
    };
    SystemException::from(kind).detail(refusal.to_string())
}
