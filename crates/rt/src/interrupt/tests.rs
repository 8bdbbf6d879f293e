//! With the kernel's signals.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::{ClockId, NanosleepRelativeResult, clock_nanosleep_relative};
use rustix::time::Timespec;

use super::*;
use crate::net::{Wait, recv_into};
use crate::sync::futex::thread_id;
use crate::testing::in_thread;
use crate::time::{Deadline, now_ns};

fn patience() -> Deadline {
    Deadline::after(Duration::from_secs(60))
}

fn interrupter() -> Interrupter {
    Interrupter::new(Signal::of_the_process().expect("a real-time signal is free"))
}

/// What this process does at a signal, blocks in this thread, or has waiting for it.
fn mask(line: &str, signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let set = status.lines().find_map(|of| of.strip_prefix(line)).unwrap();
    u64::from_str_radix(set.trim(), 16).unwrap() & 1 << (signal - 1) != 0
}

fn block(signal: Signal, blocked: bool) {
    let how = if blocked { libc::SIG_BLOCK } else { libc::SIG_UNBLOCK };
    // SAFETY: an empty set, to which the signal is added, lives during the calls.
    unsafe {
        let mut set = core::mem::zeroed();
        libc::sigaddset(&mut set, signal.number());
        assert_eq!(libc::pthread_sigmask(how, &set, core::ptr::null_mut()), 0);
    }
}

/// A short call that a signal interrupts.
fn is_interrupted() -> bool {
    let moment = Timespec { tv_sec: 0, tv_nsec: 20_000 };
    matches!(clock_nanosleep_relative(ClockId::Monotonic, &moment), NanosleepRelativeResult::Interrupted(_))
}

#[test]
fn the_signal_is_a_free_one_and_is_decided_once() {
    let (low, high) = (libc::SIGRTMIN(), libc::SIGRTMAX());
    let signal = Signal::of_the_process().unwrap();
    assert_eq!(Signal::of_the_process(), Some(signal));
    assert!((low..=high - 3).contains(&signal.number()));
    assert!(mask("SigCgt:", signal.number()), "it has a handler");
    assert_eq!(Choice::Number(signal.number()).decide(), Ok(()));
    assert_eq!(Choice::Number(low).decide(), Err(ChoiceError::Decided(signal.number())));
    Choice::Auto.decide().unwrap();
    assert_eq!("auto".parse(), Ok(Choice::Auto));
    assert_eq!("none".parse(), Ok(Choice::None));
    assert_eq!(low.to_string().parse(), Ok(Choice::Number(low)));
    for wrong in ["10", "65", "", "-1", "SIGUSR1"] {
        assert_eq!(wrong.parse::<Choice>(), Err(ChoiceError::Unknown(low, high)), "{wrong}");
    }
}

#[test]
fn a_blocked_receive_ends() {
    let (waits, by) = (Arc::new(InterruptibleWait::new()), Arc::new(interrupter()));
    let (wait, its) = (waits.clone(), by.clone());
    let receives = thread::spawn(move || {
        let (a, _b) = UnixStream::pair().unwrap();
        wait.begin(&its, 1234);
        let got = recv_into(&a, &mut [0], Wait::Allowed);
        wait.end(&its);
        (got, is_interrupted())
    });
    let end = patience();
    // The first ones may come before the call.
    while !receives.is_finished() {
        assert!(!end.is_past(), "nothing ends the receive");
        if by.interrupt(&waits) {
            assert!(matches!(waits.until(), None | Some(1234)));
        }
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(receives.join().unwrap(), (Err(Errno::INTR), false));
    assert_eq!(waits.until(), None);
    assert!(!by.interrupt(&waits));
}

/// Waits and makes calls of its own in turns while another interrupts, once a turn, with or without the handshake; how many of those calls
/// were interrupted when `enough` signals were sent, or one was; `None` where the threads did not meet often enough in a while, as on one busy
/// processor. More signals than one a turn would queue up, and a thread that has a new one whenever it has handled one does nothing else.
fn interrupted(handshake: bool, enough: u32) -> Option<u32> {
    let (wait, by) = (InterruptibleWait::new(), interrupter());
    let (sent, turn, done) = (AtomicU32::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let thread = AtomicU32::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut last = 0;
            while !done.load(Acquire) {
                let now = turn.load(Acquire);
                if now == last {
                    thread::yield_now();
                    continue;
                }
                // Anywhere in a turn.
                let at = now_ns() + now.wrapping_mul(7_919) % 12_000;
                while now_ns() < at && !done.load(Acquire) {
                    std::hint::spin_loop();
                }
                let is_sent = match handshake {
                    true => by.interrupt(&wait),
                    false => by.signal().send(thread.load(Acquire)),
                };
                // Where nobody waits, in the next wait.
                if is_sent {
                    last = now;
                    sent.fetch_add(1, Relaxed);
                }
            }
        });
        let (a, _b) = UnixStream::pair().unwrap();
        by.signal().unblock();
        thread.store(thread_id(), Release);
        let end = Deadline::after(Duration::from_secs(20));
        let mut interrupted = 0;
        while sent.load(Relaxed) < enough && !end.is_past() && (handshake || interrupted == 0) {
            turn.fetch_add(1, Release);
            let from = now_ns();
            wait.begin(&by, from);
            // From none at all to long enough for a signal.
            while now_ns() - from < from % 8_000 {
                let _ = recv_into(&a, &mut [0], Wait::Never);
            }
            wait.end(&by);
            interrupted += u32::from(is_interrupted());
        }
        done.store(true, Release);
        let sent = sent.load(Relaxed);
        if sent < FEW && interrupted == 0 {
            println!("skipped: only {sent} signals were sent");
            return None;
        }
        Some(interrupted)
    })
}

/// So many signals show something.
const FEW: u32 = 300;

#[test]
fn no_other_call_is_interrupted() {
    assert!(matches!(in_thread(|| interrupted(true, 3_000)), None | Some(0)));
}

#[test]
fn without_the_handshake_others_are() {
    assert_ne!(in_thread(|| interrupted(false, u32::MAX)), Some(0));
}

#[test]
fn a_thread_that_blocks_the_signal_is_left_none() {
    in_thread(|| {
        let (wait, by) = (InterruptibleWait::new(), interrupter());
        let signal = by.signal();
        block(signal, true);
        // As if it had been asked for before.
        wait.announce(thread_id(), 1234);
        for _ in 0..3 {
            thread::scope(|scope| assert!(scope.spawn(|| by.interrupt(&wait)).join().unwrap()));
        }
        assert!(mask("SigPnd:", signal.number()) && by.reach(&wait) == Reach::Shut);
        wait.end(&by);
        assert!(!mask("SigPnd:", signal.number()));
        assert!(mask("SigBlk:", signal.number()));
        // The first wait of a thread lets it through.
        wait.begin(&by, 1234);
        assert!(!mask("SigBlk:", signal.number()) && by.reach(&wait) == Reach::Open);
        wait.end(&by);
    });
}
