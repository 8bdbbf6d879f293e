//! Messages in several fragments (clause 9.4.9): putting them together, taking them apart.
//!
//! ```text
//!  GIOP 1.1   [header|start, more] [header|.., more] [header|end]        one at a time, no id
//!  GIOP 1.2   [header|id start, more] [header|id|.., more] [header|id|end]   by request id, lengths multiples of 8
//! ```
//! Fragments of GIOP 1.1 are read but never sent: their alignment counts from each fragment's header and no primitive may
//! be split, so that a finished message cannot be cut anywhere. What was read has *seams*, at which a
//! [`Decoder`](isorb_cdr::Decoder) counts anew; they travel behind the message and cost others nothing.

mod assemble;
mod split;

pub use assemble::{Assembled, Assembler, Limits};
pub use split::{Fragment, Fragments, MIN_FRAGMENT, split};

#[cfg(test)]
mod tests;
