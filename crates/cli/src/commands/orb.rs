//! The ORB of a command, with TLS if that was asked for.

use isorb::{Config, Guard, Orb, OrbBuilder};
use isorb_tls::{Tls, TlsConfig};
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// The option `--tls`, which holds for all ORBs of the process.
static TLS: OnceLock<Tls> = OnceLock::new();

/// Takes the value of `--tls`: the files of the own certificate, its key and the authorities.
///
/// # Errors
/// The form of the value, or a file that is wrong.
pub fn set_tls(value: &str) -> Result<(), String> {
    let files: Vec<&Path> = value.split(',').map(Path::new).collect();
    let [certificate, key, authorities] = files[..] else {
        return Err("give three files in PEM form: --tls CERTIFICATE,KEY,AUTHORITIES".into());
    };
    let tls = Tls::new(TlsConfig::new(certificate, key, authorities)).map_err(|error| error.to_string())?;
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
