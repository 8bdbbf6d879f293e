//! Servers that are registered with an implementation repository and shown.

use isorb::Orb;
use isorb_implementation_repository::isorb_implementation_repository::repository::{AddError, RemoveError};
use isorb_implementation_repository::isorb_implementation_repository::{
    Activation, Registration, RepositoryRef,
};

use super::{Client, Connected, text};

struct Registrations(RepositoryRef);

pub(super) fn connect(orb: &Orb, url: &str) -> Connected {
    Ok(Box::new(Registrations(orb.resolve(url).map_err(text)?)))
}

fn name(number: u32) -> String {
    format!("s{number}")
}

impl Client for Registrations {
    fn write(&mut self, number: u32) -> Result<(), String> {
        let server = Registration {
            name: name(number),
            program: "/bin/true".to_owned(),
            arguments: Vec::new(),
            folder: String::new(),
            activation_mode: Activation::Manual,
            start_timeout_ms: 1_000,
            restart_limit: 1,
            restart_period_ms: 60_000,
        };
        match self.0.add(&server) {
            // The answer to an earlier attempt was lost.
            Ok(()) | Err(AddError::AlreadyRegistered(_)) => Ok(()),
            Err(error) => Err(format!("{error:?}")),
        }
    }

    fn read(&mut self, number: u32) -> Result<bool, String> {
        match self.0.show(&name(number)) {
            Ok(_) => Ok(true),
            Err(RemoveError::NotRegistered(_)) => Ok(false),
            Err(error) => Err(format!("{error:?}")),
        }
    }

    fn remove(&mut self, number: u32) -> Result<(), String> {
        self.0.remove(&name(number)).map_err(|error| format!("{error:?}"))
    }
}
