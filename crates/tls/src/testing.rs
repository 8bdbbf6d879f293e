//! Certificates for tests, with the feature `testing`.

use crate::TlsConfig;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use std::io;
use std::path::{Path, PathBuf};

/// An authority, in a folder with the certificates that it signs.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: PathBuf,
}

impl Authority {
    /// Makes `folder` and a new authority, with its certificate `authority.pem`.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn at(folder: &Path) -> io::Result<Authority> {
        std::fs::create_dir_all(folder)?;
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let mut params = CertificateParams::new(Vec::new()).map_err(io::Error::other)?;
        // With the name of a certificate that it signs, it would be taken for that one.
        params.distinguished_name.push(DnType::CommonName, "authority");
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).map_err(io::Error::other)?;
        std::fs::write(folder.join("authority.pem"), certificate.pem())?;
        Ok(Authority { issuer: Issuer::new(params, key), folder: folder.into() })
    }

    /// Where its files are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Signs a certificate for `localhost`, `127.0.0.1`, `::1` and `name`. It replaces the files
    /// `name.pem` and `name.key`.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn sign(&self, name: &str) -> io::Result<()> {
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let names: Vec<String> = ["localhost", "127.0.0.1", "::1", name].map(str::to_owned).into();
        let mut params = CertificateParams::new(names).map_err(io::Error::other)?;
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.issuer).map_err(io::Error::other)?;
        std::fs::write(self.folder.join(format!("{name}.pem")), certificate.pem())?;
        std::fs::write(self.folder.join(format!("{name}.key")), key.serialize_pem())
    }

    /// Signs a certificate for `name` and returns a configuration with it.
    ///
    /// # Errors
    /// As [`Authority::sign`].
    pub fn member(&self, name: &str) -> io::Result<TlsConfig> {
        self.sign(name)?;
        let file = |suffix: &str| self.folder.join(format!("{name}.{suffix}"));
        Ok(TlsConfig::new(file("pem"), file("key"), self.folder.join("authority.pem")))
    }
}
