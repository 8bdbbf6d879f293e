//! Tokens that were found right before.

use isorb::Principal;
use isorb_rt::sync::PiMutex;
use ring::hmac;
use std::sync::Arc;

/// The most tokens that are kept. The one that was not used for the longest time gives way.
const MOST: usize = 256;

/// Tokens that a check accepted, by a keyed hash: the passwords are not kept.
pub(crate) struct VerifiedTokens {
    key: hmac::Key,
    tokens: PiMutex<Tokens>,
}

#[derive(Default)]
struct Tokens {
    clock: u64,
    known: Vec<Token>,
}

struct Token {
    hash: [u8; 32],
    generation: u64,
    used: u64,
    user: Arc<Principal>,
}

impl VerifiedTokens {
    pub fn new() -> VerifiedTokens {
        let random: Vec<u8> = (0..4).flat_map(|_| isorb_rt::random_u64().to_ne_bytes()).collect();
        let tokens = Tokens { clock: 0, known: Vec::with_capacity(MOST) };
        VerifiedTokens { key: hmac::Key::new(hmac::HMAC_SHA256, &random), tokens: PiMutex::new(tokens) }
    }

    /// The user of a token that was accepted since `generation` began.
    pub fn user(&self, token: &[u8], generation: u64) -> Option<Arc<Principal>> {
        let hash = self.hash(token);
        let mut tokens = self.tokens.lock();
        tokens.clock += 1;
        let clock = tokens.clock;
        let known = tokens.known.iter_mut().find(|it| it.hash == hash && it.generation == generation)?;
        known.used = clock;
        Some(known.user.clone())
    }

    /// Keeps an accepted token.
    pub fn add(&self, token: &[u8], generation: u64, user: Arc<Principal>) {
        let hash = self.hash(token);
        let mut tokens = self.tokens.lock();
        tokens.known.retain(|it| it.generation == generation && it.hash != hash);
        if tokens.known.len() == MOST
            && let Some(oldest) = (0..MOST).min_by_key(|at| tokens.known[*at].used)
        {
            tokens.known.swap_remove(oldest);
        }
        tokens.clock += 1;
        let used = tokens.clock;
        tokens.known.push(Token { hash, generation, used, user });
    }

    fn hash(&self, token: &[u8]) -> [u8; 32] {
        let mut hash = [0; 32];
        hash.copy_from_slice(hmac::sign(&self.key, token).as_ref());
        hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> Arc<Principal> {
        Arc::new(Principal { name: name.into(), asserted_by: None })
    }

    #[test]
    fn a_token_counts_until_the_generation_ends() {
        let tokens = VerifiedTokens::new();
        tokens.add(b"token", 1, user("ada"));
        assert_eq!(tokens.user(b"token", 1).unwrap().name, "ada");
        assert_eq!(tokens.user(b"other", 1), None);
        assert_eq!(tokens.user(b"token", 2), None);
    }

    #[test]
    fn the_least_recently_used_token_gives_way() {
        let tokens = VerifiedTokens::new();
        for number in 0..MOST as u32 {
            tokens.add(&number.to_ne_bytes(), 0, user("u"));
        }
        assert!(tokens.user(&0u32.to_ne_bytes(), 0).is_some());
        tokens.add(b"new", 0, user("new"));
        assert!(tokens.user(&0u32.to_ne_bytes(), 0).is_some());
        assert!(tokens.user(&1u32.to_ne_bytes(), 0).is_none());
        assert!(tokens.user(b"new", 0).is_some());
    }
}
