//! Which hosts a member of a federation exchanges events with, and the key that members share.

use ring::hmac;
use std::fmt;

/// The least octets of a key.
pub const MIN_KEY: usize = 16;

/// The octets of a proof: an HMAC with SHA-256.
pub(crate) const PROOF: usize = 32;

/// Which hosts a member exchanges events with. A refused neighbour or datagram is counted
/// ([`FederationCounts::unauthenticated`](super::FederationCounts::unauthenticated)).
#[derive(Clone, Debug, Default)]
pub enum Security {
    /// This host only, by loopback addresses, unix sockets and memory segments; and others over
    /// TLS.
    #[default]
    Loopback,
    /// All hosts with this key. Datagrams are authenticated one by one, links over the ORB when
    /// they are joined. Nothing is encrypted. A host between two members can change the messages of
    /// a link over TCP; TLS prevents that.
    Key(MemberKey),
    /// All hosts, without authentication.
    Insecure,
}

/// A key that all members of a federation have.
#[derive(Clone)]
pub struct MemberKey(hmac::Key);

impl MemberKey {
    /// The key with these octets. `None` if they are fewer than [`MIN_KEY`].
    pub fn new(secret: &[u8]) -> Option<MemberKey> {
        (secret.len() >= MIN_KEY).then(|| MemberKey(hmac::Key::new(hmac::HMAC_SHA256, secret)))
    }

    /// The proof that a holder of the key wrote the message.
    ///
    /// # Real-time
    /// Does not allocate. Its time grows with the message.
    pub(crate) fn prove(&self, message: &[u8]) -> [u8; PROOF] {
        let mut proof = [0; PROOF];
        proof.copy_from_slice(hmac::sign(&self.0, message).as_ref());
        proof
    }

    /// Returns true if `proof` is that of the message. As [`prove`](Self::prove).
    pub(crate) fn verifies(&self, message: &[u8], proof: &[u8]) -> bool {
        hmac::verify(&self.0, message, proof).is_ok()
    }
}

impl fmt::Debug for MemberKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemberKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_key_proves_and_only_the_message() {
        let [key, other] = [1, 2].map(|octet| MemberKey::new(&[octet; MIN_KEY]).unwrap());
        let proof = key.prove(b"message");
        assert!(key.verifies(b"message", &proof));
        assert!(!other.verifies(b"message", &proof) && !key.verifies(b"Message", &proof));
        assert!(!key.verifies(b"message", &proof[1..]) && !key.verifies(b"message", &[]));
        assert!(MemberKey::new(&[1; MIN_KEY - 1]).is_none());
        assert!(!format!("{key:?}").contains('1'));
    }
}
