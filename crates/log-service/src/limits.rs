//! Limits of clients' requests.

/// Limits of a log service. A request beyond them is IMP_LIMIT, or gets less than it asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Octets of a record: its three texts in UTF-8.
    pub record: usize,
    /// Records in one reply. The client goes on with the next request.
    pub records: usize,
    /// Octets of the texts in one reply; a single record may be larger.
    pub reply: usize,
    /// Values in the list of a filter.
    pub values: usize,
    /// Part of the greatest size, in percent, at which the log says that it fills.
    pub alarm_percent: u8,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { record: 64 << 10, records: 1000, reply: 512 << 10, values: 1000, alarm_percent: 80 }
    }
}
