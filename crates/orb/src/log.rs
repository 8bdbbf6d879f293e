//! The ORB's log records (see [`isorb_rt::log`]).

pub(crate) use isorb_rt::log::warn;

use std::fmt;

/// Writes a warning.
#[cold]
pub fn note(text: fmt::Arguments<'_>) {
    warn("isorb", text);
}
