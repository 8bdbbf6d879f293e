//! The latest numbers, which the sampler writes and connections read.

use crate::Source;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Default)]
pub(crate) struct SampleBoard {
    inner: Mutex<Inner>,
    /// Signals a new viewer, new numbers, or the end.
    changed: Condvar,
}

#[derive(Default)]
struct Inner {
    text: Arc<str>,
    number: u64,
    at: Option<Instant>,
    readers: usize,
    stopped: bool,
}

/// A viewer. Numbers are sampled while there is at least one.
pub(crate) struct BoardReader<'b> {
    board: &'b SampleBoard,
    seen: u64,
}

impl SampleBoard {
    /// Samples while there is a viewer, until the end.
    pub fn fill(&self, mut source: impl Source, interval: Duration) {
        loop {
            let mut inner = self.lock();
            while !inner.stopped && inner.readers == 0 {
                inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
            }
            if inner.stopped {
                return;
            }
            drop(inner);
            let text: Arc<str> = source.sample().into();
            let mut inner = self.lock();
            inner.text = text;
            inner.number += 1;
            let now = Instant::now();
            inner.at = Some(now);
            self.changed.notify_all();
            let until = now + interval;
            while !inner.stopped {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                inner = self.changed.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    /// Adds a viewer. Its numbers are no older than `fresh`.
    pub fn subscribe(&self, fresh: Duration) -> BoardReader<'_> {
        let mut inner = self.lock();
        inner.readers += 1;
        self.changed.notify_all();
        let known = inner.at.is_some_and(|at| at.elapsed() <= fresh);
        let seen = if known { inner.number - 1 } else { inner.number };
        BoardReader { board: self, seen }
    }

    pub fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    pub fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Each change is complete before a panic can unwind.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BoardReader<'_> {
    /// Waits for numbers that it has not read. `None` at the end, or after the time-out.
    pub fn next(&mut self, timeout: Duration) -> Option<Arc<str>> {
        let until = Instant::now() + timeout;
        let mut inner = self.board.lock();
        loop {
            if inner.stopped {
                return None;
            }
            if inner.number > self.seen {
                self.seen = inner.number;
                return Some(inner.text.clone());
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let (again, _) =
                self.board.changed.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner);
            inner = again;
        }
    }
}

impl Drop for BoardReader<'_> {
    fn drop(&mut self) {
        self.board.lock().readers -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    struct Count(Arc<AtomicU64>);

    impl Source for Count {
        fn sample(&mut self) -> String {
            (self.0.fetch_add(1, Ordering::SeqCst) + 1).to_string()
        }
    }

    #[test]
    fn nothing_is_sampled_without_a_viewer() {
        let (board, sampled) = (Arc::new(SampleBoard::default()), Arc::new(AtomicU64::new(0)));
        let (filler, source) = (board.clone(), Count(sampled.clone()));
        let thread = std::thread::spawn(move || filler.fill(source, Duration::from_millis(1)));
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(sampled.load(Ordering::SeqCst), 0);
        let timeout = Duration::from_secs(60);
        let mut reader = board.subscribe(Duration::ZERO);
        let first: u64 = reader.next(timeout).unwrap().parse().unwrap();
        let second: u64 = reader.next(timeout).unwrap().parse().unwrap();
        assert!(first < second);
        let mut late = board.subscribe(Duration::from_secs(3600));
        assert!(late.next(Duration::ZERO).is_some(), "fresh enough");
        board.stop();
        assert_eq!(reader.next(timeout), None);
        thread.join().unwrap();
    }
}
