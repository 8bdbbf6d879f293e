//! A schedule in the simulator: every operation at its worst case, all clocks starting together but for their offsets.

use crate::schedule::Schedule;
use crate::sim::{Discipline, Job, SimError, Trace, Variation, hyperperiod, jobs, simulate};
use crate::{Nanos, Order, Task};

impl Schedule {
    /// The tasks, by place.
    #[must_use]
    pub fn tasks(&self) -> Vec<Task> {
        self.tasks.iter().map(|scheduled| scheduled.task.clone()).collect()
    }

    /// A span that shows the schedule: until it repeats, where that is within `most` periods of the slowest task, or else so long.
    #[must_use]
    pub fn span(&self, most: u64) -> Nanos {
        let tasks = self.tasks();
        let slowest = tasks.iter().map(|task| task.period).max().unwrap_or_default();
        hyperperiod(&tasks).filter(|span| *span <= slowest.times(most)).unwrap_or(slowest.times(most))
    }

    /// What happens until `until`: operations that others release are ready when those are done.
    ///
    /// # Errors
    /// [`SimError`].
    pub fn replay(&self, until: Nanos) -> Result<Trace, SimError> {
        let tasks = self.tasks();
        let released = |place: usize| self.tasks[place].from != self.tasks[place].operation;
        let plain: Vec<Job> = jobs(&tasks, until, |_, _| Variation::default());
        let linked = plain.into_iter().map(|job| match released(job.task) {
            true => Job { after: self.before(job.task).map(|before| (before, job.number)), ..job },
            false => job,
        });
        let levels: Vec<(u32, Order)> =
            self.tasks.iter().map(|scheduled| (scheduled.queue.level, scheduled.queue.order)).collect();
        let discipline = Discipline::Levels { levels, turns: self.config.turns };
        simulate(&tasks, linked.collect(), &discipline, self.config.preemption, until)
    }

    /// The task after which a released one comes: of the operation that hands its releases on, the one of the same period.
    fn before(&self, place: usize) -> Option<usize> {
        let (from, period) = (self.tasks[place].from, self.tasks[place].task.period);
        self.tasks.iter().position(|other| other.operation == from && other.task.period == period)
    }
}
