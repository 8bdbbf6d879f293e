//! Requests for a lane that came over no connection of its own: those to groups.
//!
//! Whoever hears a group puts them here and wakes a thread of the lane, which runs them as if it had read them. There is room for few:
//! what waits longer than that is lost, as a datagram would be.

use isorb_rt::priority::Priority;
use isorb_rt::sync::PiMutex;

/// The most urgent first, of equally urgent ones the one that came first.
pub(super) struct GroupRequestQueue<T>(PiMutex<Vec<(Option<Priority>, T)>>);

impl<T> GroupRequestQueue<T> {
    /// Room for so many.
    pub fn new(room: usize) -> GroupRequestQueue<T> {
        GroupRequestQueue(PiMutex::new(Vec::with_capacity(room)))
    }

    /// Keeps a request, unless there is no room for it.
    ///
    /// # Real-time
    /// Allocates nothing; a PI lock, held for `request`.
    #[cfg(feature = "miop")]
    pub fn put(&self, urgency: Option<Priority>, request: impl FnOnce() -> T) -> bool {
        let mut waiting = self.0.lock();
        let room = waiting.len() < waiting.capacity();
        if room {
            waiting.push((urgency, request()));
        }
        room
    }

    /// Whether something waits.
    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// The most urgent of them.
    ///
    /// # Real-time
    /// Allocates nothing; a PI lock, held for a number of steps that is linear in how many there are.
    pub fn take(&self) -> Option<T> {
        let mut waiting = self.0.lock();
        let mut first: Option<(usize, Option<Priority>)> = None;
        for (i, (urgency, _)) in waiting.iter().enumerate() {
            if first.is_none_or(|(_, most)| *urgency > most) {
                first = Some((i, *urgency));
            }
        }
        first.map(|(i, _)| waiting.remove(i).1)
    }
}

#[cfg(all(test, feature = "miop"))]
mod tests {
    use super::*;

    #[test]
    fn the_most_urgent_goes_first_and_of_those_the_oldest() {
        let group_requests = GroupRequestQueue::new(4);
        let priority = |priority| Priority::new(priority);
        for (urgency, name) in [(None, "a"), (priority(5), "b"), (priority(9), "c"), (priority(9), "d")] {
            assert!(group_requests.put(urgency, || name));
        }
        assert!(!group_requests.put(priority(10), || unreachable!("there is no room")));
        let order: Vec<_> = std::iter::from_fn(|| group_requests.take()).collect();
        assert_eq!(order, ["c", "d", "b", "a"]);
        assert!(group_requests.is_empty());
    }
}
