//! Priorities by name: the static scheduling service (Real-Time CORBA 1.2, chapter 6).

use isorb::poa::ActivateError;
use isorb::{IntoServant, Orb, Poa, Reference, SystemException};
use isorb_sched::file::ScheduleFile;
use std::collections::BTreeMap;
use std::fmt;

/// `RTCosScheduling::ClientScheduler`: a client's thread says what it is about to do, and gets the priority for it.
#[derive(Debug)]
pub struct ClientScheduler {
    orb: Orb,
    activities: BTreeMap<String, u16>,
}

/// `RTCosScheduling::ServerScheduler`: a server says what an object is, and the object gets the priority for it.
#[derive(Debug)]
pub struct ServerScheduler {
    objects: BTreeMap<String, u16>,
}

/// Why there is no priority by a name.
#[derive(Debug, Clone, PartialEq)]
pub enum NameError {
    /// The schedule file does not have it (`RTCosScheduling::UnknownName`).
    UnknownName(String),
    /// The ORB refused the priority.
    System(SystemException),
    /// The POA refused the object.
    Activate(ActivateError),
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameError::UnknownName(name) => write!(f, "the schedule file has no priority for {name}"),
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

    /// Gives the calling thread the priority of that activity (`schedule_activity`); its calls are part of the activity from now on.
    ///
    /// # Errors
    /// [`NameError::UnknownName`], and what [`isorb::rt::RtCurrent::set_the_priority`] refuses. The thread keeps its priority, then.
    pub fn schedule_activity(&self, name: &str) -> Result<(), NameError> {
        let priority = find(&self.activities, name)?;
        self.orb.rt_current().set_the_priority(priority).map_err(NameError::System)
    }
}

impl ServerScheduler {
    /// The objects of a schedule file.
    #[must_use]
    pub fn new(file: &ScheduleFile) -> ServerScheduler {
        ServerScheduler { objects: file.objects.clone() }
    }

    /// The priority of that object.
    ///
    /// # Errors
    /// [`NameError::UnknownName`].
    pub fn priority(&self, name: &str) -> Result<i16, NameError> {
        find(&self.objects, name)
    }

    /// Activates a servant at the priority of that name (`schedule_object`), in a POA whose priorities are declared by the server.
    ///
    /// # Errors
    /// [`NameError::UnknownName`], and what [`Poa::activate_with_priority`] refuses.
    pub fn schedule_object<R: Reference>(
        &self,
        poa: &Poa,
        servant: impl IntoServant<R>,
        name: &str,
    ) -> Result<R, NameError> {
        let priority = find(&self.objects, name)?;
        poa.activate_with_priority(servant, priority).map_err(NameError::Activate)
    }
}

fn find(names: &BTreeMap<String, u16>, name: &str) -> Result<i16, NameError> {
    let priority = names.get(name).ok_or_else(|| NameError::UnknownName(name.to_string()))?;
    // The file has none over 32767.
    Ok(i16::try_from(*priority).unwrap_or(i16::MAX))
}
