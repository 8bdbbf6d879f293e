//! A schedule in the simulator: every operation at its worst-case cost, all clocks starting
//! together but for their offsets.

use crate::schedule::Schedule;
use crate::sim::{Discipline, Job, SimError, Trace, Variation, hyperperiod, jobs, simulate};
use crate::{Nanos, Order, Task};

impl Schedule {
    /// The tasks, by index.
    #[must_use]
    pub fn tasks(&self) -> Vec<Task> {
        self.tasks.iter().map(|scheduled| scheduled.task.clone()).collect()
    }

    /// The span until the schedule repeats, if that is within `most` periods of the slowest task,
    /// otherwise these periods.
    #[must_use]
    pub fn span(&self, most: u64) -> Nanos {
        let tasks = self.tasks();
        let slowest = tasks.iter().map(|task| task.period).max().unwrap_or_default();
        hyperperiod(&tasks).filter(|span| *span <= slowest.times(most)).unwrap_or(slowest.times(most))
    }

    /// The simulation until `until`. Released operations are ready when their predecessors are
    /// done.
    ///
    /// # Errors
    /// [`SimError`].
    pub fn replay(&self, until: Nanos) -> Result<Trace, SimError> {
        self.replay_varied(until, |_, _| Variation::default())
    }

    /// Like [`Schedule::replay`], with the arrivals, jitter and costs that `vary` returns for a
    /// task and number. A released job arrives with its predecessor and varies only in its cost. A
    /// conjunction waits for the next run of each faster member.
    ///
    /// # Errors
    /// [`SimError`].
    pub fn replay_varied(
        &self,
        until: Nanos,
        mut vary: impl FnMut(usize, u64) -> Variation,
    ) -> Result<Trace, SimError> {
        let tasks = self.tasks();
        let mut own: Vec<Vec<Job>> = vec![Vec::new(); tasks.len()];
        for job in jobs(&tasks, until, &mut vary) {
            own[job.task].push(job);
        }
        let mut known: Vec<Option<Vec<Job>>> = vec![None; tasks.len()];
        while let Some(place) = self.next_known(&known) {
            let lead = self.tasks[place].lead;
            let led = lead.and_then(|lead| known[lead].clone());
            let mut jobs = led.unwrap_or_else(|| std::mem::take(&mut own[place]));
            for job in &mut jobs {
                if let Some(lead) = lead {
                    let cheaper = vary(place, job.number).cheaper;
                    job.cost = tasks[place].cost.minus(cheaper).max(Nanos::new(1));
                    (job.task, job.after) = (place, vec![(lead, job.number)]);
                }
                let next = |other: usize| (other, next_run(known[other].as_deref(), job));
                let faster: Vec<_> = self.faster(place).map(next).collect();
                job.after.extend(faster);
            }
            known[place] = Some(jobs);
        }
        let levels: Vec<(u32, Order)> =
            self.tasks.iter().map(|scheduled| (scheduled.queue.level, scheduled.queue.order)).collect();
        let discipline =
            Discipline::Levels { levels, one_thread_per_level: self.config.one_thread_per_level };
        let all = known.into_iter().flatten().flatten().collect();
        simulate(&tasks, all, &discipline, self.config.preemption, until)
    }

    /// A task without known jobs, all predecessors of which have theirs.
    fn next_known(&self, known: &[Option<Vec<Job>>]) -> Option<usize> {
        let there = |place: &usize| known[*place].is_some();
        (0..self.tasks.len()).find(|place| !there(place) && self.tasks[*place].after.iter().all(there))
    }

    /// The faster members of a conjunction.
    fn faster(&self, place: usize) -> impl Iterator<Item = usize> {
        let released = &self.tasks[place];
        let leads = |other: usize| {
            let other = &self.tasks[other];
            (other.operation, other.origin) == (released.from, released.origin)
        };
        released.after.iter().copied().filter(move |other| !leads(*other))
    }
}

/// The number of the first job that arrives with this one or later.
fn next_run(jobs: Option<&[Job]>, job: &Job) -> u64 {
    let jobs = jobs.unwrap_or_default();
    let index = jobs.partition_point(|other| other.arrival < job.arrival);
    // Without such a job before the end, this one is not done in the span.
    jobs.get(index).map_or(u64::MAX, |other| other.number)
}
