//! Whether a sender receives at the address that its datagrams name.
//!
//! Any host can write another's address into a datagram, and a small request can have a large
//! reply: a server would then send to the other host many times what it received. So an address
//! gets at most [`Udp::amplification`](super::Udp) times the octets that came from it, until it has
//! answered a challenge: a datagram of 24 octets, most of them random. A reply above that waits for
//! the answer. (RFC 9000, 8.1 does so for QUIC.)
//!
//! ```text
//!   "isUA" │ kind: 1 challenge, 2 answer │ three zeros │ 16 random octets
//! ```
//!
//! Clients of isorb answer, while they wait for their reply. Others do not know the datagram: no
//! GIOP message begins so.

use isorb_rt::sync::PiMutex;
use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, Ordering};

const MAGIC: [u8; 4] = *b"isUA";
const CHALLENGE: u8 = 1;
const ANSWER: u8 = 2;
const COOKIE: usize = 16;
/// The octets of a challenge and of its answer.
pub(super) const LENGTH: usize = 8 + COOKIE;
/// Most octets of replies that wait for an address to be proved: one of the longest.
const MAX_HELD: usize = super::ROOM;

pub(super) type Message = [u8; LENGTH];

/// What a client answers to a datagram; `None` if it is no challenge.
pub(super) fn answer_to(datagram: &[u8]) -> Option<Message> {
    let mut answer: Message = datagram.try_into().ok()?;
    (answer[..8] == head(CHALLENGE)).then(|| {
        answer[4] = ANSWER;
        answer
    })
}

/// The octets of an answer that only the challenged one knows; `None` for other datagrams.
pub(super) fn answered(datagram: &[u8]) -> Option<[u8; COOKIE]> {
    let answer: &Message = datagram.try_into().ok()?;
    let (head_of, cookie) = answer.split_at(8);
    (head_of == head(ANSWER)).then(|| cookie.try_into().ok())?
}

fn head(kind: u8) -> [u8; 8] {
    let [a, b, c, d] = MAGIC;
    [a, b, c, d, kind, 0, 0, 0]
}

/// What may be sent to one address.
#[derive(Debug)]
pub(super) struct AddressProof {
    proved: AtomicBool,
    state: PiMutex<Unproved>,
}

#[derive(Debug, Default)]
struct Unproved {
    factor: u64,
    received: u64,
    sent: u64,
    cookie: Option<[u8; COOKIE]>,
    held: Vec<Box<[u8]>>,
}

/// What becomes of a reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Send it.
    Send,
    /// It waits; send this challenge, unless there is nothing left for that either.
    Wait(Option<Message>),
    /// Too many replies wait.
    Drop,
}

impl AddressProof {
    /// Of a new sender. A factor of 0: its address counts as proved.
    pub fn new(factor: u32) -> AddressProof {
        AddressProof {
            proved: AtomicBool::new(factor == 0),
            state: PiMutex::new(Unproved { factor: factor.into(), ..Unproved::default() }),
        }
    }

    /// Counts a datagram of the sender.
    #[inline]
    pub fn received(&self, octets: usize) {
        if !self.proved.load(Ordering::Relaxed) {
            self.state.lock().received += octets as u64;
        }
    }

    /// Decides about a reply of so many octets; one that waits is copied.
    ///
    /// # Real-time
    /// Once the address is proved, one load. Before, a short lock; a reply that waits is allocated.
    #[inline]
    pub fn decide(&self, pieces: &[IoSlice<'_>], octets: usize) -> Verdict {
        if self.proved.load(Ordering::Acquire) { Verdict::Send } else { self.decide_unproved(pieces, octets) }
    }

    #[cold]
    fn decide_unproved(&self, pieces: &[IoSlice<'_>], octets: usize) -> Verdict {
        let mut state = self.state.lock();
        // Proved since.
        if self.proved.load(Ordering::Relaxed) {
            return Verdict::Send;
        }
        if state.take(octets) {
            return Verdict::Send;
        }
        let held: usize = state.held.iter().map(|reply| reply.len()).sum();
        if held + octets > MAX_HELD {
            return Verdict::Drop;
        }
        let mut reply = Vec::with_capacity(octets);
        pieces.iter().for_each(|piece| reply.extend_from_slice(piece));
        state.held.push(reply.into());
        if !state.take(LENGTH) {
            return Verdict::Wait(None);
        }
        let cookie = *state.cookie.get_or_insert_with(|| {
            let mut cookie = [0; COOKIE];
            cookie[..8].copy_from_slice(&isorb_rt::random_u64().to_be_bytes());
            cookie[8..].copy_from_slice(&isorb_rt::random_u64().to_be_bytes());
            cookie
        });
        let mut challenge: Message = [0; LENGTH];
        challenge[..8].copy_from_slice(&head(CHALLENGE));
        challenge[8..].copy_from_slice(&cookie);
        Verdict::Wait(Some(challenge))
    }

    /// Takes an answer. Returns the replies that waited for it; `None` if it is not the answer.
    pub fn prove(&self, cookie: [u8; COOKIE]) -> Option<Vec<Box<[u8]>>> {
        let mut state = self.state.lock();
        if state.cookie != Some(cookie) {
            return None;
        }
        self.proved.store(true, Ordering::Release);
        Some(std::mem::take(&mut state.held))
    }
}

impl Unproved {
    /// Counts octets to be sent, if they are not too many.
    fn take(&mut self, octets: usize) -> bool {
        let sent = self.sent + octets as u64;
        let fits = sent <= self.received.saturating_mul(self.factor);
        if fits {
            self.sent = sent;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(proof: &AddressProof, octets: usize) -> Verdict {
        proof.decide(&[IoSlice::new(&vec![7; octets])], octets)
    }

    #[test]
    fn an_address_gets_three_times_what_came_from_it_until_it_answers() {
        let proof = AddressProof::new(3);
        proof.received(100);
        assert_eq!(decide(&proof, 200), Verdict::Send);
        let Verdict::Wait(Some(challenge)) = decide(&proof, 101) else { panic!("it is challenged") };
        // 300 allowed, 224 sent.
        assert_eq!(decide(&proof, 76), Verdict::Send);
        assert_eq!(decide(&proof, 1), Verdict::Wait(None));
        assert_eq!(decide(&proof, MAX_HELD), Verdict::Drop);
        let answer = answer_to(&challenge).unwrap();
        let mut wrong = answered(&answer).unwrap();
        wrong[15] ^= 1;
        assert_eq!(proof.prove(wrong), None);
        assert_eq!(decide(&proof, 1), Verdict::Wait(None));
        let waited = proof.prove(answered(&answer).unwrap()).unwrap();
        assert_eq!(waited.iter().map(|reply| reply.len()).collect::<Vec<_>>(), [101, 1, 1]);
        assert_eq!(decide(&proof, 1 << 20), Verdict::Send);
    }

    #[test]
    fn an_address_that_was_not_challenged_proves_nothing() {
        let proof = AddressProof::new(3);
        assert_eq!(proof.prove([0; COOKIE]), None);
        assert_eq!(decide(&proof, 1), Verdict::Wait(None));
        let proof = AddressProof::new(0);
        assert_eq!(decide(&proof, 1 << 20), Verdict::Send);
    }

    #[test]
    fn other_datagrams_are_neither_challenge_nor_answer() {
        let mut challenge = [9; LENGTH];
        challenge[..8].copy_from_slice(&head(CHALLENGE));
        assert!(answer_to(&challenge).is_some() && answered(&challenge).is_none());
        for datagram in
            [&challenge[..LENGTH - 1], &[&challenge[..], &[0]].concat(), b"", b"GIOP\x01\x02\x01\x00"]
        {
            assert!(answer_to(datagram).is_none() && answered(datagram).is_none());
        }
        // An answer is not answered: two sides would do so for ever.
        let answer = answer_to(&challenge).unwrap();
        assert!(answer_to(&answer).is_none() && answered(&answer) == Some([9; COOKIE]));
    }
}
