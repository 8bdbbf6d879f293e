//! TLS: certificates for both ends, rustls without an ORB, and isorb's transport. Both sides
//! authenticate, by TLS 1.3.

use std::io;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use isorb_tls::testing::Authority;
use isorb_tls::{Tls, TlsConfig};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned, version,
};

use ::isorb::Orb;

use super::Missing;
use super::build::cached;
use super::isorb::failed;

/// A folder with certificates that are good for this benchmark and nothing else, made once.
pub fn certificates() -> Result<PathBuf, Missing> {
    cached("certificates", &[], "1", |folder| {
        let authority = Authority::at(folder)?;
        ["server", "client"].iter().try_for_each(|name| authority.sign(name))
    })
}

/// The transport of `name` with the certificates of `folder`.
fn config(folder: &Path, name: &str) -> TlsConfig {
    let file = |suffix: &str| folder.join(format!("{name}.{suffix}"));
    TlsConfig::new(file("pem"), file("key"), folder.join("authority.pem"))
}

/// An ORB with these arguments that has TLS.
pub fn orb(folder: &Path, name: &str, arguments: &[String]) -> io::Result<Orb> {
    let tls = Tls::new(config(folder, name)).map_err(io::Error::other)?;
    Orb::builder()
        .arguments(arguments.iter().cloned())
        .register(|info| Ok(info.add_transport(Arc::new(tls))?))
        .build()
        .map_err(failed)
}

/// rustls over an accepted connection.
pub fn accepted(folder: &Path, stream: TcpStream) -> io::Result<StreamOwned<ServerConnection, TcpStream>> {
    let (roots, chain, key) = read(folder, "server")?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let clients = clients.build().map_err(io::Error::other)?;
    let config = ServerConfig::builder_with_provider(provider).with_protocol_versions(&[&version::TLS13]);
    let config = config.map_err(io::Error::other)?.with_client_cert_verifier(clients);
    let config = config.with_single_cert(chain, key).map_err(io::Error::other)?;
    let tls = ServerConnection::new(Arc::new(config)).map_err(io::Error::other)?;
    Ok(StreamOwned::new(tls, stream))
}

/// rustls over a connection to a server.
pub fn connected(folder: &Path, stream: TcpStream) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let (roots, chain, key) = read(folder, "client")?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&version::TLS13]);
    let config = config.map_err(io::Error::other)?.with_root_certificates(roots);
    let config = config.with_client_auth_cert(chain, key).map_err(io::Error::other)?;
    let name = ServerName::try_from("127.0.0.1").map_err(io::Error::other)?;
    let tls = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    Ok(StreamOwned::new(tls, stream))
}

type Identity = (RootCertStore, Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn read(folder: &Path, name: &str) -> io::Result<Identity> {
    let all = |file: &str| {
        let found = CertificateDer::pem_file_iter(folder.join(file));
        found.and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(io::Error::other)
    };
    let mut roots = RootCertStore::empty();
    for authority in all("authority.pem")? {
        roots.add(authority).map_err(io::Error::other)?;
    }
    let key = PrivateKeyDer::from_pem_file(folder.join(format!("{name}.key"))).map_err(io::Error::other)?;
    Ok((roots, all(&format!("{name}.pem"))?, key))
}
