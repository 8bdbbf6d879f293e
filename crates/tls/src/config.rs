//! What the transport is told.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Whether clients must show who they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// They must, by a certificate that one of the authorities signed.
    #[default]
    Required,
    /// They may; one that they do show must be good.
    Wanted,
    /// They are not asked.
    No,
}

/// Certificates and rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// PEM file with the own certificate, then those that lead from it to an authority. A client may have none.
    pub certificate: Option<PathBuf>,
    /// PEM file with the key of that certificate. May be the same file.
    pub key: Option<PathBuf>,
    /// PEM file with the certificates of the authorities that peers' certificates must lead to.
    pub authorities: PathBuf,
    /// What is asked of clients.
    pub client_certificates: ClientCertificates,
    /// Whether a server's certificate must be for the host that was called. Where references name addresses and certificates name
    /// parts of a plant, the authority alone decides.
    pub check_names: bool,
    /// How long a handshake may take, on either side.
    pub handshake_timeout: Duration,
}

impl TlsConfig {
    /// With the own certificate and key, and the authorities of peers; clients must show a certificate, names are checked, a
    /// handshake may take ten seconds.
    pub fn new(
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
        authorities: impl Into<PathBuf>,
    ) -> TlsConfig {
        TlsConfig {
            certificate: Some(certificate.into()),
            key: Some(key.into()),
            authorities: authorities.into(),
            client_certificates: ClientCertificates::Required,
            check_names: true,
            handshake_timeout: Duration::from_secs(10),
        }
    }
}

/// Why there is no TLS.
#[derive(Clone, Debug, PartialEq)]
pub enum TlsError {
    /// A file cannot be read, or has no PEM of that kind in it.
    File {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        wanted: &'static str,
        /// What went wrong.
        why: String,
    },
    /// Certificate, key and authorities do not go together.
    Rejected(rustls::Error),
    /// Only one of certificate and key was given.
    HalfIdentity,
    /// The clients' authorities cannot be used.
    Authorities(String),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsError::File { path, wanted, why } => {
                write!(f, "{}: no {wanted} could be read: {why}", path.display())
            }
            TlsError::Rejected(error) => write!(f, "certificate and key are of no use: {error}"),
            TlsError::HalfIdentity => f.write_str("give both a certificate and its key, or neither"),
            TlsError::Authorities(why) => write!(f, "the authorities are of no use: {why}"),
        }
    }
}

impl std::error::Error for TlsError {}

impl From<rustls::Error> for TlsError {
    fn from(error: rustls::Error) -> TlsError {
        TlsError::Rejected(error)
    }
}
