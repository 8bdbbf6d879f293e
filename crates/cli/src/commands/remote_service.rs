//! What commands that call a service of the network share: its URL, what they print of its answers,
//! and the message of a call that failed.

use isorb::{Config, Kind, SystemException};
use std::error::Error;
use std::fmt::Display;
use std::io::Write;

/// A service that a command calls.
pub struct RemoteService {
    /// Its name in messages.
    pub name: &'static str,
    /// Its object key, which is also the name of its initial reference.
    pub key: &'static str,
    /// Its port, unless another one is named.
    pub port: u16,
    /// The option that says where it is.
    pub option: &'static str,
}

impl RemoteService {
    /// The URL of the service: what is given, a URL, host or host:port; else its initial reference,
    /// where the configuration has one; else at its port of this host.
    pub fn url(&self, given: Option<&str>, config: &Config) -> String {
        let RemoteService { key, port, .. } = self;
        match given {
            Some(url) if is_url(url) => url.to_owned(),
            Some(address) if address.rsplit(']').next().is_some_and(|end| end.contains(':')) => {
                format!("corbaloc::1.2@{address}/{key}")
            }
            Some(host) => format!("corbaloc::1.2@{host}:{port}/{key}"),
            None if config.init_refs.contains_key(*key) || config.default_init_ref.is_some() => {
                (*key).to_owned()
            }
            None => format!("corbaloc::1.2@127.0.0.1:{port}/{key}"),
        }
    }

    /// The message for a call that failed.
    pub fn failed(&self, url: &str, exception: &SystemException) -> Box<dyn Error> {
        let RemoteService { name, option, .. } = self;
        let hint = match exception.kind {
            Kind::Transient | Kind::CommFailure | Kind::Timeout => {
                format!("; check that it runs, or give its address with {option}")
            }
            Kind::ObjectNotExist => "; there is no such object at this address".to_owned(),
            _ => String::new(),
        };
        format!("{name} {}: {}{hint}", shown(url), shown(&exception.to_string())).into()
    }
}

fn is_url(text: &str) -> bool {
    let begins =
        |scheme: &&str| text.get(..scheme.len()).is_some_and(|head| head.eq_ignore_ascii_case(scheme));
    ["ior:", "corba", "file:"].iter().any(begins)
}

/// Removes control characters that a peer sent.
pub fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Prints a line. A closed pipe is an error that `main` ignores.
pub fn line(text: &dyn Display) -> Result<(), Box<dyn Error>> {
    Ok(writeln!(std::io::stdout(), "{text}")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_where_it_is_said_to_be() {
        let log = RemoteService { name: "log service", key: "LogService", port: 2811, option: "--service" };
        let config = Config::default();
        for (given, url) in [
            (None, "corbaloc::1.2@127.0.0.1:2811/LogService"),
            (Some("radio"), "corbaloc::1.2@radio:2811/LogService"),
            (Some("radio:9"), "corbaloc::1.2@radio:9/LogService"),
            (Some("[::1]"), "corbaloc::1.2@[::1]:2811/LogService"),
            (Some("[::1]:9"), "corbaloc::1.2@[::1]:9/LogService"),
            (Some("CORBALOC::h/K"), "CORBALOC::h/K"),
            (Some("file:/tmp/log.ior"), "file:/tmp/log.ior"),
        ] {
            assert_eq!(log.url(given, &config), url);
        }
        let named = Config { default_init_ref: Some("corbaloc::h".into()), ..Config::default() };
        assert_eq!(log.url(None, &named), "LogService");
        assert_eq!(log.url(Some("radio"), &named), "corbaloc::1.2@radio:2811/LogService");
    }
}
