//! How often a path allocates once it is warm.

use isorb_rt::alloc_count::process_allocations;

/// Allocations of all threads during `rounds`. Where there is one, or two, it is called again, and
/// at most twice. For paths of which a test has been seen to need it; others allow none.
///
/// A pool takes one more block when more of its blocks are in use at once than ever before. On a
/// busy machine threads may run in an order that causes this late, and the check of an idle
/// connection, which needs a block, may come at any call. Both end; an allocation of each call, or
/// of one in many, occurs each time.
pub fn in_steady_state(rounds: impl FnMut()) -> u64 {
    steady(process_allocations, rounds)
}

fn steady(allocations: fn() -> u64, mut rounds: impl FnMut()) -> u64 {
    let mut spared = 2;
    loop {
        let before = allocations();
        rounds();
        let made = allocations() - before;
        if made == 0 || made > spared {
            return made;
        }
        spared -= made;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isorb_rt::alloc_count::thread_allocations;

    #[global_allocator]
    static ALLOCATOR: isorb_rt::alloc_count::CountingAllocator = isorb_rt::alloc_count::CountingAllocator;

    /// Calls `rounds` with the number of the call, which allocates so often.
    fn with(times: [u64; 3]) -> u64 {
        let mut calls = times.into_iter();
        // The thread that runs the tests may allocate meanwhile.
        steady(thread_allocations, || {
            let allocate = |_| drop(std::hint::black_box(Box::new(1)));
            (0..calls.next().unwrap()).for_each(allocate);
        })
    }

    #[test]
    fn one_more_block_ends_and_an_allocation_of_each_time_does_not() {
        for settled in [[0, 9, 9], [1, 0, 9], [1, 1, 0], [2, 0, 9]] {
            assert_eq!(with(settled), 0, "{settled:?}");
        }
        for (repeated, made) in [([1, 1, 1], 1), ([2, 1, 0], 1), ([1, 2, 0], 2), ([100, 0, 0], 100)] {
            assert_eq!(with(repeated), made, "{repeated:?}");
        }
    }
}
