//! Values through the ORB: slower, and nothing is lost while the writer's area keeps it.
//!
//! ```text
//!  area ─► push: thread ── push, two-way: one value under way
//!                       └─ push_oneway: a window of values under way, then beat: how far have you come?
//!                                                            │
//!  area ◄─ replicas: takes what is new, in order ◄───────────┘
//! ```
//!
//! The pushing end has an ordinary thread a channel, because a call waits for its peer: one that hangs holds up itself only. What the
//! window holds is sent again if the receiver has not got it; what it has got twice shows nothing twice. A value that the writer's
//! area overwrites before it can go is counted as lost at the reader's node, by the gap in the writer's numbers.

mod push;
mod replicas;

pub(super) use push::{OrbPush, ThreadPermit};
pub(super) use replicas::{Arrival, Replicas, Target};
