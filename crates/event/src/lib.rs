//! The real-time event channel: filtering, correlation, timers, dispatching, federation.
#![forbid(unsafe_code)]
