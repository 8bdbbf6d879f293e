//! The counting allocator counts, and what this crate promises not to allocate does not.
#![cfg(all(feature = "alloc-count", not(loom)))]

use std::hint::black_box;
use std::io::IoSlice;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use isorb_rt::alloc_count::*;
use isorb_rt::net::{self, Events, Interest, Poller, Trigger, Wait};
use isorb_rt::pool::IndexPool;
use isorb_rt::queue::{Overflow, PriorityQueue};
use isorb_rt::sync::{Parker, PiCondvar, PiMutex};
use isorb_rt::time::{Deadline, now_ns};
use isorb_rt::timers::TimerHeap;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn allocations_are_counted_a_thread() {
    assert_eq!(allocations_during(|| black_box(7)), 0);
    assert_eq!(allocations_during(|| black_box(Box::new(7))), 1);
    let mut v = vec![0u8; 10];
    assert_eq!(allocations_during(|| v.reserve_exact(1000)), 1);
    assert_eq!(allocations_during(|| black_box(vec![0u8; 100])), 1);
    let before = process_allocations();
    let elsewhere = std::thread::spawn(|| {
        drop(black_box(Box::new(1)));
        thread_allocations()
    });
    assert!(elsewhere.join().unwrap() >= 1);
    assert!(process_allocations() > before);
    assert_eq!(trap_allocations(|| 5), 5);
}

#[test]
fn the_hot_paths_allocate_nothing() {
    let (mutex, condvar, parker) = (PiMutex::new(0), PiCondvar::new(), Parker::new());
    let pool = IndexPool::new(100);
    let mut queue = PriorityQueue::with_capacity(4);
    let mut timers = TimerHeap::with_capacity(16);
    let (a, b) = UnixStream::pair().unwrap();
    let poller = Poller::new().unwrap();
    poller.add(&b, 1, Interest::READ, Trigger::Edge).unwrap();
    let mut events = Events::<4>::new();
    let soon = || Deadline::after(Duration::from_micros(10));

    let count = allocations_during(|| {
        for i in 0..100 {
            let mut guard = mutex.lock();
            *guard += 1;
            condvar.wait_until(&mut guard, soon());
            drop(guard);
            condvar.notify_all(&mutex);
            parker.unpark();
            parker.park_until(Deadline::NONE);
            parker.park_until(soon());

            let index = pool.take().unwrap();
            pool.give(index);

            for value in 0..6 {
                queue.push_or(i % 2, value, Overflow::DropOldest).unwrap();
            }
            while queue.pop().is_some() {}

            let handle = timers.push(now_ns(), i).unwrap();
            timers.push(i as u64, i).unwrap();
            timers.remove(handle).unwrap();
            while timers.pop_due(now_ns()).is_some() {}

            net::send(&a, b"one", Wait::Allowed).unwrap();
            net::send_vectored(&a, &[IoSlice::new(b"two"), IoSlice::new(b"three")], Wait::Allowed).unwrap();
            assert_eq!(poller.wait(&mut events, Deadline::NONE).unwrap().count(), 1);
            assert_eq!(net::recv_into(&b, &mut [0; 64], Wait::Never).unwrap(), 11);
            poller.wake();
            poller.wait(&mut events, Deadline::NONE).unwrap().for_each(drop);
        }
    });
    assert_eq!(count, 0);
}
