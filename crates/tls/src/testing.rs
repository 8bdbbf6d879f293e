//! Certificates for tests, with the feature `testing`.

use crate::TlsConfig;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer, KeyIdMethod,
    KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::io;
use std::path::{Path, PathBuf};
use webpki::EndEntityCert;

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

    /// Replaces the list of the revoked certificates, `revoked.pem`, by one with the certificates
    /// in these files `NAME.pem`. Returns its path.
    ///
    /// # Errors
    /// A file cannot be read, or the folder cannot be written.
    pub fn revoke(&self, names: &[&str]) -> io::Result<PathBuf> {
        let revoked = |name: &&str| {
            let file = self.folder.join(format!("{name}.pem"));
            let der = CertificateDer::from_pem_file(file).map_err(io::Error::other)?;
            let certificate = EndEntityCert::try_from(&der).map_err(io::Error::other)?;
            Ok(RevokedCertParams {
                serial_number: SerialNumber::from_slice(certificate.serial()),
                revocation_time: date_time_ymd(2026, 1, 1),
                reason_code: None,
                invalidity_date: None,
            })
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2026, 1, 1),
            next_update: date_time_ymd(2026, 1, 2),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: names.iter().map(revoked).collect::<io::Result<_>>()?,
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.issuer).and_then(|list| list.pem()).map_err(io::Error::other)?;
        let file = self.folder.join("revoked.pem");
        // At once, since servers look at it at any time.
        std::fs::write(self.folder.join("revoked.new"), list)?;
        std::fs::rename(self.folder.join("revoked.new"), &file)?;
        Ok(file)
    }
}
