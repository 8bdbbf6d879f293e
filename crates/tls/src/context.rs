//! The current certificates, which are read again when their files change.

use crate::config::{ClientCertificates, TlsConfig, TlsError};
use crate::verify::AnyName;
use isorb_rt::sync::PiMutex;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The settings of both roles, from one state of the files.
#[derive(Clone, Debug)]
pub(crate) struct Roles {
    pub client: Arc<ClientConfig>,
    /// `None` without an own certificate.
    pub server: Option<Arc<ServerConfig>>,
}

/// For each file its inode, length and modification time; `None` if it cannot be read. The time
/// alone has too coarse steps.
type Stamp = Vec<Option<(u64, u64, i64, i64)>>;

/// Unusable files are read again when they change, and after this time, since a step of the file
/// system's clock may hide a change.
const RETRY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Context {
    config: TlsConfig,
    current: PiMutex<(Stamp, Roles)>,
    unusable: PiMutex<Option<(Stamp, Instant)>>,
}

impl Context {
    pub fn new(config: TlsConfig) -> Result<Context, TlsError> {
        let stamp = stamp(&config);
        let roles = read(&config)?;
        Ok(Context { config, current: PiMutex::new((stamp, roles)), unusable: PiMutex::new(None) })
    }

    pub fn config(&self) -> &TlsConfig {
        &self.config
    }

    /// The settings for the next handshake, from changed files if there are any. If these are
    /// unusable, the previous settings stay, and the error is returned once for each state of the
    /// files.
    pub fn current(&self) -> (Roles, Option<TlsError>) {
        let mut current = self.current.lock();
        let stamp = stamp(&self.config);
        if stamp == current.0 {
            return (current.1.clone(), None);
        }
        let mut unusable = self.unusable.lock();
        let known = unusable.as_ref().filter(|(known, _)| *known == stamp).map(|(_, at)| *at);
        if known.is_some_and(|at| at.elapsed() < RETRY) {
            return (current.1.clone(), None);
        }
        match read(&self.config) {
            Ok(roles) => {
                (*current, *unusable) = ((stamp, roles), None);
                (current.1.clone(), None)
            }
            // Half of the files may have been replaced.
            Err(error) => {
                *unusable = Some((stamp, Instant::now()));
                (current.1.clone(), known.is_none().then_some(error))
            }
        }
    }
}

fn stamp(config: &TlsConfig) -> Stamp {
    let files = [
        config.certificate.as_ref(),
        config.key.as_ref(),
        Some(&config.authorities),
        config.revocations.as_ref(),
    ];
    let known = |path: &PathBuf| {
        let file = std::fs::metadata(path).ok()?;
        Some((file.ino(), file.size(), file.mtime(), file.mtime_nsec()))
    };
    files.into_iter().map(|path| path.and_then(known)).collect()
}

fn read(config: &TlsConfig) -> Result<Roles, TlsError> {
    let trust = Trust::read(config)?;
    let identity = match (&config.certificate, &config.key) {
        (Some(certificate), Some(key)) => Some((certificates(certificate)?, private_key(key)?)),
        (None, None) => None,
        _ => return Err(TlsError::HalfIdentity),
    };
    let servers = trust.servers()?;
    let client =
        ClientConfig::builder_with_provider(trust.provider.clone()).with_safe_default_protocol_versions()?;
    let client = match config.check_names {
        true => client.with_webpki_verifier(servers),
        false => client.dangerous().with_custom_certificate_verifier(Arc::new(AnyName(servers))),
    };
    let client = match &identity {
        Some((chain, key)) => client.with_client_auth_cert(chain.clone(), key.clone_key())?,
        None => client.with_no_client_auth(),
    };

    let server = match identity {
        None => None,
        Some((chain, key)) => {
            let clients = trust.clients()?;
            let server =
                ServerConfig::builder_with_provider(trust.provider).with_safe_default_protocol_versions()?;
            let mut server = server.with_client_cert_verifier(clients).with_single_cert(chain, key)?;
            // A client that only sends would never read tickets, and a kernel discards unsent
            // octets when it closes a socket with unread ones. So sessions are not resumed: a
            // client authenticates each time.
            server.send_tls13_tickets = 0;
            Some(Arc::new(server))
        }
    };
    Ok(Roles { client: Arc::new(client), server })
}

/// The authorities, and the certificates that they revoked.
struct Trust<'c> {
    config: &'c TlsConfig,
    provider: Arc<CryptoProvider>,
    roots: Arc<RootCertStore>,
    revocations: Vec<CertificateRevocationListDer<'static>>,
}

impl Trust<'_> {
    fn read(config: &TlsConfig) -> Result<Trust<'_>, TlsError> {
        let mut roots = RootCertStore::empty();
        for authority in certificates(&config.authorities)? {
            roots.add(authority)?;
        }
        let revocations = config.revocations.as_deref().map_or(Ok(Vec::new()), revocation_lists)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        Ok(Trust { config, provider, roots: Arc::new(roots), revocations })
    }

    fn servers(&self) -> Result<Arc<WebPkiServerVerifier>, TlsError> {
        let servers = WebPkiServerVerifier::builder_with_provider(self.roots.clone(), self.provider.clone());
        servers.with_crls(self.revocations.clone()).build().map_err(|error| self.unusable(error))
    }

    fn clients(&self) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
        let clients = WebPkiClientVerifier::builder_with_provider(self.roots.clone(), self.provider.clone());
        let clients = clients.with_crls(self.revocations.clone());
        match self.config.client_certificates {
            ClientCertificates::Required => clients.build(),
            ClientCertificates::Wanted => clients.allow_unauthenticated().build(),
            ClientCertificates::No => Ok(WebPkiClientVerifier::no_client_auth()),
        }
        .map_err(|error| self.unusable(error))
    }

    fn unusable(&self, error: VerifierBuilderError) -> TlsError {
        match (error, &self.config.revocations) {
            (VerifierBuilderError::InvalidCrl(error), Some(path)) => TlsError::File {
                path: path.clone(),
                wanted: REVOCATION_LIST,
                why: rustls::Error::from(error).to_string(),
            },
            (error, _) => TlsError::Authorities(error.to_string()),
        }
    }
}

const REVOCATION_LIST: &str = "certificate revocation list";

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    all(path, "certificate")
}

fn revocation_lists(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    all(path, REVOCATION_LIST)
}

/// All items of a kind in a PEM file, which has one at least.
fn all<T: PemObject>(path: &Path, wanted: &'static str) -> Result<Vec<T>, TlsError> {
    let wrong = |why: String| TlsError::File { path: path.into(), wanted, why };
    let found = T::pem_file_iter(path).and_then(|all| all.collect::<Result<Vec<_>, _>>());
    let found = found.map_err(|error| wrong(error.to_string()))?;
    if found.is_empty() { Err(wrong("the file has none".into())) } else { Ok(found) }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| TlsError::File {
        path: path.into(),
        wanted: "private key",
        why: error.to_string(),
    })
}
