//! A hostile peer that holds the real segments.

use super::*;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

/// Two ends in this process; the second is the hostile one.
fn pair() -> (SegmentStream<Terms>, SegmentStream<Terms>) {
    pair_that_spins(Spin::up_to(Duration::from_micros(5)))
}

fn pair_that_spins(spin: Spin) -> (SegmentStream<Terms>, SegmentStream<Terms>) {
    let (near, far) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    let terms = || Terms { bytes: 4096, arena_bytes: 1 << 20, users: Vec::new() };
    let near = SegmentStream::accepted(near, terms(), spin).unwrap();
    std::thread::scope(|scope| {
        let far = scope.spawn(|| {
            let deadline = Deadline::after(Duration::from_secs(60));
            SegmentStream::connect(far, terms(), spin, "far".into(), deadline).unwrap()
        });
        while !far.is_finished() {
            assert_eq!(near.recv(&mut [0], Wait::No).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
        let far = far.join().unwrap();
        (near, far)
    })
}

/// Writes into the segment of the other side.
fn scribble(far: &SegmentStream<Terms>, word: Word, value: u32) {
    far.ring.get().unwrap().outward().store(word, value);
}

#[test]
fn a_head_that_cannot_be_is_an_error() {
    for wait in [Wait::No, Wait::Block] {
        let (near, far) = pair();
        scribble(&far, Word::Head, 5000);
        assert_eq!(near.recv(&mut [0; 9], wait).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
    // The same for a receiver that sleeps already and that the hostile peer wakes.
    let (near, far) = pair();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| near.recv(&mut [0; 9], Wait::Block));
        std::thread::sleep(Duration::from_millis(5));
        scribble(&far, Word::Head, u32::MAX);
        far.ring.get().unwrap().outward().wake(Word::Head);
        far.ring.get().unwrap().outward().ring_doorbell();
        assert_eq!(waiting.join().unwrap().unwrap_err().kind(), io::ErrorKind::InvalidData);
    });
}

#[test]
fn a_credit_that_cannot_be_is_an_error_and_a_frozen_one_a_time_out() {
    let (near, far) = pair();
    near.set_send_timeout(Some(Duration::from_millis(20))).unwrap();
    let block = [IoSlice::new(&[1; 4096])];
    assert_eq!(near.send(&block, Wait::Block).unwrap(), 4096);
    assert_eq!(near.send(&block, Wait::No).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    assert_eq!(near.send(&block, Wait::Block).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    scribble(&far, Word::Credit, 4097);
    for wait in [Wait::No, Wait::Block] {
        assert_eq!(near.send(&block, wait).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}

/// Only the timeout monitor can wake the sender here: the peer sends no signal, and the sender's
/// own checks are an hour apart.
#[test]
fn a_sender_without_room_is_woken_when_the_peer_is_gone() {
    for asleep in [false, true] {
        let (near, far) = pair();
        let near = Arc::new(near);
        let (ended, end) = std::sync::mpsc::channel();
        std::thread::spawn({
            let near = near.clone();
            move || ended.send(near.send(&[IoSlice::new(&[1; 8192])], Wait::Block))
        });
        let monitored = near.monitored.get().unwrap();
        while asleep && !monitored.wants_room() {
            std::thread::yield_now();
        }
        // As when its process is killed: the segments stay as they are.
        rustix::net::shutdown(&*far.socket, Shutdown::Both).unwrap();
        let ended = end.recv_timeout(Duration::from_secs(60)).expect("the writer was woken");
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}

#[test]
fn writes_of_a_hostile_peer_cause_at_worst_an_error() {
    let stop = AtomicBool::new(false);
    let mut errors = 0;
    std::thread::scope(|scope| {
        let (peers, hostile) = std::sync::mpsc::channel::<Arc<SegmentStream<Terms>>>();
        let stop = &stop;
        scope.spawn(move || {
            let mut x = 88172645463325252u64;
            let mut peer: Option<Arc<SegmentStream<Terms>>> = None;
            while !stop.load(Acquire) {
                peer = hostile.try_recv().ok().or(peer);
                let Some(peer) = &peer else { continue };
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                let outward = peer.ring.get().unwrap().outward();
                let value = if x & 64 == 0 { (x >> 32) as u32 } else { (x >> 32) as u32 % 6000 };
                match x % 8 {
                    0 => outward.store(Word::Credit, value),
                    1 => outward.store(Word::Reader, value),
                    2 => outward.store(Word::Writer, value),
                    3 => outward.store(Word::Processor, value),
                    4 => outward.write(value % 4000, &x.to_ne_bytes()),
                    5 => outward.ring_doorbell(),
                    6 => outward.wake(Word::Head),
                    _ => outward.store(Word::Head, value),
                }
            }
        });
        for round in 0..300 {
            let (near, far) = pair();
            if round % 3 == 0 {
                near.watched();
            }
            peers.send(Arc::new(far)).unwrap();
            near.set_recv_timeout(Some(Duration::from_millis(1))).unwrap();
            near.set_send_timeout(Some(Duration::from_millis(1))).unwrap();
            let wait = if round % 2 == 0 { Wait::Block } else { Wait::No };
            for _ in 0..50 {
                let mut into = [0; 700];
                let ended = |error: io::Error| !matches!(error.kind(), io::ErrorKind::WouldBlock);
                if near.recv(&mut into, wait).map(|n| assert!(n <= 700)).is_err_and(ended)
                    || near
                        .send(&[IoSlice::new(&[3; 900])], wait)
                        .map(|n| assert!(n <= 900))
                        .is_err_and(ended)
                {
                    errors += 1;
                    break;
                }
            }
        }
        stop.store(true, Release);
    });
    assert!(errors > 0, "the hostile peer did nothing");
}

const NEVER_SLEEPS: Spin = Spin { limit: None, never_sleep: true };
/// A processor that no machine has.
const ELSEWHERE: u32 = 1 << 20;

/// Beside other programs the receiver may not have got to its sleep.
fn until(slept: impl Fn() -> bool) {
    while !slept() {}
}

/// Whether a send finds the receiver asleep, if it comes so late that it would sleep by then.
fn sleeps(spin: Spin, peer_at: impl Fn() -> u32 + Sync) -> bool {
    let (near, far) = pair_that_spins(spin);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            isorb_rt::sched::set_current_cpus(&isorb_rt::sched::Cpus::one(0)).unwrap();
            scribble(&far, Word::Processor, peer_at());
            near.recv(&mut [0], Wait::Block)
        });
        std::thread::sleep(Duration::from_millis(30));
        far.send(&[IoSlice::new(b"x")], Wait::Block).unwrap();
        assert_eq!(waiting.join().unwrap().unwrap(), 1);
    });
    far.ring.get().unwrap().take_woke()
}

#[test]
fn a_thread_that_never_sleeps_sleeps_only_beside_its_peer() {
    assert!(!sleeps(NEVER_SLEEPS, || ELSEWHERE));
    until(|| sleeps(NEVER_SLEEPS, current_processor));
    // The control: a limit ends the spin.
    until(|| sleeps(Spin::up_to(Duration::from_micros(5)), || ELSEWHERE));
}

#[test]
fn a_thread_that_never_sleeps_keeps_its_time_out_and_ends_with_its_peer() {
    let (near, far) = pair_that_spins(NEVER_SLEEPS);
    scribble(&far, Word::Processor, ELSEWHERE);
    near.set_recv_timeout(Some(Duration::from_millis(20))).unwrap();
    assert_eq!(near.recv(&mut [0], Wait::Block).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    near.set_recv_timeout(None).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| near.recv(&mut [0], Wait::Block));
        // As when its process is killed: the segments stay as they are.
        rustix::net::shutdown(&*far.socket, Shutdown::Both).unwrap();
        assert_eq!(waiting.join().unwrap().unwrap(), 0);
    });
}

#[test]
fn a_receiver_about_to_sleep_is_woken_when_a_side_closes() {
    for round in 0..600u32 {
        let (near, far) = pair();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| near.recv(&mut [0; 9], Wait::Block));
            // Anywhere from before its first check until after it began to sleep.
            (0..(round % 60) * 20).for_each(|_| std::hint::spin_loop());
            match round % 3 {
                0 => far.shutdown(),
                1 => near.shutdown(),
                _ => drop(far),
            }
            assert_eq!(waiting.join().unwrap().unwrap(), 0);
        });
    }
}

#[test]
fn no_time_out_of_many_receivers_is_early() {
    let pairs: Vec<_> = (0..6).map(|_| pair()).collect();
    std::thread::scope(|scope| {
        // Later sleeps are due earlier, so the monitor must be woken.
        for (i, (near, _far)) in pairs.iter().enumerate() {
            let limit = Duration::from_millis(300 - 40 * i as u64);
            scope.spawn(move || {
                near.set_recv_timeout(Some(limit)).unwrap();
                let start = now_ns();
                assert_eq!(near.recv(&mut [0], Wait::Block).unwrap_err().kind(), io::ErrorKind::WouldBlock);
                assert!(now_ns() - start >= limit.as_nanos() as u64);
            });
            std::thread::sleep(Duration::from_millis(2));
        }
        // And one of more than a second, by the coarse clock.
        let (near, _far) = pair();
        let limit = Duration::from_millis(1_001);
        near.set_recv_timeout(Some(limit)).unwrap();
        let start = now_ns();
        assert_eq!(near.recv(&mut [0], Wait::Block).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert!(now_ns() - start >= limit.as_nanos() as u64);
    });
}
