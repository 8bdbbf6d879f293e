//! Binding iterators: bounded in number, and removed when they are not used.
//!
//! An iterator is a position, not a copy of the bindings. So it costs one name, however many
//! bindings are left, and sees bindings that change meanwhile. Time is an argument, so that tests
//! need not wait.

use crate::binding::ContextId;
use isorb_giop::NameComponent;
use std::collections::BTreeMap;
use std::time::Duration;

/// The state of an iterator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The listed context.
    pub context: ContextId,
    /// The last name that was returned.
    pub after: Option<NameComponent>,
}

/// All iterators of a service.
#[derive(Debug)]
pub struct Iterators {
    limit: usize,
    idle_ns: u64,
    open: BTreeMap<u64, Open>,
}

#[derive(Debug)]
struct Open {
    position: Position,
    used_ns: u64,
}

impl Iterators {
    /// A table of at most `limit` iterators. An iterator that is unused for `idle` is removed.
    pub fn new(limit: usize, idle: Duration) -> Iterators {
        let idle_ns = u64::try_from(idle.as_nanos()).unwrap_or(u64::MAX);
        Iterators { limit: limit.max(1), idle_ns, open: BTreeMap::new() }
    }

    /// Makes an iterator and returns its number. If there are too many, the least recently used one
    /// is removed.
    pub fn open(&mut self, now_ns: u64, position: Position) -> u64 {
        let idle_ns = self.idle_ns;
        self.open.retain(|_, open| !is_idle(open, now_ns, idle_ns));
        if self.open.len() >= self.limit {
            let oldest = self.open.iter().min_by_key(|(number, open)| (open.used_ns, **number));
            if let Some(number) = oldest.map(|(number, _)| *number) {
                self.open.remove(&number);
            }
        }
        // Not the next number: it would tell every client those of others.
        let number = isorb_rt::random_u64();
        self.open.insert(number, Open { position, used_ns: now_ns });
        number
    }

    /// The position of an iterator, to read and to move; `None` if it was removed.
    pub fn at(&mut self, now_ns: u64, number: u64) -> Option<&mut Position> {
        let idle = self.open.get(&number).is_some_and(|open| is_idle(open, now_ns, self.idle_ns));
        if idle {
            self.open.remove(&number);
        }
        let open = self.open.get_mut(&number)?;
        open.used_ns = now_ns;
        Some(&mut open.position)
    }

    /// Removes an iterator. Returns `false` if there is none.
    pub fn close(&mut self, number: u64) -> bool {
        self.open.remove(&number).is_some()
    }

    /// The number of iterators.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.open.len()
    }
}

fn is_idle(open: &Open, now_ns: u64, idle_ns: u64) -> bool {
    now_ns.saturating_sub(open.used_ns) >= idle_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_nanos(100);

    fn position(n: u64) -> Position {
        Position { context: ContextId(n), after: None }
    }

    #[test]
    fn the_least_recently_used_is_removed_first() {
        let mut table = Iterators::new(3, IDLE);
        let [a, b, c] = [1, 2, 3].map(|n| table.open(n, position(n)));
        assert_eq!(table.at(4, a), Some(&mut position(1)));
        let d = table.open(5, position(4));
        assert_eq!(table.len(), 3);
        assert_eq!(table.at(6, b), None);
        for (number, context) in [(a, 1), (c, 3), (d, 4)] {
            assert_eq!(table.at(6, number).map(|at| at.context), Some(ContextId(context)));
        }
    }

    #[test]
    fn the_idle_are_forgotten() {
        let mut table = Iterators::new(10, IDLE);
        let a = table.open(0, position(1));
        let b = table.open(50, position(2));
        assert!(table.at(99, a).is_some());
        assert!(table.at(150, b).is_none());
        assert_eq!(table.len(), 1);
        table.open(199, position(3));
        assert_eq!(table.len(), 1);
        assert!(table.at(200, a).is_none());
    }

    #[test]
    fn closed_is_gone_and_numbers_are_new() {
        let mut table = Iterators::new(10, IDLE);
        let a = table.open(0, position(1));
        assert!(table.close(a));
        assert!(!table.close(a));
        assert_eq!(table.len(), 0);
        let [b, c] = [(); 2].map(|()| table.open(0, position(1)));
        assert!(b != a && b.abs_diff(c) > 1 << 20, "the next number can be guessed");
        // Without iterators every list would be cut off.
        let mut table = Iterators::new(0, IDLE);
        let a = table.open(0, position(1));
        assert!(table.at(0, a).is_some());
    }

    #[test]
    fn positions_move() {
        let mut table = Iterators::new(10, IDLE);
        let a = table.open(0, position(1));
        table.at(0, a).unwrap().after = Some(NameComponent::new("x", ""));
        assert_eq!(table.at(0, a).unwrap().after, Some(NameComponent::new("x", "")));
    }
}
