//! A bounded priority queue, from which entries can be removed and in which keys can change.

use core::fmt;
use std::collections::TryReserveError;

/// Values in order of their keys, the least key first; values with equal keys in order of arrival.
///
/// The queue has no lock and no clock. Each of its users keeps more state under the same lock
/// (flags, counters, a second queue), so the user puts all of it into one
/// [`PiMutex`](crate::sync::PiMutex). A thread that waits for an entry or for room uses a
/// [`PiCondvar`](crate::sync::PiCondvar) or an [`EventCount`](crate::sync::EventCount) beside it.
///
/// | user | key | what it needs besides |
/// |---|---|---|
/// | event dispatcher, ready consumers | `(Reverse<level>, sub-priority)` | one `peek` to yield to a higher level only |
/// | event dispatcher, consumers in backoff | time of the end | `pop_due` |
/// | event consumer's queue | `()`, so it is a FIFO | [`Overflow`] policies |
/// | requests to groups | `Reverse<Option<Priority>>` | refusal when full |
/// | agents of reflective memory | level or virtual time, one queue a band | `remove`, `change_key` |
/// | timers ([`TimerHeap`](crate::timers::TimerHeap)) | point in time | `pop_due`, `remove`, `change_key` |
///
/// Inside is a heap with four children a node over an array of slots. It is shallower than a binary
/// heap, and the children share a cache line. Each slot knows its index in the heap, so an entry
/// can be removed, and a handle stays valid for that entry only.
///
/// ```
/// use isorb_rt::queue::{Overflow, PriorityQueue, Pushed};
/// use std::cmp::Reverse;
///
/// let mut requests = PriorityQueue::with_capacity(2);
/// requests.push(Reverse(1), "log")?;
/// let alarm = requests.push(Reverse(9), "alarm")?;
/// assert_eq!(requests.push(Reverse(9), "second alarm").unwrap_err().0, "second alarm");
/// let pushed = requests.push_or(Reverse(9), "second alarm", Overflow::DropOldest)?;
/// assert_eq!(pushed, Pushed::Displaced("log"));
/// assert_eq!(requests.remove(alarm), Some("alarm"));
/// assert_eq!(requests.pop(), Some((Reverse(9), "second alarm")));
/// # Ok::<(), isorb_rt::queue::Full<&str>>(())
/// ```
pub struct PriorityQueue<K, T> {
    heap: Vec<Entry<K>>,
    slots: Vec<Slot<T>>,
    /// The first free slot; each free slot knows the next.
    free: u32,
    /// Number of the last push, which orders equal keys.
    pushed: u64,
    /// All keys in the queue are equal, so the first entry is the oldest one.
    uniform: bool,
}

/// What a push does when the queue is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overflow {
    /// The caller waits for room; until then the push fails as under `Refuse`.
    Block,
    /// The oldest among the entries with the greatest key leaves. If the new value has an even
    /// greater key, the new value is dropped instead.
    DropOldest,
    /// The new value is dropped.
    DropNewest,
    /// The push fails.
    Refuse,
}

/// The result of [`PriorityQueue::push_or`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pushed<T> {
    /// The value is in the queue.
    Queued,
    /// The value is in the queue, and this older one left it ([`Overflow::DropOldest`]).
    Displaced(T),
    /// The value was dropped.
    Dropped(T),
}

/// An entry of a [`PriorityQueue`], until it is popped or removed. After 2^32 more entries in the
/// same slot the handle would refer to another entry.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Handle {
    slot: u32,
    generation: u32,
}

/// The queue is full. The value is returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full<T>(pub T);

#[derive(Clone, Copy)]
struct Entry<K> {
    key: K,
    order: u64,
    slot: u32,
}

struct Slot<T> {
    value: Option<T>,
    generation: u32,
    /// In use: the index in the heap. Free: the next free slot.
    link: u32,
}

const NONE: u32 = u32::MAX;
const CHILDREN: usize = 4;

impl<K: Ord + Copy, T> PriorityQueue<K, T> {
    /// A queue without room, which [`grow_to`](Self::grow_to) can give it.
    pub const fn new() -> Self {
        PriorityQueue { heap: Vec::new(), slots: Vec::new(), free: NONE, pushed: 0, uniform: true }
    }

    /// A queue for at most `capacity` entries, with all the memory that it will need.
    ///
    /// # Panics
    /// If `capacity` is 2^32 - 1 or more, or there is not enough memory.
    pub fn with_capacity(capacity: usize) -> Self {
        let mut queue = PriorityQueue::new();
        queue.grow_to(capacity).expect("memory for a queue");
        queue
    }

    /// Makes room for `capacity` entries in all, if the queue has less.
    ///
    /// # Errors
    /// There is not enough memory; the queue is as before.
    ///
    /// # Panics
    /// If `capacity` is 2^32 - 1 or more.
    ///
    /// # Real-time
    /// Allocates. For set-up.
    pub fn grow_to(&mut self, capacity: usize) -> Result<(), TryReserveError> {
        assert!(capacity < NONE as usize, "a queue has less than 2^32 - 1 entries");
        let (old, len) = (self.slots.len(), self.heap.len());
        if capacity > old {
            self.heap.try_reserve_exact(capacity - len)?;
            self.slots.try_reserve_exact(capacity - old)?;
            for slot in old..capacity {
                let link = if slot + 1 < capacity { slot as u32 + 1 } else { self.free };
                self.slots.push(Slot { value: None, generation: 0, link });
            }
            self.free = old as u32;
        }
        Ok(())
    }

    /// Adds a value.
    ///
    /// # Errors
    /// [`Full`], with the value.
    ///
    /// # Real-time
    /// Neither allocates nor blocks. O(log4 n).
    pub fn push(&mut self, key: K, value: T) -> Result<Handle, Full<T>> {
        let number = self.free;
        let Some(slot) = self.slots.get_mut(number as usize) else {
            return Err(Full(value));
        };
        self.free = slot.link;
        slot.value = Some(value);
        let handle = Handle { slot: number, generation: slot.generation };
        self.note_key(key);
        self.pushed += 1;
        self.heap.push(Entry { key, order: self.pushed, slot: number });
        self.sift_up(self.heap.len() - 1);
        Ok(handle)
    }

    /// Adds a value; `overflow` decides what leaves if the queue is full.
    ///
    /// # Errors
    /// [`Full`], with the value, under [`Overflow::Block`] and [`Overflow::Refuse`].
    ///
    /// # Real-time
    /// Neither allocates nor blocks. O(log4 n); under `DropOldest` O(n) if the queue is full and
    /// its keys differ.
    pub fn push_or(&mut self, key: K, value: T, overflow: Overflow) -> Result<Pushed<T>, Full<T>> {
        let Err(Full(value)) = self.push(key, value) else {
            return Ok(Pushed::Queued);
        };
        match overflow {
            Overflow::Block | Overflow::Refuse => Err(Full(value)),
            Overflow::DropNewest => Ok(Pushed::Dropped(value)),
            Overflow::DropOldest => match self.least_urgent() {
                Some(index) if self.heap[index].key >= key => {
                    let (_, displaced) = self.remove_at(index);
                    self.push(key, value)?;
                    Ok(Pushed::Displaced(displaced))
                }
                _ => Ok(Pushed::Dropped(value)),
            },
        }
    }

    /// Removes the first entry.
    ///
    /// # Real-time
    /// Neither allocates nor blocks. O(log4 n).
    pub fn pop(&mut self) -> Option<(K, T)> {
        if self.heap.is_empty() { None } else { Some(self.remove_at(0)) }
    }

    /// The first entry.
    #[inline]
    pub fn peek(&self) -> Option<(K, &T)> {
        let first = self.heap.first()?;
        Some((first.key, self.slots[first.slot as usize].value.as_ref()?))
    }

    /// Removes an entry; `None` if it left the queue before.
    ///
    /// # Real-time
    /// Neither allocates nor blocks. O(log4 n).
    pub fn remove(&mut self, entry: Handle) -> Option<T> {
        let index = self.index(entry)?;
        Some(self.remove_at(index).1)
    }

    /// Gives an entry another key; it moves behind the entries that have this key already. Returns
    /// whether the entry was in the queue.
    ///
    /// # Real-time
    /// Neither allocates nor blocks. O(log4 n).
    pub fn change_key(&mut self, entry: Handle, key: K) -> bool {
        let Some(index) = self.index(entry) else {
            return false;
        };
        self.note_key(key);
        self.pushed += 1;
        self.heap[index].key = key;
        self.heap[index].order = self.pushed;
        self.restore(index);
        true
    }

    /// Whether this entry is in the queue.
    pub fn contains(&self, entry: Handle) -> bool {
        self.index(entry).is_some()
    }

    /// The number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// The most entries that it can have.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Notes whether all keys stay equal with this one.
    #[inline]
    fn note_key(&mut self, key: K) {
        self.uniform = self.heap.first().is_none_or(|first| self.uniform && first.key == key);
    }

    /// The index of the oldest entry with the greatest key.
    fn least_urgent(&self) -> Option<usize> {
        if self.uniform {
            return (!self.heap.is_empty()).then_some(0);
        }
        let rank = |index: &usize| {
            let entry = &self.heap[*index];
            (entry.key, std::cmp::Reverse(entry.order))
        };
        (0..self.heap.len()).max_by_key(rank)
    }

    /// The entry's index in the heap.
    fn index(&self, entry: Handle) -> Option<usize> {
        let slot = self.slots.get(entry.slot as usize)?;
        (slot.value.is_some() && slot.generation == entry.generation).then_some(slot.link as usize)
    }

    fn remove_at(&mut self, index: usize) -> (K, T) {
        let entry = self.heap.swap_remove(index);
        if index < self.heap.len() {
            self.restore(index);
        }
        let slot = &mut self.slots[entry.slot as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.link = self.free;
        self.free = entry.slot;
        let value = slot.value.take().expect("a slot that is in the heap has a value");
        (entry.key, value)
    }

    /// Moves an entry to the index that its key requires.
    fn restore(&mut self, index: usize) {
        let index = self.sift_up(index);
        self.sift_down(index);
    }

    fn sift_up(&mut self, mut index: usize) -> usize {
        let entry = self.heap[index];
        while index > 0 {
            let parent = (index - 1) / CHILDREN;
            if self.heap[parent].rank() <= entry.rank() {
                break;
            }
            self.put(index, self.heap[parent]);
            index = parent;
        }
        self.put(index, entry);
        index
    }

    fn sift_down(&mut self, mut index: usize) {
        let entry = self.heap[index];
        loop {
            let first = index * CHILDREN + 1;
            let children = first..self.heap.len().min(first + CHILDREN);
            let Some(least) = children.min_by_key(|&child| self.heap[child].rank()) else {
                break;
            };
            if entry.rank() <= self.heap[least].rank() {
                break;
            }
            self.put(index, self.heap[least]);
            index = least;
        }
        self.put(index, entry);
    }

    fn put(&mut self, index: usize, entry: Entry<K>) {
        self.heap[index] = entry;
        self.slots[entry.slot as usize].link = index as u32;
    }
}

/// Keys that are points in time, on the clock of the caller.
impl<T> PriorityQueue<u64, T> {
    /// Removes the first entry if it is due at `now`.
    ///
    /// # Real-time
    /// Neither allocates nor blocks. O(log4 n).
    pub fn pop_due(&mut self, now: u64) -> Option<(u64, T)> {
        if self.next_at()? > now { None } else { self.pop() }
    }

    /// When the first entry is due.
    #[inline]
    pub fn next_at(&self) -> Option<u64> {
        self.heap.first().map(|entry| entry.key)
    }
}

impl<K: Ord + Copy> Entry<K> {
    #[inline]
    fn rank(&self) -> (K, u64) {
        (self.key, self.order)
    }
}

impl<K: Ord + Copy, T> Default for PriorityQueue<K, T> {
    fn default() -> Self {
        PriorityQueue::new()
    }
}

impl<K: Ord + Copy, T> fmt::Debug for PriorityQueue<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PriorityQueue")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Display for Full<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the queue is full")
    }
}

impl<T: fmt::Debug> std::error::Error for Full<T> {}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Action {
        Push(u64),
        PushOr(u64, Overflow),
        Remove(usize),
        ChangeKey(usize, u64),
        Pop,
        PopDue(u64),
        Grow,
    }

    fn action() -> impl Strategy<Value = Action> {
        let overflow =
            prop_oneof![Just(Overflow::DropOldest), Just(Overflow::DropNewest), Just(Overflow::Refuse)];
        // Few keys, so that many entries share one.
        prop_oneof![
            4 => (0u64..40).prop_map(Action::Push),
            2 => (0u64..8, overflow).prop_map(|(key, overflow)| Action::PushOr(key, overflow)),
            2 => any::<usize>().prop_map(Action::Remove),
            1 => (any::<usize>(), 0u64..40).prop_map(|(i, key)| Action::ChangeKey(i, key)),
            1 => Just(Action::Pop),
            2 => (0u64..40).prop_map(Action::PopDue),
            1 => Just(Action::Grow),
        ]
    }

    /// A sorted map from (key, arrival) to value. A value is the number of its handle.
    #[derive(Default)]
    struct Oracle {
        entries: BTreeMap<(u64, u64), usize>,
        arrivals: u64,
        /// All handles that there ever were, with the entry's rank while it is in the queue.
        handles: Vec<(Option<Handle>, Option<Rank>)>,
    }

    /// Key and number of the push.
    type Rank = (u64, u64);

    impl Oracle {
        fn push(&mut self, key: u64, handle: Option<Handle>) {
            self.arrivals += 1;
            self.entries.insert((key, self.arrivals), self.handles.len());
            self.handles.push((handle, Some((key, self.arrivals))));
        }

        fn take(&mut self, rank: Option<(u64, u64)>) -> Option<(u64, usize)> {
            let rank = rank?;
            let value = self.entries.remove(&rank)?;
            self.handles[value].1 = None;
            Some((rank.0, value))
        }

        fn first(&self) -> Option<(u64, u64)> {
            self.entries.first_key_value().map(|(rank, _)| *rank)
        }

        fn least_urgent(&self) -> Option<(u64, u64)> {
            let (&(key, _), _) = self.entries.last_key_value()?;
            self.entries.range((key, 0)..).next().map(|(rank, _)| *rank)
        }
    }

    proptest! {
        /// Handles of entries that left are used again and again.
        #[test]
        fn behaves_as_a_sorted_map(actions in prop::collection::vec(action(), 0..300)) {
            let mut capacity = 8;
            let mut queue = PriorityQueue::with_capacity(capacity);
            let mut oracle = Oracle::default();
            for action in actions {
                let (count, value) = (oracle.handles.len(), oracle.handles.len());
                let full = oracle.entries.len() == capacity;
                match action {
                    Action::Push(key) => match queue.push(key, value) {
                        Ok(handle) => oracle.push(key, Some(handle)),
                        Err(Full(returned)) => prop_assert!(returned == value && full),
                    },
                    Action::PushOr(key, overflow) => match queue.push_or(key, value, overflow) {
                        Ok(Pushed::Queued) => oracle.push(key, None),
                        Ok(Pushed::Displaced(left)) => {
                            let least = oracle.least_urgent();
                            prop_assert!(full && overflow == Overflow::DropOldest);
                            prop_assert!(least.unwrap().0 >= key);
                            prop_assert_eq!(oracle.take(least).unwrap().1, left);
                            oracle.push(key, None);
                        }
                        Ok(Pushed::Dropped(returned)) => {
                            let newest = overflow == Overflow::DropNewest;
                            prop_assert!(full && returned == value);
                            prop_assert!(newest || oracle.least_urgent().unwrap().0 < key);
                        }
                        Err(Full(returned)) => {
                            prop_assert!(full && returned == value && overflow == Overflow::Refuse);
                        }
                    },
                    Action::Remove(i) if count > 0 => if let (Some(handle), rank) = oracle.handles[i % count] {
                        let expected = oracle.take(rank);
                        prop_assert_eq!(queue.contains(handle), expected.is_some());
                        prop_assert_eq!(queue.remove(handle), expected.map(|(_, value)| value));
                    },
                    Action::ChangeKey(i, key) if count > 0 => if let (Some(handle), rank) = oracle.handles[i % count] {
                        prop_assert_eq!(queue.change_key(handle, key), rank.is_some());
                        if let Some((_, value)) = oracle.take(rank) {
                            oracle.arrivals += 1;
                            oracle.entries.insert((key, oracle.arrivals), value);
                            oracle.handles[value].1 = Some((key, oracle.arrivals));
                        }
                    },
                    Action::Pop => {
                        let first = oracle.first();
                        prop_assert_eq!(queue.pop(), oracle.take(first));
                    }
                    Action::PopDue(now) => {
                        let due = oracle.first().filter(|(key, _)| *key <= now);
                        prop_assert_eq!(queue.pop_due(now), oracle.take(due));
                    }
                    Action::Grow => {
                        capacity = (capacity + 1).min(12);
                        queue.grow_to(capacity).unwrap();
                        queue.grow_to(3).unwrap();
                    }
                    Action::Remove(_) | Action::ChangeKey(..) => {}
                }
                let first = oracle.entries.first_key_value().map(|(rank, value)| (rank.0, value));
                prop_assert_eq!(queue.peek(), first);
                prop_assert_eq!(queue.next_at(), first.map(|(key, _)| key));
                prop_assert_eq!((queue.len(), queue.capacity()), (oracle.entries.len(), capacity));
            }
        }
    }

    #[test]
    fn urgent_first_then_in_order_of_arrival() {
        let mut queue = PriorityQueue::with_capacity(4);
        for (priority, name) in [(None, "a"), (Some(5), "b"), (Some(9), "c"), (Some(9), "d")] {
            queue.push(Reverse(priority), name).unwrap();
        }
        assert_eq!(queue.push(Reverse(Some(10)), "e"), Err(Full("e")));
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|(_, name)| name).collect();
        assert_eq!(order, ["c", "d", "b", "a"]);
    }

    #[test]
    fn without_keys_it_is_a_fifo() {
        let mut queue = PriorityQueue::with_capacity(2);
        for value in 0..2 {
            assert_eq!(queue.push_or((), value, Overflow::DropOldest), Ok(Pushed::Queued));
        }
        assert_eq!(queue.push_or((), 2, Overflow::DropOldest), Ok(Pushed::Displaced(0)));
        assert_eq!(queue.push_or((), 3, Overflow::DropNewest), Ok(Pushed::Dropped(3)));
        assert_eq!(queue.push_or((), 4, Overflow::Block), Err(Full(4)));
        assert_eq!([queue.pop(), queue.pop(), queue.pop()], [Some(((), 1)), Some(((), 2)), None]);
    }

    #[test]
    fn a_handle_is_valid_for_one_entry() {
        let mut queue = PriorityQueue::with_capacity(1);
        let first = queue.push(5, 'a').unwrap();
        assert_eq!(queue.push(6, 'b'), Err(Full('b')));
        assert_eq!(queue.pop_due(5), Some((5, 'a')));
        let second = queue.push(7, 'c').unwrap();
        assert_ne!(first, second);
        assert!(!queue.change_key(first, 1));
        assert_eq!(queue.remove(first), None);
        assert_eq!(queue.remove(second), Some('c'));
        assert!(queue.is_empty());
    }

    #[test]
    fn a_queue_without_room_refuses_everything() {
        let mut queue = PriorityQueue::new();
        assert_eq!(queue.push(0, ()), Err(Full(())));
        assert_eq!(queue.push_or(0, (), Overflow::DropOldest), Ok(Pushed::Dropped(())));
        assert_eq!((queue.next_at(), queue.pop_due(u64::MAX), queue.capacity()), (None, None, 0));
    }

    #[test]
    fn values_are_dropped_with_the_queue() {
        let value = std::rc::Rc::new(());
        let mut queue = PriorityQueue::with_capacity(4);
        queue.push(1, value.clone()).unwrap();
        queue.push(2, value.clone()).unwrap();
        drop(queue);
        assert_eq!(std::rc::Rc::strong_count(&value), 1);
    }
}
