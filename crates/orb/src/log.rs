//! The ORB's log records (see [`isorb_rt::log`]).

#[cfg(feature = "implementation-repository")]
pub(crate) use isorb_rt::log::info;
pub(crate) use isorb_rt::log::warn;
