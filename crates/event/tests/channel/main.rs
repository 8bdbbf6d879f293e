//! The channel through its Rust interface.

mod analysed;
mod bad_input;
mod chains;
mod common;
mod content;
mod dispatching;
mod early;
mod evicted;
mod executed;
mod federation;
mod filtering;
mod frozen_neighbour;
mod full;
mod history;
mod instances;
mod isolation;
mod levels;
mod no_alloc;
mod oracle;
mod overruns;
mod oversize;
mod priorities;
mod processors;
mod publications;
mod registrations;
mod swapping;
mod swapping_threads;
mod timers;
mod tracing;
mod upcalls;

#[global_allocator]
static ALLOCATOR: isorb_rt::alloc_count::CountingAllocator = isorb_rt::alloc_count::CountingAllocator;
