//! Operations that are registered and looked up, and a schedule that is computed and recorded.

use isorb::Orb;
use isorb_sched_service::rtec_scheduler::{
    Criticality_t, Importance_t, Info_Type_t, SchedulerRef,
    scheduler::{CreateError, LookupError},
};

use super::{Client, Connected, text};

/// In units of 100 ns.
const COST: u64 = 1_000;
const PERIOD: i32 = 10_000_000;

struct Operations(SchedulerRef);

pub(super) fn connect(orb: &Orb, url: &str) -> Connected {
    Ok(Box::new(Operations(orb.resolve(url).map_err(text)?)))
}

fn name(number: u32) -> String {
    format!("op{number}")
}

impl Client for Operations {
    fn write(&mut self, number: u32) -> Result<(), String> {
        let handle = match self.0.create(&name(number)) {
            Ok(handle) => handle,
            // The answer to an earlier attempt was lost.
            Err(CreateError::DUPLICATE_NAME(_)) => self.0.lookup(&name(number)).map_err(text)?,
            Err(error) => return Err(format!("{error:?}")),
        };
        let (medium, important) = (Criticality_t::MediumCriticality, Importance_t::MediumImportance);
        let operation = Info_Type_t::Operation;
        self.0
            .set(handle, medium, COST, COST, 0, PERIOD, important, 0, 0, operation)
            .map_err(|error| format!("{error:?}"))?;
        self.0.compute_scheduling(1, 99).map(drop).map_err(|error| format!("{error:?}"))
    }

    fn read(&mut self, number: u32) -> Result<bool, String> {
        match self.0.lookup(&name(number)) {
            Ok(_) => Ok(true),
            Err(LookupError::UNKNOWN_TASK(_)) => Ok(false),
            Err(error) => Err(text(error)),
        }
    }

    /// The interface has no way to take an operation back.
    fn remove(&mut self, _: u32) -> Result<(), String> {
        Ok(())
    }
}
