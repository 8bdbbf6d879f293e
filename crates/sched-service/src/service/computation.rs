//! Computes the schedule.

use super::SchedulerService;
use super::state::{Planned, State};
use crate::rtec_scheduler::INSUFFICIENT_THREAD_PRIORITY_LEVELS;
use isorb_rt::sync::PiGuard;
use isorb_sched::file::ScheduleFile;
use isorb_sched::schedule::{Anomaly, Config, ScheduleError, Severity};

impl SchedulerService {
    /// Computes the schedule with these priorities, and returns the state with it. A graph that
    /// cannot be scheduled is a fatal anomaly, since the interface has no exception that names the
    /// fault.
    pub(super) fn compute<E: From<INSUFFICIENT_THREAD_PRIORITY_LEVELS>>(
        &self,
        minimum_priority: i32,
        maximum_priority: i32,
    ) -> Result<(PiGuard<'_, State>, Vec<Anomaly>), E> {
        let priority = |number: i32| u16::try_from(number).ok().filter(|number| *number <= 32767);
        let (Some(first), Some(last)) = (priority(minimum_priority), priority(maximum_priority)) else {
            return Err(INSUFFICIENT_THREAD_PRIORITY_LEVELS {}.into());
        };
        let mut state = self.state.lock();
        let config = Config { priorities: first..=last, ..self.config.clone() };
        state.planned = None;
        let (graph, places, mut anomalies) = state.effective();
        if let Some(record) = &self.record {
            record(&ScheduleFile::of("recorded", config.clone(), graph.clone()));
        }
        match graph.schedule(config) {
            Ok(mut schedule) => {
                let found = std::mem::take(&mut schedule.anomalies);
                let fatal = found.iter().any(|anomaly| anomaly.severity == Severity::Fatal);
                state.planned = Some(Planned { schedule, places }).filter(|_| !fatal);
                anomalies.splice(0..0, found);
            }
            Err(ScheduleError::Plan(_)) => return Err(INSUFFICIENT_THREAD_PRIORITY_LEVELS {}.into()),
            Err(error) => {
                let fatal = Anomaly { severity: Severity::Fatal, description: error.to_string() };
                anomalies.insert(0, fatal);
            }
        }
        Ok((state, anomalies))
    }
}
