use super::*;

const LIMITS: BufferLimits = BufferLimits { requests: 2, bytes: 100 };

fn lane(config: LaneConfig) -> ThreadLane<u32> {
    ThreadLane::new(config)
}

#[test]
fn dynamic_threads_start_up_to_the_limit_and_end_again() {
    let lane = lane(LaneConfig { static_threads: 1, dynamic_threads: 2, ..LaneConfig::default() });
    assert_eq!((lane.config().initial_threads(), lane.config().max_threads()), (2, 4));
    assert_eq!(lane.admit(), Admission::Run);
    assert!(!lane.retire(), "static threads stay");
    assert_eq!(lane.admit(), Admission::RunAndGrow);
    assert_eq!(lane.admit(), Admission::RunAndGrow);
    lane.abandon_growth();
    assert_eq!(lane.status().dynamic, 1);
    assert_eq!(lane.admit(), Admission::RunAndGrow);
    assert_eq!(lane.admit(), Admission::Full);
    assert!(!lane.retire(), "all are busy");
    assert_eq!(lane.next(), None);
    assert!(lane.retire());
    assert_eq!(lane.admit(), Admission::RunAndGrow, "and grows again");
    assert_eq!(lane.status().peak, 3);
}

#[test]
fn the_buffer_is_bounded_twice() {
    let lane = lane(LaneConfig { static_threads: 1, buffer: Some(LIMITS), ..LaneConfig::default() });
    assert_eq!(lane.admit(), Admission::Run);
    assert_eq!(lane.admit(), Admission::Full);
    assert_eq!(lane.buffer(60, None, || 1), Buffering::Buffered);
    assert_eq!(lane.buffer(60, None, || 2), Buffering::Overflow, "too many bytes");
    assert_eq!(lane.buffer(40, None, || 3), Buffering::Buffered);
    assert_eq!(lane.buffer(0, None, || 4), Buffering::Overflow, "too many requests");
    assert!(!lane.release_unless_buffered(), "a buffered request gets the permit");
    assert_eq!(lane.next(), Some(1), "the oldest first, none being more urgent");
    assert_eq!(lane.buffer(60, None, || 5), Buffering::Buffered);
    assert_eq!((lane.next(), lane.next()), (Some(3), Some(5)));
    assert_eq!(lane.next(), None);
    assert_eq!(lane.buffer(60, None, || 6), Buffering::Run, "there is a permit again");
    assert!(lane.release_unless_buffered());
    assert_eq!(lane.admit(), Admission::Run);
    let status = ThreadStatus { running: 1, peak: 1, ..ThreadStatus::default() };
    assert_eq!(lane.status(), status);
}

#[test]
fn buffered_requests_run_in_the_order_of_their_priorities() {
    let limits = BufferLimits { requests: 8, bytes: 100 };
    let lane = lane(LaneConfig { static_threads: 1, buffer: Some(limits), ..LaneConfig::default() });
    let run = |requests: &[(u32, Option<i16>)]| {
        assert_eq!(lane.admit(), Admission::Run);
        for (request, priority) in requests {
            let priority = priority.map(|priority| Priority::new(priority).unwrap());
            assert_eq!(lane.buffer(10, priority, || *request), Buffering::Buffered);
        }
        let order: Vec<_> = std::iter::from_fn(|| lane.next()).collect();
        assert_eq!((lane.status().buffered, lane.status().buffered_bytes), (0, 0));
        order
    };
    let (low, high) = (Some(5), Some(20_000));
    assert_eq!(
        run(&[(1, None), (2, low), (3, high), (4, low), (5, high), (6, None), (7, Some(0))]),
        [3, 5, 2, 4, 7, 1, 6],
        "the most urgent first, in order of arrival within one priority"
    );
    // The control: equal priorities leave the order of arrival.
    for equal in [None, low] {
        assert_eq!(run(&[1, 2, 3, 4, 5].map(|request| (request, equal))), [1, 2, 3, 4, 5]);
    }
}

#[test]
fn without_a_buffer_a_thread_waits_for_a_permit() {
    let lane =
        std::sync::Arc::new(lane(LaneConfig { static_threads: 1, borrows: true, ..LaneConfig::default() }));
    assert_eq!(lane.admit(), Admission::Run);
    assert_eq!(lane.buffer(1, None, || 1), Buffering::NoBuffer);
    let other = lane.clone();
    let waiter = std::thread::spawn(move || (other.wait_for_permit(), other.wait_for_permit()));
    lane.release();
    // The first wait gets a permit; the second lasts until the lane closes.
    while lane.status().running == 0 {
        std::thread::yield_now();
    }
    lane.close();
    assert_eq!(waiter.join().unwrap(), (true, false));
    assert_eq!(lane.admit(), Admission::Closed);
}

#[test]
fn borrowing_raises_the_idle_threads() {
    let lane = lane(LaneConfig { static_threads: 2, lends: true, ..LaneConfig::default() });
    let worker = lane.register();
    assert!(worker.is_some());
    let mut raised = Vec::new();
    assert!(lane.borrow_thread(|| 7, |thread| raised.push(thread)));
    assert!(raised.is_empty(), "busy threads keep their priority");
    lane.set_idle(worker);
    assert!(lane.borrow_thread(|| 8, |thread| raised.push(thread)));
    assert_eq!(raised, [worker.unwrap()]);
    assert!(!lane.borrow_thread(|| 9, |_| ()), "no permit is left");
    assert_eq!(lane.admit(), Admission::Full, "nor for its own requests");
    assert!(lane.set_busy(worker));
    assert!(!lane.set_busy(worker), "reported once");
    assert_eq!(lane.borrowed_request(), (Some(7), true));
    assert_eq!(lane.borrowed_request(), (Some(8), false));
    assert_eq!(lane.next(), None);
    assert_eq!(lane.admit(), Admission::Run);
    lane.deregister(worker);
    assert!(lane.close().is_empty());
    assert!(!lane.borrow_thread(|| 1, |_| ()));
}

#[test]
fn lanes_without_alternatives_have_no_reader() {
    let config = LaneConfig { static_threads: 3, ..LaneConfig::default() };
    assert_eq!((config.initial_threads(), config.counts_permits()), (3, false));
    let config = LaneConfig { static_threads: 3, lends: true, ..LaneConfig::default() };
    assert_eq!((config.initial_threads(), config.counts_permits()), (3, true));
    let config = LaneConfig { static_threads: 3, buffer: Some(LIMITS), ..LaneConfig::default() };
    assert_eq!((config.initial_threads(), config.counts_permits()), (4, true));
}
