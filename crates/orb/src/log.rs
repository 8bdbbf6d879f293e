//! The ORB's log records (see [`isorb_rt::log`]).

pub(crate) use isorb_rt::log::warn;
