//! The ORB of a command, with TLS and passwords if that was asked for.

use super::arguments::Wrong;
use super::listen::names_an_address;
use isorb::{Config, Guard, Kind, Orb, OrbBuilder};
use isorb_csi::{ClientSecurity, Credentials, ServerSecurity, Users};
use isorb_tls::{Tls, TlsConfig};
use std::error::Error;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// The option `--tls`, which holds for all ORBs of the process.
static TLS: OnceLock<Tls> = OnceLock::new();

/// The option `--login`.
static LOGIN: OnceLock<Credentials> = OnceLock::new();

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

/// Takes the value of `--login`: the user's name, and the file with the password.
///
/// # Errors
/// The form of the value, or a file that is wrong.
pub fn set_login(value: &str) -> Result<(), String> {
    if !has_tls() {
        return Err("it needs --tls: passwords go over TLS only".into());
    }
    let (user, file) = value
        .split_once(',')
        .filter(|(user, file)| !user.is_empty() && !file.is_empty())
        .ok_or("give a user's name and a file with the password: --login USER,FILE")?;
    let credentials = Credentials::from_file(user, Path::new(file)).map_err(|error| error.to_string())?;
    let _ = LOGIN.set(credentials);
    Ok(())
}

/// What is checked of the configuration only when an ORB is made of it, or later, is wrong about
/// the arguments, as all usage is.
fn made(builder: OrbBuilder<'static>) -> Result<Orb, Box<dyn Error>> {
    builder.build().map_err(|exception| match (exception.kind, &exception.detail) {
        (Kind::BadParam, Some(why)) => Wrong(why.to_string()).into(),
        _ => exception.into(),
    })
}

fn builder(config: Config) -> Result<OrbBuilder<'static>, Wrong> {
    names_an_address(&config)?;
    Ok(Orb::builder().config(config).register(|info| {
        if let Some(tls) = TLS.get() {
            info.add_transport(Arc::new(tls.clone()))?;
        }
        if let Some(login) = LOGIN.get() {
            ClientSecurity::new(login.clone()).register(info)?;
        }
        Ok(())
    }))
}

/// The passwords that a service asks for.
pub struct Passwords {
    pub users: Arc<Users>,
    /// Whether every client needs one.
    pub required: bool,
}

/// An ORB with this configuration.
///
/// # Errors
/// [`Wrong`] for a configuration that no ORB takes; else as [`OrbBuilder::build`].
pub fn plain(config: Config) -> Result<Orb, Box<dyn Error>> {
    made(builder(config)?)
}

/// An ORB of a service.
///
/// # Errors
/// As [`plain`].
pub fn guarded(
    config: Config,
    guard: Arc<dyn Guard>,
    passwords: Option<Passwords>,
) -> Result<Orb, Box<dyn Error>> {
    let orb = builder(config)?.guard(guard);
    made(match passwords {
        None => orb,
        Some(Passwords { users, required }) => {
            orb.register(move |info| Ok(ServerSecurity::new(users).required(required).register(info)?))
        }
    })
}
