//! An authority and a certificate for the pairs that speak TLS.

use super::temporary;
use isorb_tls::testing::Authority;
use std::path::PathBuf;

/// A folder with `authority.pem`, `peer.pem`, `peer.key`, and the last two in `peer.both`; removed
/// with this value.
pub(super) struct Certificates(PathBuf);

impl Certificates {
    pub fn new() -> Certificates {
        let folder = temporary(".tls");
        let both = Authority::at(&folder).and_then(|authority| {
            authority.sign("peer")?;
            let read = |file: &str| std::fs::read_to_string(folder.join(file));
            std::fs::write(folder.join("peer.both"), read("peer.pem")? + &read("peer.key")?)
        });
        if let Err(error) = both {
            println!("FAIL no certificates: {error}");
        }
        Certificates(folder)
    }

    pub fn folder(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
