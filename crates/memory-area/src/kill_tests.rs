//! Processes killed between any two steps: the area stays readable with its last complete value,
//! and the next writer goes on.
//!
//! A test starts this test program again as the victim, which is handed the segment as a
//! descriptor, counts the steps of the protocol and kills itself before the chosen one.

use crate::fail_points::{FailPoint, HOOK};
use crate::{ClaimError, Geometry, ReadError, Segment, State};
use rustix::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::cell::Cell;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

const SIZE: usize = 100;
const FD: &str = "ISORB_CRM_TEST_FD";
const AT: &str = "ISORB_CRM_TEST_AT";
const ROLE: &str = "ISORB_CRM_TEST_ROLE";

thread_local! {
    static LEFT: Cell<usize> = const { Cell::new(0) };
}

fn kill_at_the_chosen_step(_: FailPoint) {
    let left = LEFT.get();
    if left == 0 {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        // Until the signal is delivered.
        loop {
            std::thread::yield_now();
        }
    }
    LEFT.set(left - 1);
}

/// Value `n`, which can be told from a mixture of two.
fn value(n: u64) -> [u8; SIZE] {
    [n as u8 ^ 0x5a; SIZE]
}

/// Runs in the second process only; as a test of its own it has nothing to do.
#[test]
fn victim() {
    let Ok(fd) = std::env::var(FD) else { return };
    // The descriptor was inherited for this purpose; no other code of this process knows it.
    #[allow(unsafe_code)]
    // SAFETY: the parent left this descriptor open for us, and this is the only place that takes
    // it.
    let file = unsafe { OwnedFd::from_raw_fd(fd.parse().unwrap()) };
    let segment = Segment::attach(file).unwrap();
    LEFT.set(std::env::var(AT).unwrap().parse().unwrap());
    let mut out = [0; SIZE];
    if std::env::var(ROLE).unwrap() == "writer" {
        let mut writer = segment.writer().unwrap();
        HOOK.set(Some(kill_at_the_chosen_step));
        for _ in 0..2 {
            let n = writer.sequence() + 1;
            writer.write_at(&value(n), n).unwrap();
        }
    } else {
        let mut reader = segment.reader().unwrap();
        HOOK.set(Some(kill_at_the_chosen_step));
        for _ in 0..2 {
            reader.latest(&mut out).unwrap();
        }
    }
    HOOK.set(None);
}

/// Starts a victim that dies before step `at`; says whether it did (otherwise it came to its end).
fn run(segment: &Segment, role: &str, at: usize) -> bool {
    let file = segment.writable_fd().unwrap();
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill_tests::victim", "--test-threads", "1"])
        .envs([(FD, file.as_raw_fd().to_string()), (AT, at.to_string()), (ROLE, role.into())])
        .stdout(Stdio::null())
        .status()
        .unwrap();
    match status.signal() {
        Some(signal) => {
            assert_eq!(signal, 9);
            true
        }
        None => {
            assert!(status.success(), "the victim failed instead of being killed");
            false
        }
    }
}

#[test]
fn a_writer_killed_at_any_step_leaves_its_last_complete_value() {
    let segment = Segment::create("kill", Geometry::new(SIZE, 1).unwrap()).unwrap();
    segment.writer().unwrap().write_at(&value(1), 1).unwrap();
    let mut reader = segment.reader().unwrap();
    let mut out = [0; SIZE];
    let mut deaths = 0;
    while run(&segment, "writer", deaths) {
        deaths += 1;
        let before = reader.seen();
        let sample = reader.latest(&mut out).unwrap();
        assert!(sample.sequence >= before);
        assert_eq!((out, sample.len), (value(sample.sequence), SIZE));
        assert_eq!(sample.written_ns, sample.sequence);
        // The claim died with the process.
        let mut next = segment.writer().unwrap();
        assert!(next.sequence() >= sample.sequence, "nothing that could be read is taken back");
        let n = next.sequence() + 1;
        assert_eq!(next.write_at(&value(n), n).unwrap(), n);
        assert_eq!(reader.latest(&mut out).unwrap().sequence, n);
        assert_eq!(out, value(n));
    }
    assert!(deaths >= 12, "two values of at least six steps, not {deaths}");
}

#[test]
fn a_reader_killed_at_any_step_disturbs_no_other() {
    let segment = Segment::create("kill", Geometry::new(SIZE, 0).unwrap()).unwrap();
    let mut writer = segment.writer().unwrap();
    writer.write_at(&value(1), 1).unwrap();
    let mut deaths = 0;
    while run(&segment, "reader", deaths) {
        deaths += 1;
        let n = writer.sequence() + 1;
        writer.write_at(&value(n), n).unwrap();
        let mut out = [0; SIZE];
        assert_eq!(segment.reader().unwrap().latest(&mut out).unwrap().sequence, n);
        assert_eq!(out, value(n));
    }
    assert!(deaths >= 8, "two reads of at least four steps, not {deaths}");
}

/// All a process with the right to write can do is write: whatever stands in the segment, reading
/// ends, with a value or an error.
#[test]
fn a_process_that_scribbles_is_survived() {
    use isorb_rt::sync::atomic::Ordering::Relaxed;
    let geometry = Geometry::new(SIZE, 2).unwrap();
    let segment = Segment::create("scribble", geometry).unwrap();
    let mut writer = segment.writer().unwrap();
    let mut reader = segment.reader().unwrap();
    let mut out = [0; SIZE];
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut damaged = 0;
    for round in 0..20_000u32 {
        let _ = writer.write(&value(u64::from(round)));
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        segment.scribble(
            random as usize,
            if round % 3 == 0 { u64::MAX } else { random.rotate_left(17) },
            Relaxed,
        );
        for _ in 0..2 {
            damaged += usize::from(reader.latest(&mut out) == Err(ReadError::Damaged));
            damaged += usize::from(reader.next(&mut out) == Err(ReadError::Damaged));
            let _ = reader.history(1, &mut out);
            let _ = reader.wait(isorb_rt::time::Deadline::PAST);
            let _ = reader.read_with(|view| view.len());
        }
        if round % 100 == 0 {
            // A new writer finds whatever it finds, and goes on.
            drop(writer);
            assert!(!matches!(segment.writer(), Err(ClaimError::Taken)));
            writer = segment.writer().unwrap();
        }
    }
    assert!(damaged > 0, "some of it must have been seen");
    segment.set_state(State::Open).unwrap();
}
