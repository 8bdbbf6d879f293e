//! Messages in several fragments (clause 9.4.9): assembling and splitting.
//!
//! ```text
//!  GIOP 1.1   [header|start, more] [header|.., more] [header|end]           one at a time, no id
//!  GIOP 1.2   [header|id start, more] [header|id|.., more] [header|id|end]  by request id
//! ```
//! This ORB reads fragments of GIOP 1.1 but never sends them: alignment counts from each fragment's
//! header, and no primitive may be split, so that a finished message cannot be cut anywhere. A
//! message that was read has *fragment boundaries*, at which a [`Decoder`](isorb_cdr::Decoder)
//! restarts alignment. They travel behind the message and cost other messages nothing.

mod assemble;
mod split;

pub use assemble::{Assembled, Assembler, Limits};
pub use split::{Fragment, Fragments, MIN_FRAGMENT, split};

#[cfg(test)]
mod tests;
