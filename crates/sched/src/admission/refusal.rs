//! Why a task was not admitted: the task that would be late, and by how much.

use super::Nearest;
use crate::response::Response;
use crate::{Nanos, TaskError, Utilisation};
use std::fmt;

/// A task that was not admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The task that was refused.
    pub task: String,
    /// The reason.
    pub reason: Reason,
    /// Parameters that would be admitted.
    pub nearest: Nearest,
}

/// Reasons for a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The task's own parameters are invalid.
    Impossible(TaskError),
    /// The greatest number of tasks is admitted.
    Full {
        /// That number.
        capacity: usize,
    },
    /// The tasks would use more than their share of the resource.
    Share {
        /// The utilisation of the new task.
        requested: Utilisation,
        /// The utilisation of the admitted tasks.
        taken: Utilisation,
        /// The share that admitted tasks may use.
        share: Utilisation,
    },
    /// A task would miss its deadline, or could not be shown to meet it.
    Deadline {
        /// The new task, or an admitted one.
        victim: String,
        /// Its response.
        response: Response,
        /// Its deadline.
        deadline: Nanos,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be admitted: ", self.task)?;
        match &self.reason {
            Reason::Impossible(error) => write!(f, "{}", error.fault)?,
            Reason::Full { capacity } => write!(f, "{capacity} tasks are admitted, and no more may be")?,
            Reason::Share { requested, taken, share } => {
                write!(
                    f,
                    "it asks for {requested} of the resource, of which {taken} is given away and {share} may be"
                )?;
            }
            Reason::Deadline { victim, response, deadline } => {
                let victim = if *victim == self.task { "it" } else { victim };
                match response {
                    Response::Bounded(time) | Response::Over(time) => {
                        write!(f, "{victim} would take at least {time}, over its deadline of {deadline}")?;
                    }
                    Response::Unbounded => write!(
                        f,
                        "{victim} and the more urgent tasks would ask for more than there is, and its deadline is {deadline}"
                    )?,
                    Response::Undecided(_) => write!(
                        f,
                        "it would take too much computing to show that {victim} meets its deadline of {deadline}"
                    )?,
                }
            }
        }
        match (self.nearest.period, self.nearest.deadline) {
            (None, None) => Ok(()),
            (Some(period), None) => write!(f, "; a period of {period} would be admitted"),
            (None, Some(deadline)) => write!(f, "; a deadline of {deadline} would be admitted"),
            (Some(period), Some(deadline)) => {
                write!(f, "; a period of {period} or a deadline of {deadline} would be admitted")
            }
        }
    }
}

impl std::error::Error for Refusal {}
