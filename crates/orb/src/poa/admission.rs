//! Admission of requests to a POA: counts running requests and reads the blocking flags in one
//! atomic step.

use isorb_rt::sync::atomic::{AtomicU64, Ordering};

/// The POA's manager is not active.
pub(super) const HOLDING: u64 = 1 << 32;
/// The adapter activator that creates the POA has not returned yet.
pub(super) const STARTING: u64 = 1 << 33;
/// The POA is being destroyed.
pub(super) const DESTROYING: u64 = 1 << 34;
/// A thread waits for the last request to end.
pub(super) const NOTIFY_IDLE: u64 = 1 << 35;

const COUNT: u64 = HOLDING - 1;
const BLOCKED: u64 = HOLDING | STARTING | DESTROYING;

/// The number of running requests in the low half, flags in the high half.
///
/// A request counts itself and reads the flags in one step. A thread that sets a flag and then
/// reads the number therefore either sees the request or has blocked it.
#[derive(Debug)]
pub(super) struct AdmissionState(AtomicU64);

impl AdmissionState {
    pub fn new(flags: u64) -> AdmissionState {
        AdmissionState(AtomicU64::new(flags))
    }

    /// Counts a request and returns the flags that block it. If there are any, the caller ends the
    /// request again.
    #[inline]
    pub fn begin(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst) & BLOCKED
    }

    /// Ends a request. True for the last one if a thread waits for it.
    #[inline]
    #[must_use]
    pub fn end(&self) -> bool {
        let before = self.0.fetch_sub(1, Ordering::SeqCst);
        before & COUNT == 1 && before & (NOTIFY_IDLE | DESTROYING) != 0
    }

    pub fn set(&self, flags: u64) {
        self.0.fetch_or(flags, Ordering::SeqCst);
    }

    pub fn clear(&self, flags: u64) {
        self.0.fetch_and(!flags, Ordering::SeqCst);
    }

    pub fn has(&self, flags: u64) -> bool {
        self.0.load(Ordering::SeqCst) & flags != 0
    }

    pub fn is_empty(&self) -> bool {
        self.0.load(Ordering::SeqCst) & COUNT == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_block_requests_and_the_last_one_notifies() {
        let admission = AdmissionState::new(HOLDING);
        assert_eq!(admission.begin(), HOLDING);
        assert!(!admission.end());
        admission.clear(HOLDING);
        assert_eq!((admission.begin(), admission.begin()), (0, 0));
        admission.set(NOTIFY_IDLE);
        assert!(!admission.end());
        assert!(!admission.is_empty());
        assert!(admission.end());
        assert!(admission.is_empty() && admission.has(NOTIFY_IDLE));
        admission.set(DESTROYING);
        assert_eq!(admission.begin(), DESTROYING);
        assert!(admission.end());
    }
}
