//! What one client holds at a server over all of its connections: requests that are outstanding,
//! and octets of its messages.
//!
//! A client is told apart as the limit of its connections does: by the user of a local transport,
//! else by its address. Its connections share a [`PeerAccount`], which they find when they are
//! accepted. There is none without a limit, so that such a server counts nothing.
//!
//! ```text
//!   octets arrive ──► arriving: blocks ──► whole ──► claimed: a call, its octets ──► reply
//!                       └ over the limit: the head is answered, the rest discarded
//!                                             └ over the limit: answered, not run
//! ```

use super::Arrived;
use isorb_giop::context::exception_detail;
use isorb_transport::PeerIdentity;
#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The peer of a connection, as far as limits tell peers apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum PeerKey {
    User(u32),
    Address(IpAddr),
    Unknown,
}

impl PeerKey {
    pub fn of(identity: &PeerIdentity) -> PeerKey {
        match (&identity.process, &identity.addresses) {
            (Some(process), _) => PeerKey::User(process.user),
            (None, Some((peer, _))) => PeerKey::Address(peer.ip().to_canonical()),
            (None, None) => PeerKey::Unknown,
        }
    }
}

impl fmt::Display for PeerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PeerKey::User(user) => write!(f, "user {user}"),
            PeerKey::Address(address) => address.fmt(f),
            PeerKey::Unknown => f.write_str("an unknown peer"),
        }
    }
}

/// What one client may hold; `usize::MAX` for any number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerLimits {
    /// Requests that wait in a lane, run, or are answered after their upcall.
    pub calls: usize,
    /// Octets of its messages.
    pub octets: usize,
}

impl PeerLimits {
    #[cfg(all(test, not(loom)))]
    pub const NONE: PeerLimits = PeerLimits { calls: usize::MAX, octets: usize::MAX };

    /// From the configuration, where 0 is no limit.
    pub fn configured(calls: usize, octets: usize) -> PeerLimits {
        let limit = |limit| if limit == 0 { usize::MAX } else { limit };
        PeerLimits { calls: limit(calls), octets: limit(octets) }
    }

    fn is_none(self) -> bool {
        self.calls == usize::MAX && self.octets == usize::MAX
    }
}

/// The limit that a request would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerLimit {
    Calls,
    Octets,
}

/// Whether the limits of its client let a request run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerShare {
    /// Not counted yet.
    Unclaimed,
    /// Counted. The thread that runs the request takes the count over.
    Claimed,
    /// Its octets would exceed the limit. Only its head has arrived in the block, and can be
    /// answered.
    Refused,
}

/// Counts of one client.
#[derive(Debug)]
pub(crate) struct PeerAccount {
    limits: PeerLimits,
    calls: AtomicUsize,
    octets: AtomicUsize,
    refused: AtomicU64,
    /// The sentences of a refusal by calls and by octets, and the octets of a service context that
    /// brings each to the client. A refusal formats and allocates nothing.
    refusals: [(String, Vec<u8>); 2],
}

impl PeerAccount {
    /// The account of a client; `None` if there is nothing to count.
    pub fn new(key: PeerKey, limits: PeerLimits) -> Option<PeerAccount> {
        if limits.is_none() || key == PeerKey::Unknown {
            return None;
        }
        let PeerLimits { calls, octets } = limits;
        let refusal = |why: String| {
            let detail = exception_detail(&why).unwrap_or_default();
            (why, detail)
        };
        let refusals = [
            format!(
                "client {key} has as many calls outstanding as one client may have: {calls} \
                 (max_peer_calls, -ORBMaxPeerCalls)"
            ),
            format!(
                "the messages of client {key} would hold more than {octets} octets, the most that those of \
                 one client may hold (max_peer_octets, -ORBMaxPeerOctets)"
            ),
        ];
        Some(PeerAccount {
            limits,
            calls: AtomicUsize::new(0),
            octets: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
            refusals: refusals.map(refusal),
        })
    }

    /// Requests that are outstanding.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// Octets of its messages.
    pub fn octets(&self) -> usize {
        self.octets.load(Ordering::Relaxed)
    }

    /// Counts a request of `octets` octets.
    ///
    /// # Errors
    /// The limit that it would exceed.
    ///
    /// # Real-time
    /// Two atomic additions, four for a refused request. No lock, no loop. A request that is
    /// refused counts for some instructions, in which another of the same client may be refused.
    #[inline]
    fn take_request(&self, octets: usize) -> Result<(), PeerLimit> {
        if self.calls.fetch_add(1, Ordering::Relaxed) >= self.limits.calls {
            self.release_calls(1);
            return Err(PeerLimit::Calls);
        }
        if !self.take_octets(octets) {
            self.release_calls(1);
            return Err(PeerLimit::Octets);
        }
        Ok(())
    }

    #[inline]
    fn release_calls(&self, calls: usize) {
        self.calls.fetch_sub(calls, Ordering::Relaxed);
    }

    /// Counts octets, unless there would be too many.
    #[inline]
    pub fn take_octets(&self, octets: usize) -> bool {
        let before = self.octets.fetch_add(octets, Ordering::Relaxed);
        let fits = before.saturating_add(octets) <= self.limits.octets;
        if !fits {
            self.release_octets(octets);
        }
        fits
    }

    #[inline]
    pub fn release_octets(&self, octets: usize) {
        self.octets.fetch_sub(octets, Ordering::Relaxed);
    }

    /// A direction of a connection holds `now` octets instead of `before`.
    pub fn change_octets(&self, before: usize, now: usize) {
        match now.checked_sub(before) {
            Some(more) => _ = self.octets.fetch_add(more, Ordering::Relaxed),
            None => self.release_octets(before - now),
        }
    }

    /// The share of a request that is about to run.
    ///
    /// # Errors
    /// The limit that it would exceed.
    #[inline]
    pub fn share(&self, arrived: &Arrived) -> Result<Share, PeerLimit> {
        // A message is not longer than its header can say, and a few octets.
        let octets = u32::try_from(arrived.len).unwrap_or(u32::MAX);
        match arrived.share() {
            PeerShare::Claimed => {}
            PeerShare::Unclaimed => self.take_request(octets as usize)?,
            PeerShare::Refused => return Err(PeerLimit::Octets),
        }
        Ok(Share { calls: 1, octets })
    }

    #[inline]
    pub fn release(&self, share: Share) {
        self.release_calls(share.calls as usize);
        self.release_octets(share.octets as usize);
    }

    /// Counts a refused request; the sentence about it if it is to be logged, the number of refused
    /// ones, and the octets of the client's service context. The first one is to be logged, the
    /// second, the fourth and so on.
    pub fn refuse(&self, limit: PeerLimit) -> (Option<&str>, u64, &[u8]) {
        let (why, detail) = &self.refusals[limit as usize];
        let count = self.refused.fetch_add(1, Ordering::Relaxed) + 1;
        (count.is_power_of_two().then_some(why.as_str()), count, detail)
    }
}

/// What a request counts for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub calls: u32,
    pub octets: u32,
}

impl Share {
    pub const NONE: Share = Share { calls: 0, octets: 0 };
}

/// The count of a request on its way from the thread that read it to the thread that runs it.
#[derive(Debug)]
pub(crate) struct Claim {
    /// `None` when the count was handed on.
    account: Option<Arc<PeerAccount>>,
    octets: u32,
}

impl Claim {
    /// Counts a request.
    ///
    /// # Errors
    /// The limit that it would exceed.
    pub fn of(account: &Arc<PeerAccount>, arrived: &Arrived) -> Result<Claim, PeerLimit> {
        let Share { octets, .. } = account.share(arrived)?;
        Ok(Claim { account: Some(account.clone()), octets })
    }

    /// Hands the count to the thread that is about to run the request.
    pub fn hand_on(claim: Option<Claim>, arrived: &mut Arrived) {
        if let Some(mut claim) = claim {
            claim.account = None;
            arrived.set_share(PeerShare::Claimed);
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(account) = &self.account {
            account.release(Share { calls: 1, octets: self.octets });
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const KEY: PeerKey = PeerKey::User(7);

    fn account(calls: usize, octets: usize) -> PeerAccount {
        PeerAccount::new(KEY, PeerLimits::configured(calls, octets)).unwrap()
    }

    #[test]
    fn nothing_is_counted_without_a_limit_or_a_name() {
        assert!(PeerAccount::new(KEY, PeerLimits::NONE).is_none());
        assert!(PeerAccount::new(KEY, PeerLimits::configured(0, 0)).is_none());
        assert!(PeerAccount::new(PeerKey::Unknown, PeerLimits::configured(1, 1)).is_none());
    }

    #[test]
    fn a_request_beyond_a_limit_leaves_the_counts_as_they_were() {
        let account = account(2, 100);
        assert_eq!(account.take_request(60), Ok(()));
        assert_eq!(account.take_request(41), Err(PeerLimit::Octets));
        assert_eq!((account.calls(), account.octets()), (1, 60));
        assert_eq!(account.take_request(40), Ok(()));
        assert_eq!(account.take_request(0), Err(PeerLimit::Calls));
        assert_eq!((account.calls(), account.octets()), (2, 100));
        account.release(Share { calls: 1, octets: 60 });
        assert_eq!(account.take_request(usize::MAX), Err(PeerLimit::Octets));
        assert_eq!((account.calls(), account.octets()), (1, 40));
    }

    #[test]
    fn refusals_name_client_number_and_option_and_are_logged_less_and_less() {
        let account = account(2, 100);
        let (why, count, detail) = account.refuse(PeerLimit::Calls);
        let why = why.unwrap();
        assert!(
            why.contains("user 7 has as many calls")
                && why.contains(": 2 (")
                && why.contains("-ORBMaxPeerCalls"),
            "{why}"
        );
        assert_eq!(count, 1);
        assert_eq!(isorb_giop::context::read_exception_detail(detail).as_deref(), Ok(why));
        let (why, ..) = account.refuse(PeerLimit::Octets);
        assert!(why.unwrap().contains("100 octets") && why.unwrap().contains("-ORBMaxPeerOctets"));
        let logged = (0..100).filter(|_| account.refuse(PeerLimit::Octets).0.is_some()).count();
        assert_eq!(logged, 5, "4, 8, 16, 32 and 64");
    }

    #[test]
    fn threads_together_never_exceed_the_limit() {
        let account = account(3, 30);
        let most = AtomicUsize::new(0);
        std::thread::scope(|threads| {
            for _ in 0..8 {
                threads.spawn(|| {
                    for _ in 0..1_000 {
                        if account.take_request(10).is_ok() {
                            // Counts only those that were admitted.
                            let inside = most.fetch_add(1, Ordering::SeqCst) + 1;
                            assert!(inside <= 3, "{inside} requests");
                            most.fetch_sub(1, Ordering::SeqCst);
                            account.release(Share { calls: 1, octets: 10 });
                        }
                    }
                });
            }
        });
        assert_eq!((account.calls(), account.octets()), (0, 0));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Never more requests run than may, and what ends or is refused counts no more.
    #[test]
    fn loom_requests_of_a_client_keep_to_its_limit() {
        loom::model(|| {
            let account = PeerAccount::new(PeerKey::User(1), PeerLimits::configured(1, 10)).unwrap();
            let both = Arc::new((account, AtomicUsize::new(0)));
            let call = |both: &(PeerAccount, AtomicUsize)| {
                let (account, running) = both;
                if account.take_request(10).is_ok() {
                    assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0);
                    running.fetch_sub(1, Ordering::SeqCst);
                    account.release(Share { calls: 1, octets: 10 });
                }
            };
            let other = thread::spawn({
                let both = both.clone();
                move || call(&both)
            });
            call(&both);
            other.join().unwrap();
            assert_eq!((both.0.calls(), both.0.octets()), (0, 0));
        });
    }
}
