//! The certificates in use, read again when their files change.

use crate::config::{ClientCertificates, TlsConfig, TlsError};
use crate::verify::AnyName;
use isorb_rt::sync::PiMutex;
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Both roles' settings, as of one state of the files.
#[derive(Clone, Debug)]
pub(crate) struct Roles {
    pub client: Arc<ClientConfig>,
    /// `None` without a certificate of one's own.
    pub server: Option<Arc<ServerConfig>>,
}

/// Which file each is, and when and how long it was last written; `None` for what cannot be looked at. The times alone go in steps.
type Stamp = Vec<Option<(u64, u64, i64, i64)>>;

/// Files that were of no use are read again when they change, and after so long, since a step of the file system's clock may hide a change.
const AGAIN: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Context {
    config: TlsConfig,
    now: PiMutex<(Stamp, Roles)>,
    useless: PiMutex<Option<(Stamp, Instant)>>,
}

impl Context {
    pub fn new(config: TlsConfig) -> Result<Context, TlsError> {
        let stamp = stamp(&config);
        let roles = read(&config)?;
        Ok(Context { config, now: PiMutex::new((stamp, roles)), useless: PiMutex::new(None) })
    }

    pub fn config(&self) -> &TlsConfig {
        &self.config
    }

    /// The settings for the next handshake. Changed files count from now on; where they are of no use, those before stay, and the
    /// caller is told why, once for each state of the files.
    pub fn current(&self) -> (Roles, Option<TlsError>) {
        let mut now = self.now.lock();
        let stamp = stamp(&self.config);
        if stamp == now.0 {
            return (now.1.clone(), None);
        }
        let mut useless = self.useless.lock();
        let known = useless.as_ref().filter(|(known, _)| *known == stamp).map(|(_, at)| *at);
        if known.is_some_and(|at| at.elapsed() < AGAIN) {
            return (now.1.clone(), None);
        }
        match read(&self.config) {
            Ok(roles) => {
                (*now, *useless) = ((stamp, roles), None);
                (now.1.clone(), None)
            }
            // Half of the files may have been replaced.
            Err(error) => {
                *useless = Some((stamp, Instant::now()));
                (now.1.clone(), known.is_none().then_some(error))
            }
        }
    }
}

fn stamp(config: &TlsConfig) -> Stamp {
    let files = [config.certificate.as_ref(), config.key.as_ref(), Some(&config.authorities)];
    let known = |path: &PathBuf| {
        let file = std::fs::metadata(path).ok()?;
        Some((file.ino(), file.size(), file.mtime(), file.mtime_nsec()))
    };
    files.into_iter().map(|path| path.and_then(known)).collect()
}

fn read(config: &TlsConfig) -> Result<Roles, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    for authority in certificates(&config.authorities)? {
        roots.add(authority)?;
    }
    let roots = Arc::new(roots);
    let identity = match (&config.certificate, &config.key) {
        (Some(certificate), Some(key)) => Some((certificates(certificate)?, private_key(key)?)),
        (None, None) => None,
        _ => return Err(TlsError::HalfIdentity),
    };
    let why = |error: rustls::server::VerifierBuilderError| TlsError::Authorities(error.to_string());

    let servers = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider.clone()).build();
    let servers = servers.map_err(why)?;
    let client =
        ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
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
            let clients = WebPkiClientVerifier::builder_with_provider(roots, provider.clone());
            let clients = match config.client_certificates {
                ClientCertificates::Required => clients.build().map_err(why)?,
                ClientCertificates::Wanted => clients.allow_unauthenticated().build().map_err(why)?,
                ClientCertificates::No => WebPkiClientVerifier::no_client_auth(),
            };
            let server =
                ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
            let mut server = server.with_client_cert_verifier(clients).with_single_cert(chain, key)?;
            // A client that only sends would never read them, and its kernel throws away what is unsent when a socket closes over
            // unread octets. So nobody resumes a session: who connects again shows again who it is.
            server.send_tls13_tickets = 0;
            Some(Arc::new(server))
        }
    };
    Ok(Roles { client: Arc::new(client), server })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |why: String| TlsError::File { path: path.into(), wanted: "certificate", why };
    let found = CertificateDer::pem_file_iter(path).and_then(|all| all.collect::<Result<Vec<_>, _>>());
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
