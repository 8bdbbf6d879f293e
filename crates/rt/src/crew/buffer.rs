//! Requests that wait for a place: a bounded heap, the most urgent on top, in the order of their coming where they are equally urgent.

use super::Room;
use crate::priority::Priority;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

pub(super) struct Buffer<T> {
    room: Room,
    requests: BinaryHeap<Waiting<T>>,
    bytes: usize,
    /// How many came ever.
    came: u64,
}

struct Waiting<T> {
    /// What has no priority is behind all that has.
    rank: (Option<Priority>, Reverse<u64>),
    bytes: usize,
    request: T,
}

impl<T> Buffer<T> {
    pub fn new(room: Room) -> Buffer<T> {
        let requests = BinaryHeap::with_capacity(room.requests);
        Buffer { room, requests, bytes: 0, came: 0 }
    }

    pub fn has_room(&self, bytes: usize) -> bool {
        self.requests.len() < self.room.requests && bytes <= self.room.bytes - self.bytes
    }

    /// The caller has looked whether there is room.
    pub fn push(&mut self, bytes: usize, urgency: Option<Priority>, request: T) {
        let rank = (urgency, Reverse(self.came));
        self.came += 1;
        self.bytes += bytes;
        self.requests.push(Waiting { rank, bytes, request });
    }

    pub fn pop(&mut self) -> Option<T> {
        let Waiting { bytes, request, .. } = self.requests.pop()?;
        self.bytes -= bytes;
        Some(request)
    }

    pub fn take_all(&mut self) -> Vec<T> {
        self.bytes = 0;
        std::mem::take(&mut self.requests).into_iter().map(|waiting| waiting.request).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    pub fn len(&self) -> usize {
        self.requests.len()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl<T> Ord for Waiting<T> {
    fn cmp(&self, other: &Waiting<T>) -> Ordering {
        self.rank.cmp(&other.rank)
    }
}

impl<T> PartialOrd for Waiting<T> {
    fn partial_cmp(&self, other: &Waiting<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Waiting<T> {
    fn eq(&self, other: &Waiting<T>) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Waiting<T> {}
