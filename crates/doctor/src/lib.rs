//! Checks of a machine for real-time programs, with commands that remove the obstacles.
//!
//! It inspects and measures, and changes nothing. For each finding it gives the exact command that
//! changes the setting. The operator decides: some settings cost power, some slow other programs.
//!
//! ```text
//!   probe    how late a thread wakes up, here and now          checks   one function for each thing in the way
//!                                                                 |
//!   report   findings as text or JSON, and the verdict         facts    what /proc and /sys say, read through a Root
//! ```
//!
//! Every check is a function of the files below a [`Root`], so that a test feeds it a tree of its
//! own making:
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
