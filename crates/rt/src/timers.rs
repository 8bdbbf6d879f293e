//! A timer heap of fixed capacity.

use core::fmt;

/// Values that fall due at points in time, the earliest first; those of one point in the order in which they were
/// inserted.
///
/// It has no clock: [`pop_due`](Self::pop_due) is told what time it is, so that what a timer drives can be tested in
/// virtual time. Points are nanoseconds on whatever clock the caller keeps (see [`now_ns`](crate::time::now_ns)). It
/// is not shared; its owner puts it under a lock or into a thread.
///
/// Inside is a heap with four children a node (shallower than with two, and the children share a cache line) over an
/// array of slots, which know where in the heap they are; so a timer can be cancelled, and its handle stays good for
/// that timer only.
///
/// ```
/// use isorb_rt::timers::TimerHeap;
///
/// let mut timers = TimerHeap::with_capacity(2);
/// let late = timers.insert(900, "late").unwrap();
/// timers.insert(300, "soon").unwrap();
/// assert_eq!(timers.next_at(), Some(300));
/// assert_eq!(timers.pop_due(500), Some((300, "soon")));
/// assert_eq!(timers.pop_due(500), None);
/// assert_eq!(timers.cancel(late), Some("late"));
/// assert_eq!(timers.cancel(late), None);
/// ```
pub struct TimerHeap<T> {
    heap: Vec<Entry>,
    slots: Vec<Slot<T>>,
    /// The first free slot; each free slot knows the next.
    free: u32,
    inserted: u64,
}

/// A timer in a [`TimerHeap`], as long as it has neither fallen due nor been cancelled. 2^32 timers later in the same
/// slot, the handle would be taken for another timer's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TimerHandle {
    slot: u32,
    generation: u32,
}

/// All timers of the heap are in use. The value is returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full<T>(pub T);

#[derive(Clone, Copy)]
struct Entry {
    at: u64,
    /// Number of the insertion, which orders equal points.
    order: u64,
    slot: u32,
}

struct Slot<T> {
    value: Option<T>,
    generation: u32,
    /// In use: its place in the heap. Free: the next free slot.
    link: u32,
}

const NONE: u32 = u32::MAX;
const CHILDREN: usize = 4;

impl<T> TimerHeap<T> {
    /// A heap for at most `capacity` timers. All its memory is taken here.
    ///
    /// # Panics
    /// If `capacity` is 2^32 - 1 or more.
    pub fn with_capacity(capacity: usize) -> Self {
        assert!(capacity < NONE as usize, "a timer heap has less than 2^32 - 1 timers");
        let slot =
            |i| Slot { value: None, generation: 0, link: if i + 1 < capacity { i as u32 + 1 } else { NONE } };
        TimerHeap {
            heap: Vec::with_capacity(capacity),
            slots: (0..capacity).map(slot).collect(),
            free: if capacity > 0 { 0 } else { NONE },
            inserted: 0,
        }
    }

    /// Adds a timer that falls due at `at`.
    ///
    /// # Errors
    /// [`Full`], with the value.
    ///
    /// # Real-time
    /// Neither allocates nor blocks. O(log4 n).
    pub fn insert(&mut self, at: u64, value: T) -> Result<TimerHandle, Full<T>> {
        let number = self.free;
        let Some(slot) = self.slots.get_mut(number as usize) else {
            return Err(Full(value));
        };
        self.free = slot.link;
        slot.value = Some(value);
        let handle = TimerHandle { slot: number, generation: slot.generation };
        self.inserted += 1;
        self.heap.push(Entry { at, order: self.inserted, slot: number });
        self.sift_up(self.heap.len() - 1);
        Ok(handle)
    }

    /// Removes a timer before it falls due; `None` if it is gone already.
    ///
    /// # Real-time
    /// Neither allocates nor blocks. O(log4 n).
    pub fn cancel(&mut self, timer: TimerHandle) -> Option<T> {
        let place = self.place(timer)?;
        Some(self.remove(place).1)
    }

    /// Moves a timer to another point, behind those that are there already. Says whether it still existed.
    ///
    /// # Real-time
    /// Neither allocates nor blocks. O(log4 n).
    pub fn reschedule(&mut self, timer: TimerHandle, at: u64) -> bool {
        let Some(place) = self.place(timer) else {
            return false;
        };
        self.inserted += 1;
        self.heap[place].at = at;
        self.heap[place].order = self.inserted;
        self.restore(place);
        true
    }

    /// Does this timer still exist?
    pub fn is_set(&self, timer: TimerHandle) -> bool {
        self.place(timer).is_some()
    }

    /// Removes the earliest timer that is due at `now`, and says the point for which it was set.
    ///
    /// # Real-time
    /// Neither allocates nor blocks. O(log4 n).
    pub fn pop_due(&mut self, now: u64) -> Option<(u64, T)> {
        if self.next_at()? > now {
            return None;
        }
        Some(self.remove(0))
    }

    /// When the earliest timer falls due.
    #[inline]
    pub fn next_at(&self) -> Option<u64> {
        self.heap.first().map(|e| e.at)
    }

    /// How many timers are set.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// How many it can have.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// The timer's place in the heap, if it exists.
    fn place(&self, timer: TimerHandle) -> Option<usize> {
        let slot = self.slots.get(timer.slot as usize)?;
        (slot.value.is_some() && slot.generation == timer.generation).then_some(slot.link as usize)
    }

    fn remove(&mut self, place: usize) -> (u64, T) {
        let entry = self.heap.swap_remove(place);
        if place < self.heap.len() {
            self.restore(place);
        }
        let slot = &mut self.slots[entry.slot as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.link = self.free;
        self.free = entry.slot;
        let value = slot.value.take().expect("a slot that is in the heap has a value");
        (entry.at, value)
    }

    /// Puts an entry that is out of place where it belongs.
    fn restore(&mut self, place: usize) {
        let place = self.sift_up(place);
        self.sift_down(place);
    }

    fn sift_up(&mut self, mut place: usize) -> usize {
        let entry = self.heap[place];
        while place > 0 {
            let parent = (place - 1) / CHILDREN;
            if self.heap[parent].key() <= entry.key() {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, entry);
        place
    }

    fn sift_down(&mut self, mut place: usize) {
        let entry = self.heap[place];
        loop {
            let first = place * CHILDREN + 1;
            let children = first..self.heap.len().min(first + CHILDREN);
            let Some(least) = children.min_by_key(|&c| self.heap[c].key()) else {
                break;
            };
            if entry.key() <= self.heap[least].key() {
                break;
            }
            self.put(place, self.heap[least]);
            place = least;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: Entry) {
        self.heap[place] = entry;
        self.slots[entry.slot as usize].link = place as u32;
    }
}

impl Entry {
    fn key(&self) -> (u64, u64) {
        (self.at, self.order)
    }
}

impl<T> fmt::Debug for TimerHeap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerHeap")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .field("next_at", &self.next_at())
            .finish()
    }
}

impl<T> fmt::Display for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("all timers are in use")
    }
}

impl<T: fmt::Debug> std::error::Error for Full<T> {}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Insert(u64),
        Cancel(usize),
        Reschedule(usize, u64),
        PopDue(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        // Few points, so that many timers share one.
        prop_oneof![
            4 => (0u64..40).prop_map(Step::Insert),
            2 => any::<usize>().prop_map(Step::Cancel),
            1 => (any::<usize>(), 0u64..40).prop_map(|(i, at)| Step::Reschedule(i, at)),
            2 => (0u64..40).prop_map(Step::PopDue),
        ]
    }

    proptest! {
        /// Against a sorted map from (point, order) to value; handles of dead timers are used again and again.
        #[test]
        fn behaves_as_a_sorted_map(steps in prop::collection::vec(step(), 0..300)) {
            const CAPACITY: usize = 12;
            let mut timers = TimerHeap::with_capacity(CAPACITY);
            let mut oracle: BTreeMap<(u64, u64), usize> = BTreeMap::new();
            // All handles that there ever were; the value is the handle's number.
            let mut handles: Vec<(TimerHandle, Option<(u64, u64)>)> = Vec::new();
            let mut order = 0;
            for step in steps {
                match step {
                    Step::Insert(at) => match timers.insert(at, handles.len()) {
                        Ok(handle) => {
                            order += 1;
                            oracle.insert((at, order), handles.len());
                            handles.push((handle, Some((at, order))));
                        }
                        Err(Full(value)) => {
                            prop_assert_eq!(value, handles.len());
                            prop_assert_eq!(oracle.len(), CAPACITY);
                        }
                    },
                    Step::Cancel(i) if !handles.is_empty() => {
                        let i = i % handles.len();
                        let expected = handles[i].1.take().and_then(|key| oracle.remove(&key));
                        prop_assert_eq!(timers.is_set(handles[i].0), expected.is_some());
                        prop_assert_eq!(timers.cancel(handles[i].0), expected);
                    }
                    Step::Reschedule(i, at) if !handles.is_empty() => {
                        let i = i % handles.len();
                        prop_assert_eq!(timers.reschedule(handles[i].0, at), handles[i].1.is_some());
                        if let Some(key) = handles[i].1 {
                            order += 1;
                            oracle.remove(&key);
                            oracle.insert((at, order), i);
                            handles[i].1 = Some((at, order));
                        }
                    }
                    Step::PopDue(now) => {
                        let expected = oracle.first_key_value().map(|(k, v)| (*k, *v)).filter(|(k, _)| k.0 <= now);
                        prop_assert_eq!(timers.pop_due(now), expected.map(|(k, v)| (k.0, v)));
                        if let Some((key, value)) = expected {
                            oracle.remove(&key);
                            handles[value].1 = None;
                        }
                    }
                    _ => {}
                }
                prop_assert_eq!(timers.len(), oracle.len());
                prop_assert_eq!(timers.next_at(), oracle.first_key_value().map(|(k, _)| k.0));
            }
        }
    }

    #[test]
    fn a_handle_is_good_for_one_timer() {
        let mut t = TimerHeap::with_capacity(1);
        let first = t.insert(5, 'a').unwrap();
        assert_eq!(t.insert(6, 'b'), Err(Full('b')));
        assert_eq!(t.pop_due(5), Some((5, 'a')));
        let second = t.insert(7, 'c').unwrap();
        assert_ne!(first, second);
        assert!(!t.reschedule(first, 1));
        assert_eq!(t.cancel(first), None);
        assert_eq!(t.cancel(second), Some('c'));
        assert!(t.is_empty());
    }

    #[test]
    fn no_timers_at_all() {
        let mut t = TimerHeap::with_capacity(0);
        assert_eq!(t.insert(0, ()), Err(Full(())));
        assert_eq!((t.next_at(), t.pop_due(u64::MAX), t.capacity()), (None, None, 0));
    }

    #[test]
    fn values_are_dropped_with_the_heap() {
        let value = std::rc::Rc::new(());
        let mut t = TimerHeap::with_capacity(4);
        t.insert(1, value.clone()).unwrap();
        t.insert(2, value.clone()).unwrap();
        drop(t);
        assert_eq!(std::rc::Rc::strong_count(&value), 1);
    }
}
