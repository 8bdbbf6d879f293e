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
//! peer that hangs delays only its own channel. Values of the window that did not arrive are sent
//! again; duplicates are dropped. If the writer's area overwrites a value before it is sent, the
//! reader's node counts it as lost, by the gap in the writer's numbers.
//!
//! Guaranteed channels have urgent threads at both ends (`lane`), and push no faster than they were
//! admitted for. While the node has such, best effort takes turns at the link (`pacing`).

mod lane;
mod pacing;
mod push;
mod replicas;

pub(super) use lane::{GuaranteedLane, LANE_CHANNELS, LARGEST_VALUE};
pub(super) use pacing::CallPacing;
pub(super) use push::{OrbPush, PushControl, ThreadPermit, Urgency, window};
pub(super) use replicas::{Arrival, BeatTimes, Replicas, Target};
