//! How much clients may ask for.

use std::time::Duration;

/// Limits of a naming service. What is too long in a name is InvalidName, what is too large
/// otherwise IMP_LIMIT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Steps of a name.
    pub steps: usize,
    /// Octets of an id or a kind, in UTF-8.
    pub text: usize,
    /// Octets of a reference that is bound.
    pub reference: usize,
    /// Bindings in one reply; what is left is the iterator's.
    pub batch: usize,
    /// Iterators at a time. When there is one more, the one that was not used for longest goes.
    pub iterators: usize,
    /// How long an iterator is kept that nobody uses.
    pub iterator_idle: Duration,
    /// How long a call to a naming context elsewhere may take.
    pub onward: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            steps: 100,
            text: 1024,
            reference: 64 << 10,
            batch: 200,
            iterators: 256,
            iterator_idle: Duration::from_secs(600),
            onward: Duration::from_secs(10),
        }
    }
}
