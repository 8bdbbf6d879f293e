//! Limits of clients' requests.

use std::time::Duration;

/// Limits of a naming service. A name beyond them is InvalidName, other requests are IMP_LIMIT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Components of a name.
    pub steps: usize,
    /// Octets of an id or a kind, in UTF-8.
    pub text: usize,
    /// Bindings and contexts that one client may have made: one with the same certificate, else of
    /// the same user of this host, else at the same address. 0 for no limit. They count since the
    /// service started, until they are removed; those of an earlier process count for no client.
    pub peer_bindings: usize,
    /// Octets of a bound reference.
    pub reference: usize,
    /// Bindings in one reply. An iterator returns the rest.
    pub batch: usize,
    /// Number of iterators. Beyond it, the least recently used one is removed.
    pub iterators: usize,
    /// Time after which an unused iterator is removed.
    pub iterator_idle: Duration,
    /// Whether names lead on to the contexts of other services, which this one then calls. If not,
    /// the client is told where to go on (CannotProceed).
    pub follow: bool,
    /// Timeout of a call to a naming context of another service.
    pub onward: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            steps: 100,
            text: 1024,
            peer_bindings: 0,
            reference: 64 << 10,
            batch: 200,
            iterators: 256,
            iterator_idle: Duration::from_secs(600),
            follow: false,
            onward: Duration::from_secs(10),
        }
    }
}
