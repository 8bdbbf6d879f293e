//! Scoped memory: fixed regions, with references that carry Rust lifetimes.
//!
//! A [`Region`] is a block of memory that is made once. Entering it gives a [`Scope`]; everything
//! that is placed in the scope lives exactly as long as the scope is borrowed, and leaving costs
//! the same whatever was placed there. The rule of nested scoped memory (inner may refer to outer,
//! never the reverse), which a real-time Java virtual machine checks at run time on every store, is
//! here what the borrow checker proves while compiling.
//!
//! This crate is *not* a general allocator: nothing is freed one by one, and a region never grows.
//! A value that does not fit is an error ([`Full`]) of the call.
//!
//! ```text
//!   Region  (memory, made at start)          BufferPool (large messages)
//!     └─ enter() ─► Scope<'r>                   └─ take(n) ─► Buffer ── drop ──► back to the pool
//!                     ├─ str, slice, fill …   values without destructor: leaving is O(1)
//!                     └─ keep                  owned values: dropped on leaving, O(kept)
//! ```
//!
//! ```
//! use isorb_scope::Region;
//! let mut region = Region::new(1024);
//! for round in 0..3 {
//!     let scope = region.enter();
//!     let name = scope.format(format_args!("round {round}")).unwrap();
//!     assert!(name.starts_with("round"));
//! } // leaving makes the whole region free again
//! ```
// An arena gives each caller a part of its own, which this lint does not recognise.
#![allow(clippy::mut_from_ref)]
#![no_std]
extern crate alloc;

mod address_space;
mod buffer;
mod index_pool;
mod region;
mod reserved;
mod retained;
mod scope;
mod seldom;

pub use address_space::AddressSpace;
pub use buffer::{Buffer, BufferPool};
pub use index_pool::IndexPool;
pub use region::Region;
pub use scope::{Full, Scope};
pub use seldom::LazyBox;
