//! What of a machine stands in the way of real time, and what an operator does about it.
//!
//! It looks and measures; it changes nothing. What it finds, it says with the exact command that changes it, and leaves
//! the decision to whoever runs the machine: some of these settings cost power, some cost other programs.
//!
//! ```text
//!   probe    how late a thread wakes up, here and now          checks   one function for each thing in the way
//!                                                                 |
//!   report   findings as text or JSON, and the verdict         facts    what /proc and /sys say, read through a Root
//! ```
//!
//! Every check is a function of the files below a [`Root`], so that a test feeds it a tree of its own making:
//!
//! ```
//! use isorb_doctor::{Level, Root, Wanted, examine};
//!
//! let findings = examine(&Root::system(), Wanted::default());
//! for finding in findings.iter().filter(|f| f.level == Level::Blocking) {
//!     eprintln!("{}: {}", finding.check, finding.found);
//! }
//! ```
#![forbid(unsafe_code)]

pub mod checks;
pub mod facts;
mod finding;
pub mod probe;
pub mod report;
mod root;

pub use checks::examine;
pub use finding::{Finding, Level, Wanted};
pub use root::Root;
