//! Users by a file with salted hashes.

use crate::check::CredentialCheck;
use crate::file::{FileError, read_secret};
use isorb_rt::sync::PiMutex;
use ring::pbkdf2;
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The name of the hash in a file: PBKDF2 with HMAC-SHA-256 (RFC 8018).
const HASH: &str = "pbkdf2-sha256";
/// Rounds of a new hash.
const ROUNDS: u32 = 600_000;
/// The rounds that a file may ask for.
const ALLOWED_ROUNDS: std::ops::RangeInclusive<u32> = 1_000..=10_000_000;

/// Users with salted hashes of their passwords, from a file. A line for each:
///
/// ```text
/// # name:hash:rounds:salt:hash of the password, the last two in hexadecimal
/// ada:pbkdf2-sha256:600000:6f0c…:91b2…
/// ```
///
/// [`Users::line`] makes such a line.
pub struct Users {
    file: Option<PathBuf>,
    users: PiMutex<Arc<HashMap<String, Hash>>>,
    generation: AtomicU64,
}

#[derive(Clone)]
struct Hash {
    rounds: NonZeroU32,
    salt: Vec<u8>,
    hash: Vec<u8>,
}

impl Users {
    /// Reads a file. It belongs to the user of this process or to root, and others cannot read it.
    ///
    /// # Errors
    /// The file, the line, and what is wrong.
    pub fn read(file: &Path) -> Result<Users, FileError> {
        let text = read_secret(file)?;
        let users = Users::parse(&text, &file.display().to_string())?;
        Ok(Users { file: Some(file.into()), ..users })
    }

    /// The users in `text`; `name` stands for it in errors.
    ///
    /// # Errors
    /// As [`Users::read`].
    pub fn parse(text: &str, name: &str) -> Result<Users, FileError> {
        let mut users = HashMap::new();
        for (at, line) in text.lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |why: &str| FileError(format!("{name}:{}: {why}", at + 1));
            let (user, hash) = parse_line(line).map_err(wrong)?;
            if users.insert(user.to_owned(), hash).is_some() {
                return Err(wrong(&format!("user {user:?} stands in an earlier line too")));
            }
        }
        let users = PiMutex::new(Arc::new(users));
        Ok(Users { file: None, users, generation: AtomicU64::new(1) })
    }

    /// Reads the file again, for example at SIGHUP. The new users count from the next request on.
    ///
    /// # Errors
    /// As [`Users::read`]; the users before stay in force.
    pub fn reload(&self) -> Result<(), FileError> {
        let Some(file) = &self.file else { return Ok(()) };
        let new = Users::read(file)?;
        *self.users.lock() = new.users.lock().clone();
        self.generation.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// The number of users.
    pub fn count(&self) -> usize {
        self.users.lock().len()
    }

    /// A line of a file for a user, with a new salt.
    ///
    /// # Errors
    /// A name that is empty, or has a colon or a line break; an empty password.
    pub fn line(user: &str, password: &[u8]) -> Result<String, FileError> {
        let salt: Vec<u8> = (0..2).flat_map(|_| isorb_rt::random_u64().to_ne_bytes()).collect();
        Users::line_with(user, password, &salt, ROUNDS)
    }

    fn line_with(user: &str, password: &[u8], salt: &[u8], rounds: u32) -> Result<String, FileError> {
        if user.is_empty() || user.starts_with('#') || user.contains([':', '\n', '\r']) {
            return Err(FileError("a user's name is not empty, has no colon, and no # at its begin".into()));
        }
        if password.is_empty() {
            return Err(FileError(format!("the password of {user} is empty")));
        }
        let mut hash = [0; 32];
        let rounds = NonZeroU32::new(rounds).unwrap_or(NonZeroU32::MIN);
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, salt, password, &mut hash);
        Ok(format!("{user}:{HASH}:{rounds}:{}:{}", hex(salt), hex(&hash)))
    }
}

impl CredentialCheck for Users {
    /// Takes as long for an unknown user as for a known one.
    fn is_valid(&self, user: &str, password: &[u8]) -> bool {
        let users = self.users.lock().clone();
        let unknown = || Hash {
            rounds: users.values().next().map_or(NonZeroU32::MIN, |hash| hash.rounds),
            salt: vec![0; 16],
            hash: vec![0; 32],
        };
        let known = users.get(user).cloned();
        let is_known = known.is_some();
        let Hash { rounds, salt, hash } = known.unwrap_or_else(unknown);
        pbkdf2::verify(pbkdf2::PBKDF2_HMAC_SHA256, rounds, &salt, password, &hash).is_ok() && is_known
    }

    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
}

impl std::fmt::Debug for Users {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Users").field("file", &self.file).field("count", &self.count()).finish()
    }
}

fn parse_line(line: &str) -> Result<(&str, Hash), &'static str> {
    let parts: Vec<&str> = line.trim_end().split(':').collect();
    let [user, kind, rounds, salt, hash] = parts[..] else {
        return Err("a line is NAME:pbkdf2-sha256:ROUNDS:SALT:HASH");
    };
    if user.is_empty() {
        return Err("the user's name is empty");
    }
    if kind != HASH {
        return Err("the only kind of hash is pbkdf2-sha256; passwords do not stand here themselves");
    }
    let rounds = rounds.parse().ok().filter(|rounds| ALLOWED_ROUNDS.contains(rounds));
    let rounds = rounds.and_then(NonZeroU32::new).ok_or("the rounds are from 1000 to 10000000")?;
    let salt = unhex(salt).filter(|salt| (8..=64).contains(&salt.len()));
    let salt = salt.ok_or("the salt has from 8 to 64 octets in hexadecimal")?;
    let hash = unhex(hash).filter(|hash| hash.len() == 32).ok_or("the hash has 32 octets in hexadecimal")?;
    Ok((user, Hash { rounds, salt, hash }))
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    let octet = |pair: &[u8; 2]| {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8)
    };
    pairs.iter().map(octet).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(user: &str, password: &str) -> String {
        Users::line_with(user, password.as_bytes(), &[7; 16], 1_000).unwrap()
    }

    #[test]
    fn only_the_users_own_password_is_right() {
        let text = format!("# plant\n\n{}\n{}\n", line("ada", "engine"), line("bob", "crane"));
        let users = Users::parse(&text, "users").unwrap();
        assert_eq!(users.count(), 2);
        assert!(users.is_valid("ada", b"engine") && users.is_valid("bob", b"crane"));
        for (user, password) in [("ada", "crane"), ("ada", ""), ("Ada", "engine"), ("", ""), ("eve", "x")] {
            assert!(!users.is_valid(user, password.as_bytes()), "{user}");
        }
        assert!(!Users::parse("", "users").unwrap().is_valid("ada", b""));
    }

    #[test]
    fn errors_say_where_and_what_to_do() {
        let twice = format!("{}\n{}\n", line("ada", "a"), line("ada", "b"));
        for (text, at, why) in [
            ("ada:secret\n", 1, "a line is NAME:"),
            ("#\nada:plain:1000:00:00\n", 2, "passwords do not stand here"),
            ("ada:pbkdf2-sha256:5:0011223344556677:00\n", 1, "rounds"),
            ("ada:pbkdf2-sha256:1000:00:00\n", 1, "salt"),
            ("ada:pbkdf2-sha256:1000:0011223344556677:0g\n", 1, "hash has 32"),
            (&twice, 2, "earlier line"),
        ] {
            let error = Users::parse(text, "users").unwrap_err().to_string();
            assert!(error.starts_with(&format!("users:{at}: ")) && error.contains(why), "{error}");
        }
        assert!(Users::line_with("a:b", b"x", &[0; 16], 1_000).is_err());
        assert!(Users::line_with("a", b"", &[0; 16], 1_000).is_err());
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = isorb_testkit::TempFolder::new();
        let file = folder.path().join("users");
        std::fs::write(&file, line("ada", "engine")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(Users::read(&file).unwrap_err().to_string().contains("chmod 600"));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let users = Users::read(&file).unwrap();
        let before = users.generation();
        std::fs::write(&file, "nonsense").unwrap();
        assert!(users.reload().is_err());
        assert!(users.is_valid("ada", b"engine") && users.generation() == before);
        std::fs::write(&file, line("ada", "other")).unwrap();
        users.reload().unwrap();
        assert!(!users.is_valid("ada", b"engine") && users.generation() != before);
    }
}
