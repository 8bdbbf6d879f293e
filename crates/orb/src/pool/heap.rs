//! Lanes without the heap: finding the servant that allocates.

use super::Threadpool;
use crate::{Result, SystemException};
use isorb_giop::Kind;
use isorb_rt::priority::Priority;

/// Counts the allocations of an upcall while it lives.
pub(crate) struct HeapGuard<'p> {
    #[cfg(feature = "alloc-count")]
    _watch: counting::Watch<'p>,
    #[cfg(not(feature = "alloc-count"))]
    _nothing: std::marker::PhantomData<&'p ()>,
}

/// Checks that allocations can be counted.
///
/// # Errors
/// BAD_PARAM without the feature `alloc-count`, or without the counting allocator.
pub(super) fn check() -> Result<()> {
    #[cfg(feature = "alloc-count")]
    if isorb_rt::alloc_count::is_installed() {
        return Ok(());
    }
    Err(SystemException::from(Kind::BadParam).detail(
        "heap_free: build isorb with the feature alloc-count, and install isorb::rt::CountingAllocator as #[global_allocator]",
    ))
}

impl Threadpool {
    /// Watches the upcall of `operation` that begins now on this thread, if the pool is declared
    /// heap-free.
    #[inline]
    pub fn watch_heap<'p>(&'p self, priority: Option<Priority>, operation: &'p str) -> Option<HeapGuard<'p>> {
        #[cfg(feature = "alloc-count")]
        return counting::watch(self, priority, operation).map(|_watch| HeapGuard { _watch });
        #[cfg(not(feature = "alloc-count"))]
        {
            let _ = (self, priority, operation);
            None
        }
    }
}

#[cfg(feature = "alloc-count")]
mod counting {
    use crate::log::warn;
    use crate::pool::Threadpool;
    use crate::sched::HeapFree;
    use crate::server::Lane;
    use isorb_rt::alloc_count::{AllocationTrap, thread_allocations};
    use isorb_rt::priority::Priority;
    use std::sync::atomic::Ordering;

    pub struct Watch<'p> {
        lane: &'p Lane,
        operation: &'p str,
        before: u64,
        trap: Option<AllocationTrap>,
    }

    pub fn watch<'p>(
        pool: &'p Threadpool,
        priority: Option<Priority>,
        operation: &'p str,
    ) -> Option<Watch<'p>> {
        if pool.heap_free == HeapFree::No {
            return None;
        }
        let trap = (pool.heap_free == HeapFree::Abort).then(AllocationTrap::arm);
        let lane = &**pool.lane_for(priority).lane();
        Some(Watch { lane, operation, before: thread_allocations(), trap })
    }

    impl Drop for Watch<'_> {
        fn drop(&mut self) {
            self.trap = None;
            let count = thread_allocations() - self.before;
            if let Some(server) = self.lane.server().filter(|_| count > 0) {
                let blocks = server.blocks();
                let upcalls = blocks.heap_upcalls.fetch_add(1, Ordering::Relaxed) + 1;
                if upcalls.is_power_of_two() {
                    let (name, operation) = (&blocks.name, self.operation);
                    warn(
                        "isorb::pool",
                        format_args!("{operation} allocated {count} times in {name}, which is heap_free"),
                    );
                }
            }
        }
    }
}
