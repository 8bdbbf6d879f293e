//! Schedulability without an ORB: analysis of deadlines, scheduling policies, and admission of
//! further tasks.
//!
//! Pure: no clock, no thread, no file, no CORBA. Threads and queues elsewhere run what it computes.
//! It does not prove a program correct: costs and blocking are the caller's declarations, which
//! budgets at run time enforce.
//!
//! ```text
//!   file (TOML) ─► Graph                       read, with errors that name file, line, task and numbers
//!   Graph ─ schedule ─► Schedule              operations and what makes them run, to levels and verdicts
//!   Topology ─ check ─► FederationReport   several channels and their links, end to end
//!   Task (C, T, D, J, B, priority)            what there is to do
//!     ├ fixed_priority, earliest_deadline     exact analysis, a verdict a task
//!     ├ sim                                   what happens, moment by moment
//!     ├ Admission, Link                       one more? yes with bounds, or no with numbers
//!     └ Policy, Plan, RuntimeScheduler        which queue, where in it: what a dispatcher asks
//! ```
//!
//! All arithmetic is on integers of nanoseconds, and saturates towards the worse verdict.
#![forbid(unsafe_code)]

mod admission;
mod analysis;
mod arrival;
mod chain;
mod demand;
mod edf;
pub mod federation;
pub mod file;
pub mod graph;
mod link;
mod links;
mod load;
pub mod partition;
mod plot;
mod policy;
mod replay;
mod report;
mod response;
mod runtime;
pub mod schedule;
mod sensitivity;
pub mod sim;
mod table;
mod task;
mod time;

pub use admission::{Admission, AdmissionConfig, Admitted, Assignment, Nearest, Reason, Refusal, TaskId};
pub use analysis::{Analysis, Verdict, analyse, fixed_priority};
pub use chain::{GraphRefusal, Stage};
pub use demand::Order;
pub use edf::earliest_deadline;
pub use graph::Graph;
pub use link::Link;
pub use load::Utilisation;
pub use policy::{Policy, Rank, UnknownPolicy};
pub use response::{Preemption, Response};
pub use runtime::{Connected, Dispatch, Plan, PlanError, QueueConfig, RuntimeScheduler};
pub use schedule::Schedule;
pub use sensitivity::{Factor, ScaledQuantity};
pub use task::{Counted, Criticality, Fault, Importance, Task, TaskError};
pub use time::{Nanos, NoTime};
