//! The configuration.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Whether clients must authenticate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// They must, with a certificate that one of the authorities signed.
    #[default]
    Required,
    /// They may. A certificate that they send must be valid.
    Wanted,
    /// They are not asked for a certificate.
    No,
}

/// Certificates and checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// PEM file with the own certificate, followed by the chain to an authority. A client may have
    /// none.
    pub certificate: Option<PathBuf>,
    /// PEM file with the key of that certificate. May be the same file.
    pub key: Option<PathBuf>,
    /// PEM file with the certificates of the authorities that must have signed the peers'
    /// certificates.
    pub authorities: PathBuf,
    /// PEM file with a certificate revocation list of each authority, also of those between the
    /// peers and the authorities. `None` asks for no lists.
    pub revocations: Option<PathBuf>,
    /// Whether clients need certificates.
    pub client_certificates: ClientCertificates,
    /// Whether a server's certificate must be for the host that was called. If references have
    /// addresses and certificates have names of components, set it to false: the authority alone
    /// decides.
    pub check_names: bool,
    /// How long a handshake may take, on either side.
    pub handshake_timeout: Duration,
}

impl TlsConfig {
    /// A configuration in which clients need a certificate, names are checked, no lists of revoked
    /// certificates are known, and a handshake may take ten seconds.
    pub fn new(
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
        authorities: impl Into<PathBuf>,
    ) -> TlsConfig {
        TlsConfig {
            certificate: Some(certificate.into()),
            key: Some(key.into()),
            authorities: authorities.into(),
            revocations: None,
            client_certificates: ClientCertificates::Required,
            check_names: true,
            handshake_timeout: Duration::from_secs(10),
        }
    }
}

/// Why a configuration is unusable.
#[derive(Clone, Debug, PartialEq)]
pub enum TlsError {
    /// A file cannot be read, or has no PEM data of the wanted kind.
    File {
        /// The file.
        path: PathBuf,
        /// The wanted kind of data.
        wanted: &'static str,
        /// The error.
        why: String,
    },
    /// Certificate, key and authorities do not fit together.
    Rejected(rustls::Error),
    /// Only one of certificate and key was given.
    HalfIdentity,
    /// The authorities are unusable.
    Authorities(String),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsError::File { path, wanted, why } => {
                write!(f, "{}: no {wanted} could be read: {why}", path.display())
            }
            TlsError::Rejected(error) => write!(f, "certificate and key are unusable: {error}"),
            TlsError::HalfIdentity => f.write_str("give both a certificate and its key, or neither"),
            TlsError::Authorities(why) => write!(f, "the authorities are unusable: {why}"),
        }
    }
}

impl std::error::Error for TlsError {}

impl From<rustls::Error> for TlsError {
    fn from(error: rustls::Error) -> TlsError {
        TlsError::Rejected(error)
    }
}
