//! The growth of a counter in a second.

/// Growth a second from `before` to `now`, over `ns` nanoseconds; `None` for no time. A
/// counter that has become smaller belongs to a new object, and counts from 0.
pub(crate) fn per_second(before: u64, now: u64, ns: u64) -> Option<f64> {
    (ns > 0).then(|| now.checked_sub(before).unwrap_or(now) as f64 * 1e9 / ns as f64)
}

#[cfg(test)]
mod tests {
    use super::per_second;

    #[test]
    fn growth_is_over_the_time_that_passed() {
        assert_eq!(per_second(10, 20, 500_000_000), Some(20.0));
        assert_eq!(per_second(10, 10, 1), Some(0.0));
        assert_eq!(per_second(10, 5, 1_000_000_000), Some(5.0));
        assert_eq!(per_second(10, 20, 0), None);
    }
}
