//! The ORB of a command, with TLS if that was asked for.

use isorb::{Config, Guard, Orb, OrbBuilder};
use isorb_tls::{Tls, TlsConfig};
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// The option `--tls`, which holds for all ORBs of the process.
static TLS: OnceLock<Tls> = OnceLock::new();

/// Takes the value of `--tls`: the files of the own certificate, its key, the authorities, and
/// perhaps their lists of revoked certificates.
///
/// # Errors
/// The form of the value, or a file that is wrong.
pub fn set_tls(value: &str) -> Result<(), String> {
    let files: Vec<&Path> = value.split(',').map(Path::new).collect();
    let (certificate, key, authorities, revocations) = match files[..] {
        [certificate, key, authorities] => (certificate, key, authorities, None),
        [certificate, key, authorities, revocations] => (certificate, key, authorities, Some(revocations)),
        _ => {
            return Err(
                "give three or four files in PEM form: --tls CERTIFICATE,KEY,AUTHORITIES[,REVOCATIONS]"
                    .into(),
            );
        }
    };
    let config = TlsConfig {
        revocations: revocations.map(Path::to_owned),
        ..TlsConfig::new(certificate, key, authorities)
    };
    let tls = Tls::new(config).map_err(|error| error.to_string())?;
    let _ = TLS.set(tls);
    Ok(())
}

/// Whether `--tls` was given.
pub fn has_tls() -> bool {
    TLS.get().is_some()
}

fn builder(config: Config) -> OrbBuilder<'static> {
    Orb::builder()
        .config(config)
        .register(|info| TLS.get().cloned().map_or(Ok(()), |tls| Ok(info.add_transport(Arc::new(tls))?)))
}

/// An ORB with this configuration.
///
/// # Errors
/// As [`OrbBuilder::build`].
pub fn plain(config: Config) -> isorb::Result<Orb> {
    builder(config).build()
}

/// An ORB of a service.
///
/// # Errors
/// As [`OrbBuilder::build`].
pub fn guarded(config: Config, guard: Arc<dyn Guard>) -> isorb::Result<Orb> {
    builder(config).guard(guard).build()
}
