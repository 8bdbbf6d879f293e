//! Priorities by name: the static scheduling service (Real-Time CORBA 1.2, chapter 6).

use isorb::poa::{ActivateError, CreateError, PoaManager, PoaPolicies};
use isorb::rt::policy::{PRIORITY_BANDED_CONNECTION, PRIORITY_MODEL, PriorityModel, THREAD_POOL};
use isorb::rt::{ThreadpoolId, ThreadpoolLane, ThreadpoolOptions};
use isorb::{IntoServant, Kind, Orb, Poa, Reference, SystemException};
use isorb_rt::priority::Priority;
use isorb_rt::sync::{CeilingMutex, PiMutex};
use isorb_sched::file::{FileError, ScheduleFile};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// `RTCosScheduling::ClientScheduler`: a client's thread names its activity and gets the priority
/// of it.
#[derive(Debug)]
pub struct ClientScheduler {
    orb: Orb,
    activities: BTreeMap<String, u16>,
}

/// `RTCosScheduling::ServerScheduler`: a server names an object, and the object gets the priority
/// of it.
///
/// The POAs that it creates share a thread pool with a lane for each priority of the schedule's
/// objects, which is made with the first of them. Other POAs will do if their priorities are
/// declared by the server.
#[derive(Debug)]
pub struct ServerScheduler {
    orb: Orb,
    file: ScheduleFile,
    threads: u32,
    options: ThreadpoolOptions,
    pool: PiMutex<Option<ThreadpoolId>>,
    resources: PiMutex<BTreeMap<String, Arc<CeilingMutex<()>>>>,
}

/// Why a name has no priority or mutex.
#[derive(Debug, Clone, PartialEq)]
pub enum NameError {
    /// The schedule file does not have the name (`RTCosScheduling::UnknownName`).
    UnknownName(String),
    /// No operation holds the resource, and the schedule file declares no ceiling for it.
    NoCeiling(String),
    /// The schedule file cannot be scheduled, so that there are no ceilings.
    Schedule(FileError),
    /// The ORB refused the priority.
    System(SystemException),
    /// The POA refused the object.
    Activate(ActivateError),
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameError::UnknownName(name) => write!(f, "the schedule file has no priority for {name}"),
            NameError::NoCeiling(name) => {
                write!(
                    f,
                    "{name}: no operation of the schedule file holds it; give its [[resource]] a ceiling"
                )
            }
            NameError::Schedule(error) => error.fmt(f),
            NameError::System(error) => error.fmt(f),
            NameError::Activate(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for NameError {}

impl ClientScheduler {
    /// The activities of a schedule file, for threads of this ORB's process.
    #[must_use]
    pub fn new(orb: &Orb, file: &ScheduleFile) -> ClientScheduler {
        ClientScheduler { orb: orb.clone(), activities: file.activities.clone() }
    }

    /// Gives the calling thread the priority of that activity (`schedule_activity`); its calls are
    /// part of the activity from now on.
    ///
    /// # Errors
    /// [`NameError::UnknownName`], and what [`isorb::rt::RtCurrent::set_the_priority`] refuses. The
    /// thread keeps its priority, then.
    pub fn schedule_activity(&self, name: &str) -> Result<(), NameError> {
        let priority = find(&self.activities, name)?;
        self.orb.rt_current().set_the_priority(priority).map_err(NameError::System)
    }
}

impl ServerScheduler {
    /// The objects of a schedule file, for POAs of this ORB; one thread a lane.
    #[must_use]
    pub fn new(orb: &Orb, file: &ScheduleFile) -> ServerScheduler {
        ServerScheduler {
            orb: orb.clone(),
            file: file.clone(),
            threads: 1,
            options: ThreadpoolOptions::default(),
            pool: PiMutex::default(),
            resources: PiMutex::default(),
        }
    }

    /// The same with so many threads a lane, and other options for the pool.
    #[must_use]
    pub fn with_threads(self, threads: u32, options: ThreadpoolOptions) -> ServerScheduler {
        ServerScheduler { threads, options, ..self }
    }

    /// Creates a POA for objects of the schedule (`create_POA`): with these policies,
    /// server-declared priorities and the scheduler's thread pool. An object of it that is not
    /// scheduled has the lowest of the schedule's priorities.
    ///
    /// # Errors
    /// As [`Poa::create_poa`]. InvalidPolicy also for a priority model, a thread pool or priority
    /// bands among `policies`, since they are the schedule's to choose; BAD_INV_ORDER for a
    /// schedule without objects; what making the pool raises.
    ///
    /// # Real-time
    /// Starts threads the first time: for the start of a process.
    pub fn create_poa(
        &self,
        parent: &Poa,
        name: &str,
        manager: Option<&PoaManager>,
        policies: PoaPolicies,
    ) -> Result<Poa, CreateError> {
        let ours = [PRIORITY_MODEL, THREAD_POOL, PRIORITY_BANDED_CONNECTION];
        if let Some(index) = policies.index_of_rt_policy(&ours) {
            return Err(CreateError::InvalidPolicy(index));
        }
        let (pool, lowest) = self.pool()?;
        let policies = policies.threadpool(pool).priority_model(PriorityModel::ServerDeclared, lowest);
        parent.create_poa(name, manager, policies)
    }

    /// The thread pool of the POAs that were created; `None` before the first.
    #[must_use]
    pub fn threadpool(&self) -> Option<ThreadpoolId> {
        *self.pool.lock()
    }

    /// The pool of the POAs, made the first time, and its lowest priority.
    fn pool(&self) -> Result<(ThreadpoolId, i16), SystemException> {
        let priorities: BTreeSet<i16> = self.file.objects.values().map(|priority| corba(*priority)).collect();
        let Some(&lowest) = priorities.first() else {
            return Err(SystemException::from(Kind::BadInvOrder)
                .detail("the schedule file has no [[object]], so there is no priority to serve one at"));
        };
        let mut pool = self.pool.lock();
        if let Some(pool) = *pool {
            return Ok((pool, lowest));
        }
        let lanes: Vec<_> =
            priorities.iter().map(|priority| ThreadpoolLane::new(*priority, self.threads)).collect();
        let made = self.orb.rt().create_threadpool_with_lanes(&lanes, &self.options)?;
        *pool = Some(made);
        Ok((made, lowest))
    }

    /// The priority of that object.
    ///
    /// # Errors
    /// [`NameError::UnknownName`].
    pub fn priority(&self, name: &str) -> Result<i16, NameError> {
        find(&self.file.objects, name)
    }

    /// Activates a servant at the priority of this name (`schedule_object`), in a POA with
    /// server-declared priorities.
    ///
    /// # Errors
    /// [`NameError::UnknownName`], and what [`Poa::activate_with_priority`] refuses.
    pub fn schedule_object<R: Reference>(
        &self,
        poa: &Poa,
        servant: impl IntoServant<R>,
        name: &str,
    ) -> Result<R, NameError> {
        let priority = find(&self.file.objects, name)?;
        poa.activate_with_priority(servant, priority).map_err(NameError::Activate)
    }

    /// The mutex of a `[[resource]]` of the schedule. Its holder runs at the ceiling: the declared
    /// one, otherwise the priority of the most urgent operation that holds it, by the ORB's
    /// priority mapping at the first call. Returns the same mutex at every call.
    ///
    /// A holder makes no calls: a request may change its thread's priority.
    ///
    /// # Errors
    /// [`NameError::UnknownName`]; [`NameError::NoCeiling`]; [`NameError::Schedule`];
    /// [`NameError::System`] with DATA_CONVERSION (OMG|2) where the mapping has no native priority
    /// for the ceiling.
    ///
    /// # Real-time
    /// Computes the whole schedule the first time: for the start of a process. [`CeilingMutex`]
    /// documents the cost of the mutex.
    pub fn resource(&self, name: &str) -> Result<Arc<CeilingMutex<()>>, NameError> {
        let mut resources = self.resources.lock();
        if let Some(mutex) = resources.get(name) {
            return Ok(mutex.clone());
        }
        let mutex = Arc::new(CeilingMutex::new(self.ceiling(name)?, ()).map_err(|_| unmappable(name))?);
        resources.insert(name.to_string(), mutex.clone());
        Ok(mutex)
    }

    /// The native priority of a resource's ceiling.
    fn ceiling(&self, name: &str) -> Result<u8, NameError> {
        let place = self.file.graph.resources.iter().position(|resource| resource.name == name);
        let place = place.ok_or_else(|| NameError::UnknownName(name.to_string()))?;
        let schedule = self.file.schedule().map_err(NameError::Schedule)?;
        let ceiling = schedule.ceiling(place).ok_or_else(|| NameError::NoCeiling(name.to_string()))?;
        i16::try_from(ceiling)
            .ok()
            .and_then(Priority::new)
            .and_then(|ceiling| self.orb.rt().priority_mapping().to_native(ceiling))
            .ok_or_else(|| unmappable(name))
    }
}

fn unmappable(resource: &str) -> NameError {
    let error = SystemException::from(Kind::DataConversion).minor(isorb::minor::DATA_CONVERSION_PRIORITY);
    NameError::System(
        error.detail(format!("the priority mapping has no native priority for the ceiling of {resource}")),
    )
}

fn find(names: &BTreeMap<String, u16>, name: &str) -> Result<i16, NameError> {
    let priority = names.get(name).ok_or_else(|| NameError::UnknownName(name.to_string()))?;
    Ok(corba(*priority))
}

/// A schedule file has no priority over 32767.
fn corba(priority: u16) -> i16 {
    i16::try_from(priority).unwrap_or(i16::MAX)
}
