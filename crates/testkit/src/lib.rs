//! The pieces that many tests need: waiting, temporary folders, child processes, compilers, ORBs, a
//! browser, the documents.
//!
//! It is a dev-dependency of other crates and nothing else. The features `browser` and `orb` add
//! the parts with dependencies of their own; crates below `isorb` use it without features. Networks
//! of several hosts are in `isorb-netlab`, since experiments need them too.
//!
//! ```
//! use isorb_testkit::{TempFolder, wait_until};
//!
//! let folder = TempFolder::new();
//! let file = folder.file("value");
//! let writer = std::thread::spawn({ let file = file.clone(); move || std::fs::write(file, "7") });
//! wait_until("the file exists", || file.exists());
//! writer.join().unwrap().unwrap();
//! ```
#![forbid(unsafe_code)]

#[cfg(feature = "browser")]
mod browser;
mod compiler;
mod disk;
mod documents;
mod folder;
mod killed_writer;
#[cfg(feature = "orb")]
mod orb;
mod process;
#[cfg(feature = "orb")]
mod scarce;
mod wait;

#[cfg(feature = "browser")]
pub use browser::Browser;
pub use compiler::{compiles, has_omniorb, omniorb_stubs};
pub use disk::{fill_disk, on_small_disk};
pub use documents::{document, documents, repository};
pub use folder::TempFolder;
pub use killed_writer::{KilledAfter, acknowledged_before_kill};
#[cfg(feature = "orb")]
pub use orb::{OrbPair, RunningOrb};
pub use process::{Process, freeze, resume, runs_alone, threads_in_write};
#[cfg(feature = "orb")]
pub use scarce::ScarceTransport;
pub use wait::{HANG_LIMIT, retry, wait_for, wait_until};
