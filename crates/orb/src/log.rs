//! The ORB's log records.

use std::fmt;

/// Writes a warning (see [`isorb_rt::log`]).
#[cold]
pub fn note(text: fmt::Arguments<'_>) {
    isorb_rt::log::warn("isorb", text);
}
