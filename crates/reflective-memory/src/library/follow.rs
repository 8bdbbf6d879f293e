//! A reader that follows its area from segment to segment.
//!
//! When the server of the reader's node is restarted, the reader gets another replica. That may
//! begin with values that were already read, on the ORB's paths with all that the writer's area
//! keeps. The reader stays with the former replica until the new one has caught up, and continues
//! there after the last value that it read. So no value is read twice or out of order.

use super::attached::Attachment;
use crate::memory::{Lease, ReadError, Reader, Sample, Signals, State, View, WaitError};
use isorb_rt::time::{Deadline, now_ns};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A replica that has values and has not caught up after this time never will: its writer's numbers
/// were lost.
const CATCH_UP_NS: u64 = 10_000_000_000;

/// The interval at which a thread that waits for several areas checks for a segment that the server
/// is about to hand over: no area announces it.
const HANDED_OVER: Duration = Duration::from_millis(10);

pub(super) struct FollowingReader {
    reader: Reader,
    /// The number of the last value that was read, as the writer's node counts; 0 for none.
    read: u64,
    /// The count of the attachment's moves that were followed.
    moves: u64,
    next: Option<Next>,
}

/// A segment that has not caught up yet.
struct Next {
    reader: Reader,
    /// The time of its first value.
    begun_ns: Option<u64>,
}

impl FollowingReader {
    pub fn new(reader: Reader, moves: u64) -> FollowingReader {
        FollowingReader { reader, read: 0, moves, next: None }
    }

    /// The reader of the segment that the server fills now. One load when it is the same.
    #[inline]
    pub fn follow(&mut self, attachment: &Attachment) -> &mut Reader {
        if self.moves != attachment.moves.load(Ordering::Acquire) || self.next.is_some() {
            self.find_next(attachment);
            self.go_over();
        }
        &mut self.reader
    }

    #[cold]
    fn find_next(&mut self, attachment: &Attachment) {
        let segment = attachment.segment.lock();
        let moves = attachment.moves.load(Ordering::Acquire);
        if self.moves != moves
            && let Ok(reader) = segment.reader()
        {
            self.moves = moves;
            self.next = Some(Next { reader, begun_ns: None });
        }
    }

    /// Leaves the former segment once the new one has caught up.
    #[cold]
    fn go_over(&mut self) {
        let Some(next) = &mut self.next else { return };
        if self.reader.identity() != next.reader.identity() {
            // Another area of that name.
            self.read = 0;
        } else if self.read > 0 {
            let Some(now) = next.reader.latest_source() else { return };
            let begun_ns = *next.begun_ns.get_or_insert_with(now_ns);
            let before = self.reader.latest_source().unwrap_or(0);
            if now < before.max(self.read) && now_ns().saturating_sub(begun_ns) < CATCH_UP_NS {
                return;
            }
        }
        if let Some(mut next) = self.next.take() {
            next.reader.continue_after(self.read);
            self.reader = next.reader;
        }
    }

    pub fn latest(&mut self, attachment: &Attachment, out: &mut [u8]) -> Result<Sample, ReadError> {
        let sample = self.follow(attachment).latest(out)?;
        self.read = sample.source;
        Ok(sample)
    }

    pub fn read_with<T>(
        &mut self,
        attachment: &Attachment,
        read: impl FnMut(View<'_>) -> T,
    ) -> Result<(T, Sample), ReadError> {
        let (seen, sample) = self.follow(attachment).read_with(read)?;
        self.read = sample.source;
        Ok((seen, sample))
    }

    pub fn lease(&mut self, attachment: &Attachment) -> Result<Lease, ReadError> {
        let lease = self.follow(attachment).lease()?;
        self.read = lease.sample().source;
        Ok(lease)
    }

    pub fn next(&mut self, attachment: &Attachment, out: &mut [u8]) -> Result<Option<Sample>, ReadError> {
        if self.moves != attachment.moves.load(Ordering::Acquire) {
            self.find_next(attachment);
        }
        // Unread values of the former segment come first.
        let left = self.next.is_some() && self.reader.has_new();
        let reader = if left { &mut self.reader } else { self.follow(attachment) };
        let sample = reader.next(out)?;
        self.read = sample.map_or(self.read, |sample| sample.source);
        Ok(sample)
    }

    /// As [`Reader::wait`], across a change of the segment.
    pub fn wait(&mut self, attachment: &Attachment, end: Deadline) -> Result<(), WaitError> {
        loop {
            // A later value ends the wait below.
            let seen = self.next.as_ref().map_or(0, |next| next.reader.sequence());
            self.follow(attachment);
            let woken = match &mut self.next {
                Some(_) if self.reader.has_new() => return Ok(()),
                Some(next) => {
                    next.reader.skip_to(seen);
                    next.reader.wait(end)
                }
                None => match self.reader.wait(end) {
                    moved @ Err(WaitError::Changed(State::Moved)) => moved,
                    other => return other,
                },
            };
            match woken {
                // The loop checks whether it was read before.
                Ok(()) => {}
                Err(WaitError::Changed(State::Moved)) if end.is_past() => return Err(WaitError::TimedOut),
                Err(WaitError::Changed(State::Moved)) => attachment.await_move(self.moves, end),
                Err(other) => return Err(other),
            }
        }
    }

    /// Adds the segment that changes next, and says when to look without a change.
    pub fn add_to(&mut self, attachment: &Attachment, signals: &mut Signals) -> Deadline {
        self.follow(attachment);
        let reader = self.next.as_ref().map_or(&self.reader, |next| &next.reader);
        signals.add(reader);
        // A replica that has not caught up is also left when its time is over.
        let is_leaving = self.next.is_some() || reader.state() == Some(State::Moved);
        if is_leaving { Deadline::after(HANDED_OVER) } else { Deadline::NONE }
    }

    /// Bytes of the largest value.
    pub fn size(&self) -> usize {
        self.reader.geometry().size()
    }

    /// The area's state, in the segment that the server fills now.
    pub fn state(&mut self, attachment: &Attachment) -> Option<State> {
        self.follow(attachment);
        self.next.as_ref().map_or(&self.reader, |next| &next.reader).state()
    }
}
