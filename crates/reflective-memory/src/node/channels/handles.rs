//! The channels that this node reads, by the handles that their writers' nodes gave them.
//!
//! A writer's node asks which of its channels are still read here. While a channel is being opened,
//! its handle is not known yet, so all channels count as read then.

use isorb_rt::sync::PiMutex;
use std::collections::HashSet;

#[derive(Debug, Default)]
pub(super) struct ReadChannels {
    table: PiMutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    read: HashSet<u64>,
    /// Requests that have no answer yet.
    opening: usize,
}

/// A channel is being opened as long as it exists.
pub(super) struct Opening<'a>(&'a ReadChannels);

impl ReadChannels {
    pub fn opening(&self) -> Opening<'_> {
        self.table.lock().opening += 1;
        Opening(self)
    }

    pub fn add(&self, handle: u64) {
        self.table.lock().read.insert(handle);
    }

    pub fn remove(&self, handle: u64) {
        self.table.lock().read.remove(&handle);
    }

    /// Those of these handles that are not read here.
    pub fn unread(&self, which: &[u64]) -> Vec<u64> {
        let table = self.table.lock();
        match table.opening {
            0 => which.iter().filter(|handle| !table.read.contains(handle)).copied().collect(),
            _ => Vec::new(),
        }
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.0.table.lock().opening -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_counts_as_unread_while_an_answer_is_awaited() {
        let handles = ReadChannels::default();
        handles.add(1);
        let opening = handles.opening();
        assert_eq!(handles.unread(&[1, 2]), [0u64; 0]);
        handles.add(3);
        drop(opening);
        assert_eq!(handles.unread(&[1, 2, 3]), [2]);
        handles.remove(1);
        assert_eq!(handles.unread(&[1, 2, 3]), [1, 2]);
    }
}
