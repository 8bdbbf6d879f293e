//! How long a call takes that sends and returns a tree of 10,000 values.

use crate::generated::interop_values::*;
use isorb::{Link, Result};
use std::time::{Duration, Instant};

/// A tree of `width` branches with `leaves` each.
pub fn tree(width: i32, leaves: i32) -> Branch {
    let leaf = |value| Branch::from(BranchState { value, parts: Vec::new() });
    let branch = |value| {
        let parts = (0..leaves).map(|value| Link::from(leaf(value))).collect();
        Branch::from(BranchState { value, parts })
    };
    let parts = (0..width).map(|value| Link::from(branch(value))).collect();
    Branch::from(BranchState { value: 0, parts })
}

/// How many values a tree has.
pub fn size_of(root: &Branch) -> usize {
    1 + root.parts.iter().filter_map(Link::get).map(|part| size_of(&part)).sum::<usize>()
}

/// The median time of a call; it includes the end of the tree that came back. `None` if that had
/// another size.
///
/// # Errors
/// Those of the calls.
pub fn time(values: &ValuesRef, calls: usize) -> Result<Option<Duration>> {
    let root = tree(99, 100);
    let mut times = Vec::with_capacity(calls);
    for call in 0..calls {
        let start = Instant::now();
        let back = values.give_back(Some(&root))?;
        if call == 0 && back.as_ref().map(size_of) != Some(10_000) {
            return Ok(None);
        }
        drop(back);
        times.push(start.elapsed());
    }
    times.sort_unstable();
    Ok(times.get(times.len() / 2).copied())
}
