//! Certificates for tests, below cargo's folder for such files.
#![allow(dead_code)]

use isorb_tls::TlsConfig;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// An authority, and a folder for what it signs.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub folder: PathBuf,
}

impl Authority {
    pub fn new() -> Authority {
        static N: AtomicU32 = AtomicU32::new(0);
        let n = N.fetch_add(1, Ordering::Relaxed);
        let folder =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("authority-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(folder.join("authority.pem"), certificate.pem()).unwrap();
        Authority { issuer: Issuer::new(params, key), folder }
    }

    /// Signs a certificate for localhost; its files are named after `name`, and replaced if they are there.
    pub fn sign(&self, name: &str) {
        let key = KeyPair::generate().unwrap();
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), name.to_owned()];
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        std::fs::write(self.folder.join(format!("{name}.pem")), certificate.pem()).unwrap();
        std::fs::write(self.folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }

    /// A configuration with a certificate of its own.
    pub fn member(&self, name: &str) -> TlsConfig {
        self.sign(name);
        let file = |suffix: &str| self.folder.join(format!("{name}.{suffix}"));
        TlsConfig::new(file("pem"), file("key"), self.folder.join("authority.pem"))
    }
}
