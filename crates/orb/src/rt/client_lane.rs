//! The lane of an ORB's client: threads that read replies for futures.

use super::RtOrb;
use crate::sched::checked;
use crate::server::Lane;
use crate::{Result, SystemException};
use isorb_giop::Kind;
use isorb_rt::sched::ThreadSpec;
use std::sync::Arc;

/// The options of a client lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientLaneOptions {
    /// The CORBA priority of its threads; `None` for that of the thread that starts it.
    pub priority: Option<i16>,
    /// How many threads it has.
    pub threads: u32,
}

impl Default for ClientLaneOptions {
    /// One thread at the starting thread's priority.
    fn default() -> ClientLaneOptions {
        ClientLaneOptions { priority: None, threads: 1 }
    }
}

impl RtOrb {
    /// Starts the lane that reads the replies to calls of this ORB that are awaited as futures, and
    /// wakes their tasks. It runs until [`Orb::shutdown`](crate::Orb::shutdown).
    ///
    /// ```
    /// # use isorb::rt::ClientLaneOptions;
    /// # let orb = isorb::Orb::with_config(isorb::Config::default())?;
    /// orb.rt().start_client_lane(&ClientLaneOptions::default())?;
    /// // let reading = probe.sample_begin(3)?.await?;
    /// # orb.shutdown(true)?;
    /// # Ok::<(), isorb::SystemException>(())
    /// ```
    ///
    /// # Errors
    /// BAD_INV_ORDER if there is one; BAD_PARAM for no threads or a negative priority;
    /// DATA_CONVERSION, NO_PERMISSION and NO_RESOURCES as
    /// [`create_threadpool`](Self::create_threadpool).
    ///
    /// # Real-time
    /// Its threads allocate nothing for a reply. They wake tasks on their own: an executor's queue
    /// may take a lock there.
    pub fn start_client_lane(&self, options: &ClientLaneOptions) -> Result<()> {
        let refused = |kind: Kind, why: &str| Err(SystemException::from(kind).detail(why.to_owned()));
        if options.threads == 0 {
            return refused(Kind::BadParam, "a client lane without threads");
        }
        let class = match options.priority {
            Some(priority) => {
                let priorities = &self.orb.sched().priorities;
                priorities.granted()?;
                Some(priorities.class(checked(priority)?)?)
            }
            None => None,
        };
        let lane = Lane::new(options.threads > 1).map_err(|error| {
            SystemException::from(Kind::NoResources).detail(format!("a client lane cannot be made: {error}"))
        })?;
        let lane = Arc::new(lane);
        if self.orb.server().client_lane.set(lane.clone()).is_err() {
            return refused(Kind::BadInvOrder, "the ORB has a client lane");
        }
        for i in 0..options.threads {
            let name = format!("isorb-client-{i}");
            let spec = match class {
                Some(class) => ThreadSpec::new(name).class(class),
                None => ThreadSpec::inheriting(name),
            };
            let (lane, orb) = (lane.clone(), self.orb.clone());
            spec.spawn_supervised(move || lane.run(&orb))
                .map_err(|error| SystemException::from(Kind::NoResources).detail(error.to_string()))?;
        }
        Ok(())
    }
}
