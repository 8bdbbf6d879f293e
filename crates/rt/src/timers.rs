//! Timers: a priority queue of points in time.

pub use crate::queue::{Full, Handle as TimerHandle};

/// Values that fall due at points in time, the earliest first.
///
/// It has no clock: [`pop_due`](crate::queue::PriorityQueue::pop_due) takes the time as an
/// argument, so that code with timers is tested in virtual time. Points are nanoseconds on a clock
/// of the caller (see [`now_ns`](crate::time::now_ns)).
///
/// ```
/// use isorb_rt::timers::TimerHeap;
///
/// let mut timers = TimerHeap::with_capacity(2);
/// let late = timers.push(900, "late").unwrap();
/// timers.push(300, "soon").unwrap();
/// assert_eq!(timers.next_at(), Some(300));
/// assert_eq!(timers.pop_due(500), Some((300, "soon")));
/// assert_eq!(timers.pop_due(500), None);
/// assert_eq!(timers.remove(late), Some("late"));
/// ```
pub type TimerHeap<T> = crate::queue::PriorityQueue<u64, T>;
