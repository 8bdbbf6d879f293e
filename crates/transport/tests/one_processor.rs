//! Where both ends of a segment share a processor nobody looks before it sleeps, however long it might: the processor is the other's. A process
//! of its own, since it is bound to processors.

use isorb_rt::sched::{Cpus, current_cpus, set_current_cpus};
use isorb_transport::conformance::{connect, receive, send_all};
use isorb_transport::{Segments, Stream, Transport};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// So long a look may last: longer than anything comes later than it is waited for.
const SPIN: Duration = Duration::from_secs(10);
/// How late what is waited for comes.
const LATE: Duration = Duration::from_millis(1);
const TIMES: u32 = 30;
/// A wait costs its thread less of the processor's time than this where it does not look, and several times as much where it does.
const BOUND: Duration = Duration::from_millis(1);

/// What this thread has had of a processor.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// What a wait costs the thread that waits, on average, when both ends run on one processor.
fn cost(processor: Cpus) -> Duration {
    set_current_cpus(&processor).unwrap();
    let segments = Segments { spin: SPIN, ..Segments::default() };
    let listener = segments.listen("").unwrap();
    let (near, far) = connect(&segments, &*listener);
    let turn = |stream: &dyn Stream| {
        assert_eq!(receive(stream, 1, 1).unwrap(), b"x");
        std::thread::sleep(LATE);
        send_all(stream, b"x").unwrap();
    };
    std::thread::scope(|scope| {
        scope.spawn(|| (0..2 * TIMES).for_each(|_| turn(&*far)));
        scope
            .spawn(|| {
                send_all(&*near, b"x").unwrap();
                // Until each knows where the other is.
                (0..TIMES).for_each(|_| turn(&*near));
                let before = used();
                (0..TIMES - 1).for_each(|_| turn(&*near));
                let cost = (used() - before) / (TIMES - 1);
                assert_eq!(receive(&*near, 1, 1).unwrap(), b"x");
                cost
            })
            .join()
            .unwrap()
    })
}

#[test]
fn who_shares_a_processor_does_not_look() {
    let shared = cost(Cpus::one(current_cpus().unwrap().iter().next().unwrap()));
    assert!(shared < BOUND, "each wait took {shared:?} of the processor that both share");
}
