//! Descriptors, mappings and threads before and after many connections. A process of its own, since
//! it counts the process's.

use isorb_transport::conformance::{connect, receive, send_all};
use isorb_transport::{Segments, Tcp, Transport, Unix, Wait};
use std::time::{Duration, Instant};

/// Open descriptors, mappings of segments, threads.
fn held() -> (usize, usize, usize) {
    // Its thread stays for the life of the process, whichever record comes first.
    isorb_rt::log::prepare();
    let count = |folder: &str| std::fs::read_dir(folder).unwrap().count();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let segments = maps.lines().filter(|line| line.contains("isorb-segment")).count();
    (count("/proc/self/fd"), segments, count("/proc/self/task"))
}

#[test]
fn connections_leave_nothing_behind() {
    let round = |n: usize| {
        for (transport, address) in [
            (Box::new(Tcp) as Box<dyn Transport>, "127.0.0.1:0"),
            (Box::new(Unix::default()), ""),
            (Box::new(Segments::default()), ""),
        ] {
            let listener = transport.listen(address).unwrap();
            for _ in 0..n {
                let (near, far) = connect(&*transport, &*listener);
                send_all(&*near, &[7; 1000]).unwrap();
                assert_eq!(receive(&*far, 1000, 1000).unwrap(), [7; 1000]);
            }
            // Ends in the middle of the handshake, and refusals, are cleaned up after as well.
            let path = listener.address().to_string();
            std::thread::scope(|scope| {
                let lost = scope.spawn(|| transport.connect(&path, Some(Duration::from_secs(20))));
                drop(listener.accept(Wait::Block).unwrap());
                let _ = lost.join().unwrap();
            });
        }
    };
    round(3);
    // A thread that was joined may be listed for a moment longer.
    let mut before = held();
    let end = Instant::now() + Duration::from_secs(1);
    while Instant::now() < end {
        let (descriptors, segments, threads) = held();
        before = (before.0.min(descriptors), before.1.min(segments), before.2.min(threads));
        std::thread::sleep(Duration::from_millis(20));
    }
    round(200);
    let end = Instant::now() + Duration::from_secs(60);
    while held() != before && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(held(), before);
    assert_eq!(before.1, 0, "no segment stays mapped");
}
