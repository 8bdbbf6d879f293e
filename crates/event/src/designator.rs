//! Event types with a meaning to the channel, in filters and of time-outs
//! (`Event_Service_Constants` of TAO).

/// Any type; as a source: any source.
pub const ANY: i32 = 0;
/// The channel shuts down.
pub const SHUTDOWN: i32 = 1;
/// A command of an application.
pub const ACT: i32 = 2;
/// A supplier's notification.
pub const NOTIFICATION: i32 = 3;
/// A time-out, of either kind.
pub const TIMEOUT: i32 = 4;
/// A time-out of an interval timer.
pub const INTERVAL_TIMEOUT: i32 = 5;
/// A time-out of a deadline timer: the awaited events did not come.
pub const DEADLINE_TIMEOUT: i32 = 6;
/// Starts filters outside the groups.
pub const GLOBAL: i32 = 7;
/// Starts a conjunction.
pub const CONJUNCTION: i32 = 8;
/// Starts a disjunction.
pub const DISJUNCTION: i32 = 9;
/// Negates the filter that follows.
pub const NEGATION: i32 = 10;
/// Starts filters of which one event must pass all.
pub const LOGICAL_AND: i32 = 11;
/// The next entry has masks that must share a bit with type and source. The entry after it is the
/// inner filter.
pub const BITMASK: i32 = 12;
/// The next two entries are masks and values.
pub const MASKED_TYPE: i32 = 13;
/// A filter that every event passes.
pub const NULL: i32 = 14;
/// An instance of which no event came in its period
/// ([`Quality::instance_period`](crate::Quality::instance_period)): of its source, with its type as
/// creation time. Of isorb.
pub const INSTANCE_TIMEOUT: i32 = 15;
/// The first type of the application.
pub const USER: i32 = 16;
