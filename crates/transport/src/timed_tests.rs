use crate::Wait::{Block, No};
use crate::socket::SocketStream;
use crate::{Stream, warden};
use isorb_rt::time::{Deadline, now_ns};
use socket2::SockRef;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

fn pair() -> (SocketStream, UnixStream) {
    let (near, far) = UnixStream::pair().unwrap();
    (SocketStream::connected(near, "a peer".into()), far)
}

/// Receives in vain, and says for how long.
fn in_vain(near: &SocketStream, limit: Duration) -> Duration {
    near.set_recv_timeout(Some(limit)).unwrap();
    let start = now_ns();
    assert_eq!(near.recv(&mut [0], Block).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    Duration::from_nanos(now_ns() - start)
}

/// Interrupts receives all the time until `done`; how many.
fn pester(near: &SocketStream, done: &AtomicBool) -> u32 {
    let receiver = &near.timed.as_ref().unwrap().receiver;
    let mut times = 0;
    while !done.load(Ordering::Acquire) {
        times += u32::from(receiver.by.interrupt(&receiver.wait));
        std::thread::sleep(Duration::from_micros(300));
    }
    times
}

#[test]
fn the_kernel_has_limits_that_are_near_and_no_others() {
    let (near, mut far) = pair();
    let kernels = || SockRef::from(&near.fd()).read_timeout().unwrap();
    let ms = |ms| Some(Duration::from_millis(ms));
    for (limit, kept_by_warden) in
        [(ms(60_000), true), (ms(20), false), (ms(200), true), (ms(40), false), (None, false)]
    {
        near.set_recv_timeout(limit).unwrap();
        let expected = if kept_by_warden { None } else { limit };
        assert_eq!(kernels(), expected);
        assert_eq!(near.timed.as_ref().unwrap().limit().is_some(), kept_by_warden);
        far.write_all(b"x").unwrap();
        assert_eq!(near.recv(&mut [0; 2], Block).unwrap(), 1);
        assert_eq!(near.recv(&mut [0; 2], No).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
    let (a, _b) = UnixStream::pair().unwrap();
    let accepted = SocketStream::accepted(a, String::new());
    accepted.set_recv_timeout(ms(60_000)).unwrap();
    assert_eq!(SockRef::from(&accepted.fd()).read_timeout().unwrap(), ms(60_000));
}

#[test]
fn limits_of_many_are_kept_none_too_early() {
    let pairs: Vec<_> = (0..6).map(|_| pair()).collect();
    std::thread::scope(|scope| {
        // Those that begin later are due earlier, so that the warden must be told.
        for (i, (near, _far)) in pairs.iter().enumerate() {
            let limit = Duration::from_millis(300 - 40 * i as u64);
            scope.spawn(move || assert!(in_vain(near, limit) >= limit));
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    // By the coarse clock; and the connections are as good as ever.
    for (near, far) in &pairs[..2] {
        let limit = Duration::from_millis(1_001);
        assert!(in_vain(near, limit) >= limit);
        near.set_recv_timeout(Some(PATIENCE)).unwrap();
        let mut far = far;
        far.write_all(b"later").unwrap();
        assert_eq!(near.recv(&mut [0; 9], Block).unwrap(), 5);
    }
}

#[test]
fn an_interrupted_receive_goes_on_and_ends_at_its_limit() {
    let (near, far) = pair();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let pesters = scope.spawn(|| pester(&near, &done));
        let limit = Duration::from_millis(300);
        assert!(in_vain(&near, limit) >= limit);
        near.set_recv_timeout(Some(PATIENCE)).unwrap();
        let sends = scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            let mut far = &far;
            far.write_all(b"later").unwrap();
        });
        assert_eq!(near.recv(&mut [0; 9], Block).unwrap(), 5);
        done.store(true, Ordering::Release);
        assert!(pesters.join().unwrap() > 0, "nothing was interrupted");
        sends.join().unwrap();
    });
}

#[test]
fn who_has_received_is_interrupted_no_more_and_the_end_is_heard() {
    for round in 0..300u32 {
        let (near, mut far) = pair();
        // Due at once, so that the warden is at work while the octet comes.
        near.set_recv_timeout(Some(Duration::from_nanos(warden::NEAR + 1))).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| pester(&near, &done));
            (0..(round % 60) * 20).for_each(|_| std::hint::spin_loop());
            far.write_all(b"x").unwrap();
            assert_eq!(near.recv(&mut [0; 2], Block).unwrap(), 1);
            assert_eq!(near.timed.as_ref().unwrap().receiver.wait.until(), None);
            near.set_recv_timeout(Some(PATIENCE)).unwrap();
            if round % 2 == 0 {
                drop(far)
            } else {
                near.shutdown()
            }
            assert_eq!(near.recv(&mut [0; 2], Block).unwrap(), 0);
            done.store(true, Ordering::Release);
        });
    }
}

#[test]
fn what_ended_is_in_nobodys_charge() {
    let (near, _far) = pair();
    let receiver = std::sync::Arc::downgrade(&near.timed.as_ref().unwrap().receiver.socket);
    drop(near);
    let end = Deadline::after(PATIENCE);
    while receiver.upgrade().is_some() {
        assert!(!end.is_past(), "the socket stays open");
    }
}
