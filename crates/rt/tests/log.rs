//! Log records of a process as its operator sees them: on standard error that is read, closed,
//! full or never read, and in sinks of the program. Each test starts itself again as the process.

use isorb_rt::log;
use isorb_testkit::{threads_in_write, wait_until};
use std::io::{self, PipeReader, Read, pipe};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

const CHILD: &str = "ISORB_RT_LOG_CHILD";
const A_MINUTE: Duration = Duration::from_secs(60);

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Starts this test again, with this standard error.
fn child(stderr: impl Into<Stdio>, levels: &str) -> Child {
    let test = std::thread::current().name().unwrap().to_owned();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &test, "--nocapture", "--test-threads", "1"]);
    command.env(CHILD, "yes").env("ISORB_LOG", levels).stdin(Stdio::piped());
    command.stdout(Stdio::null()).stderr(stderr).spawn().unwrap()
}

/// Runs this test again, and returns what it wrote to standard error.
fn records(levels: &str) -> Vec<String> {
    let output = child(Stdio::piped(), levels).wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}");
    text.lines().map(str::to_owned).collect()
}

/// The sum of the counts in records of the log itself.
fn sum<L: AsRef<str>>(lines: impl Iterator<Item = L>, what: &str) -> u64 {
    let counts = lines.filter_map(|line| {
        let rest = line.as_ref().split_once("isorb::log: ")?.1.strip_prefix(what)?;
        Some(rest.split(' ').next()?.parse::<u64>().unwrap())
    });
    counts.sum()
}

/// A pipe of one page: a few long records fill it.
fn small_pipe() -> (PipeReader, io::PipeWriter) {
    let (reader, writer) = pipe().unwrap();
    // SAFETY: it changes the size of a pipe that this function owns.
    assert!(unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) } >= 4096);
    (reader, writer)
}

/// Blocks until the parent closes this process's standard input.
fn await_parent() {
    let _ = io::stdin().read(&mut [0]);
}

fn thread_names() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    tasks
        .flat_map(|task| std::fs::read_to_string(task.path().join("comm")))
        .map(|name| name.trim().into())
        .collect()
}

/// Writes a long record from a call site of its own, so that no limit of call sites applies.
macro_rules! long_record {
    ($count:expr) => {{
        let text = "x".repeat(900);
        for number in 0..$count {
            log::warn("test", format_args!("{number} {text}"));
        }
    }};
}

#[test]
fn records_of_a_process_that_ends_at_once_are_lines_in_order() {
    if is_child() {
        assert!(!thread_names().contains(&"isorb-log".into()), "no record, no thread");
        log::info("a::b", format_args!("first"));
        log::debug("a::b", format_args!("second"));
        log::debug("a", format_args!("not enabled"));
        wait_until("the first record starts the thread", || thread_names().contains(&"isorb-log".into()));
        log::set_levels("off,c=error").unwrap();
        log::error("a", format_args!("not enabled any more"));
        log::error("c", format_args!("last\nline"));
        return;
    }
    let lines = records("info,a::b=debug");
    let texts: Vec<_> = lines.iter().map(|line| line.split_once("Z ").unwrap().1).collect();
    assert_eq!(texts, ["INFO a::b: first", "DEBUG a::b: second", "ERROR c: last line"]);
    let times: Vec<_> = lines.iter().map(|line| line.split_once(' ').unwrap().0).collect();
    assert!(times.is_sorted() && times.iter().all(|time| time.len() == 27), "{times:?}");
}

#[test]
fn an_unknown_level_is_said_with_the_levels_that_there_are() {
    if is_child() {
        return log::info("a", format_args!("written all the same"));
    }
    let lines = records("loud").join("\n");
    for part in ["ISORB_LOG: 'loud' is no level", "off, error, warn, info and debug", "written all the same"]
    {
        assert!(lines.contains(part), "{part}: {lines}");
    }
}

#[test]
fn a_call_site_that_writes_too_much_does_not_silence_another_one() {
    if is_child() {
        for number in 0..1000 {
            log::warn("noisy", format_args!("{number}"));
            assert!(log::flush(A_MINUTE));
        }
        log::warn("quiet", format_args!("heard"));
        return;
    }
    let lines = records("info");
    assert!(lines.iter().any(|line| line.ends_with("quiet: heard")), "{lines:#?}");
    let noisy = lines.iter().filter(|line| line.contains(" noisy: ")).count() as u64;
    assert_eq!(noisy + sum(lines.iter(), "records suppressed: "), 1000, "{lines:#?}");
}

#[test]
fn threads_that_log_to_a_full_pipe_never_wait_and_drops_are_said() {
    if is_child() {
        // The limit of one call site would apply before the pipe and the ring are full.
        long_record!(20);
        long_record!(20);
        let others: Vec<_> =
            (0..20).map(|_| std::thread::spawn(|| log::warn("others", format_args!("y")))).collect();
        others.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(!log::flush(Duration::from_millis(1)) && log::counts().dropped > 0);
        drop(std::fs::File::create(std::env::temp_dir().join(marker(std::process::id()))));
        return await_parent();
    }
    let (mut reader, writer) = small_pipe();
    let mut child = child(writer, "info");
    let done = std::env::temp_dir().join(marker(child.id()));
    // Without a ring the child never gets so far: its main thread waits in the write.
    wait_until("all records are written or dropped", || {
        done.exists() && !threads_in_write(child.id(), 2).is_empty()
    });
    std::fs::remove_file(done).unwrap();
    assert_eq!(threads_in_write(child.id(), 2), ["isorb-log"]);
    drop(child.stdin.take());
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success(), "{text}");
    let written = text.lines().filter(|line| line.contains(" test: ") || line.contains(" others: ")).count();
    assert_eq!(written as u64 + sum(text.lines(), "records dropped: "), 60, "{text}");
}

fn marker(process: u32) -> String {
    format!("isorb-log-test-{process}")
}

#[test]
fn a_closed_pipe_costs_the_records_only() {
    if is_child() {
        log::warn("a", format_args!("without a reader"));
        assert!(log::flush(A_MINUTE));
        assert_eq!(log::counts().dropped, 1);
        return;
    }
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    assert!(child(writer, "info").wait().unwrap().success());
}

#[test]
fn a_sink_may_fail_panic_and_never_return() {
    if !is_child() {
        let lines = records("info");
        let texts: Vec<_> = lines.iter().map(|line| line.split_once("Z ").unwrap().1).collect();
        assert_eq!(
            (texts[0], texts.len(), sum(lines.iter(), "records dropped: ")),
            ("INFO a: standard error", 2, 1)
        );
        return;
    }
    struct Sink(u32, mpsc::Sender<String>);
    impl log::Sink for Sink {
        fn write(&mut self, record: &log::Record<'_>) -> io::Result<()> {
            self.0 += 1;
            match self.0 {
                1 => return Err(io::ErrorKind::BrokenPipe.into()),
                2 => panic!("in a sink"),
                _ => {}
            }
            self.1.send(format!("{} {}", record.target(), record.text())).map_err(io::Error::other)
        }
    }
    // The default hook would print the sink's panic.
    std::panic::set_hook(Box::new(|_| ()));
    let (sender, sent) = mpsc::channel();
    log::set_sink(Box::new(Sink(0, sender)));
    for text in ["fails", "panics", "goes on"] {
        log::info("a", format_args!("{text}"));
        assert!(log::flush(A_MINUTE));
    }
    let taken: Vec<_> = sent.try_iter().collect();
    assert_eq!((&*taken[0], taken.len()), ("a goes on", 2));
    assert!(taken[1].starts_with("isorb::log records dropped: 2 "), "{taken:?}");
    drop(sent);
    log::info("a", format_args!("no receiver"));
    assert!(log::flush(A_MINUTE));
    log::set_sink(Box::new(log::DefaultSink));
    log::info("a", format_args!("standard error"));
}

#[test]
fn the_child_of_a_fork_logs_for_itself() {
    if is_child() {
        log::info("a", format_args!("parent"));
        assert!(log::flush(A_MINUTE));
        // SAFETY: the child only writes a record and ends.
        let id = unsafe { libc::fork() };
        if id == 0 {
            log::info("a", format_args!("child"));
            let done = log::flush(A_MINUTE);
            // SAFETY: ends the process without the handlers of the parent.
            unsafe { libc::_exit(i32::from(!done)) };
        }
        let mut status = 0;
        // SAFETY: `status` is a number of this function.
        assert_eq!((unsafe { libc::waitpid(id, &raw mut status, 0) }, status), (id, 0));
        return log::info("a", format_args!("parent again"));
    }
    let lines = records("info");
    let texts: Vec<_> = lines.iter().map(|line| line.split_once("a: ").unwrap().1).collect();
    assert_eq!(texts, ["parent", "child", "parent again"]);
}

#[test]
fn records_go_to_the_logger_or_the_subscriber_of_the_program() {
    if !is_child() {
        assert_eq!(records("info"), ["logger: WARN a b", "subscriber: isorb WARN"]);
        return;
    }
    struct Logger;
    impl ::log::Log for Logger {
        fn enabled(&self, _: &::log::Metadata<'_>) -> bool {
            true
        }
        fn log(&self, record: &::log::Record<'_>) {
            eprintln!("logger: {} {} {}", record.level(), record.target(), record.args());
        }
        fn flush(&self) {}
    }
    struct Subscriber;
    impl tracing::Subscriber for Subscriber {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }
        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
        fn event(&self, event: &tracing::Event<'_>) {
            eprintln!("subscriber: {} {}", event.metadata().target(), event.metadata().level());
        }
        fn enter(&self, _: &tracing::span::Id) {}
        fn exit(&self, _: &tracing::span::Id) {}
    }
    ::log::set_logger(&Logger).unwrap();
    ::log::set_max_level(::log::LevelFilter::Info);
    log::warn("a", format_args!("b"));
    assert!(log::flush(A_MINUTE));
    tracing::subscriber::set_global_default(Subscriber).unwrap();
    log::warn("a", format_args!("c"));
}

#[test]
fn a_real_time_thread_starts_an_ordinary_drain_thread() {
    use isorb_rt::sched::{SchedClass, ThreadSpec};
    if is_child() {
        let spec = ThreadSpec::new("urgent").class(SchedClass::Fifo(1));
        let Ok(thread) = spec.spawn(|| log::info("a", format_args!("from a real-time thread"))) else {
            return eprintln!("a: skipped, no right to real-time scheduling");
        };
        thread.join().unwrap();
        assert!(log::flush(A_MINUTE));
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let is_drain = |task: &std::fs::DirEntry| {
            std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.trim() == "isorb-log")
        };
        let drain = tasks.into_iter().find(is_drain).unwrap().path();
        let stat = std::fs::read_to_string(drain.join("stat")).unwrap();
        // Field 41 is the policy; the second one, in parentheses, has no blank here.
        assert_eq!(stat.split_whitespace().nth(40), Some("0"), "{stat}");
        let status = std::fs::read_to_string(drain.join("status")).unwrap();
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap().trim();
        let blocked = u64::from_str_radix(blocked, 16).unwrap();
        let is_blocked = |signal: i32| blocked >> (signal - 1) & 1 == 1;
        assert!([libc::SIGTERM, libc::SIGINT, libc::SIGPIPE, libc::SIGUSR1].into_iter().all(is_blocked));
        return;
    }
    let lines = records("info");
    assert_eq!(lines.len(), 1, "{lines:#?}");
}
