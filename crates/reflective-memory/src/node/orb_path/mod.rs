//! Values through the ORB: slower, and no value is lost that the writer's area still keeps.
//!
//! ```text
//!  area ─► push: thread ── push, two-way: one value under way
//!                       └─ push_oneway: a window of values, then beat: which push arrived last?
//!                                                            │
//!  area ◄─ replicas: accept new values in order ◄────────────┘
//! ```
//!
//! Each channel has an ordinary thread at the writer's node, because a call waits for its peer. A
//! peer that hangs delays its own channel only. Values of the window that did not arrive are sent
//! again; duplicates are dropped. A value that the writer's area overwrites before it is sent is
//! counted as lost at the reader's node, by the gap in the writer's numbers.

mod push;
mod replicas;

pub(super) use push::{OrbPush, ThreadPermit};
pub(super) use replicas::{Arrival, BeatTimes, Replicas, Target};
