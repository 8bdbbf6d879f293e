//! If both ends of a segment share a processor, neither spins before it sleeps, however long it
//! may: the other end needs the processor. A process of its own, since it is bound to processors.

use isorb_rt::sched::{Cpus, current_cpus, set_current_cpus};
use isorb_transport::conformance::{TIMEOUT, connect, receive, send_all};
use isorb_transport::{Segments, Spin, Stream, Transport};
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// The longest spin: longer than any wait of the test.
const SPIN: Duration = Duration::from_secs(10);
/// How long each end makes the other wait.
const LATE: Duration = Duration::from_millis(1);
const TIMES: u32 = 30;
/// A wait costs its thread less of the processor's time than this where it does not look, and
/// several times as much where it does.
const BOUND: Duration = Duration::from_millis(1);

/// What this thread has had of a processor.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// What the median wait costs the thread that waits, when the ends run on these processors.
fn cost(near_on: &Cpus, far_on: &Cpus) -> Duration {
    let segments = Segments { spin: Spin::up_to(SPIN), ..Segments::default() };
    let listener = segments.listen("").unwrap();
    let (near, far) = connect(&segments, &*listener);
    let turn = |stream: &dyn Stream| {
        assert_eq!(receive(stream, 1, 1).unwrap(), b"x");
        std::thread::sleep(LATE);
        send_all(stream, b"x").unwrap();
    };
    let timed = || {
        let before = used();
        turn(&*near);
        used() - before
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            set_current_cpus(far_on).unwrap();
            (0..2 * TIMES).for_each(|_| turn(&*far));
        });
        scope
            .spawn(|| {
                set_current_cpus(near_on).unwrap();
                send_all(&*near, b"x").unwrap();
                // Until each knows where the other is.
                (0..TIMES).for_each(|_| turn(&*near));
                let mut costs: Vec<_> = (0..TIMES - 1).map(|_| timed()).collect();
                assert_eq!(receive(&*near, 1, 1).unwrap(), b"x");
                costs.sort_unstable();
                costs[costs.len() / 2]
            })
            .join()
            .unwrap()
    })
}

#[test]
fn ends_that_share_a_processor_do_not_spin() {
    let processors: Vec<_> = current_cpus().unwrap().iter().map(Cpus::one).collect();
    let shared = cost(&processors[0], &processors[0]);
    assert!(shared < BOUND, "each wait took {shared:?} of the processor that both share");
    let Some(other) = processors.get(1) else {
        return println!("without its control: this process has one processor");
    };
    // The control: on different processors they spin. Beside other programs it may take some rounds
    // until that shows.
    let began = Instant::now();
    loop {
        let apart = cost(&processors[0], other);
        if apart > 3 * shared {
            return;
        }
        assert!(began.elapsed() < TIMEOUT, "a look took {apart:?}, a sleep {shared:?}");
    }
}
