//! Where services listen.

use super::arguments::Wrong;
use isorb::Config;
use std::net::IpAddr;
use std::path::PathBuf;

/// The ORB's arguments that name an endpoint.
const ENDPOINTS: [&str; 3] = ["-ORBEndPoint", "-ORBendPoint", "-ORBListenEndpoints"];

/// Options of all services about the place where they listen. Default values depend on the service.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Listen {
    /// Port to listen at; 0 for a free one [default: 2809 for naming, 2810 for the memory
    /// coordinator, 2811 for the log service, 2812 for the implementation repository, 3699 for the
    /// interface repository, else 0].
    #[arg(long)]
    pub port: Option<u16>,
    /// Address to listen at; 0.0.0.0 or :: for all, with -ORBPublish HOST for the one in references
    /// [default: 127.0.0.1].
    #[arg(long)]
    pub host: Option<String>,
    /// Unix socket to listen at, besides the port. Clients of the same user may connect (others by
    /// `socket_mode` in isorb.toml).
    #[arg(long, value_name = "FILE")]
    pub unix: Option<PathBuf>,
}

impl Listen {
    /// The ORB's configuration, with the endpoints of these options or of the ORB's arguments, not
    /// both.
    ///
    /// # Errors
    /// A contradiction; what is wrong with the ORB's arguments.
    pub fn config(&self, arguments: Vec<String>, port: u16) -> Result<Config, Wrong> {
        let named = names_endpoint(&arguments).map(str::to_owned);
        let mut config = Config::from_args(arguments).map_err(|error| Wrong(error.to_string()))?.0;
        let given = [("--port", self.port.is_some()), ("--host", self.host.is_some())];
        match (named, given.iter().find(|(_, is_given)| *is_given)) {
            (Some(endpoint), Some((option, _))) => {
                let wrong = format!("{option} and {endpoint} both say where to listen; give one of them");
                return Err(Wrong(wrong));
            }
            (Some(_), None) => {}
            (None, _) => {
                let host = self.host.as_deref().unwrap_or("127.0.0.1");
                config.endpoints = vec![endpoint(host, self.port.unwrap_or(port))];
            }
        }
        config.endpoints.extend(self.unix.iter().map(|path| format!("unix:{}", path.display())));
        Ok(config)
    }
}

/// The argument of the ORB that names an endpoint, if there is one.
pub fn names_endpoint(arguments: &[String]) -> Option<&str> {
    arguments.iter().map(String::as_str).find(|argument| ENDPOINTS.contains(argument))
}

/// Host name or address, and port, as an endpoint.
pub fn endpoint(host: &str, port: u16) -> String {
    if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// The endpoint over TLS instead of TCP; others as they are.
pub fn over_tls(endpoint: &str) -> String {
    let tcp = endpoint.strip_prefix("giop:tcp:").or_else(|| endpoint.strip_prefix("iiop://"));
    match tcp {
        Some(address) => format!("giop:ssl:{}", address.trim_end_matches('/')),
        None if is_local(endpoint) || endpoint.starts_with("giop:") => endpoint.into(),
        None => format!("giop:ssl:{endpoint}"),
    }
}

fn is_local(endpoint: &str) -> bool {
    ["unix:", "segment:"].iter().any(|kind| endpoint.trim_start_matches("giop:").starts_with(kind))
}

/// Checks that references can name an address of each endpoint. The ORB would say it when the
/// endpoints are opened, which a command does when it has begun with other things.
///
/// # Errors
/// An endpoint listens at every address, and nothing says which one references name.
pub fn names_an_address(config: &Config) -> Result<(), Wrong> {
    let names_none = |endpoint: &&String| {
        let is_every = matches!(host(endpoint), "0.0.0.0" | "::" | "*");
        is_every && !is_local(endpoint) && !endpoint.split(';').any(|option| option.starts_with("publish="))
    };
    match config.endpoints.iter().find(names_none) {
        Some(endpoint) if config.publish.is_none() => Err(Wrong(format!(
            "{endpoint} listens at every address; say which one references shall name, with -ORBPublish HOST or with \
             ;publish=HOST behind the endpoint"
        ))),
        _ => Ok(()),
    }
}

/// The host of an endpoint.
fn host(endpoint: &str) -> &str {
    let address = endpoint.split(';').next().unwrap_or_default();
    let address = address.trim_start_matches("giop:").trim_start_matches("iiop://");
    let address =
        ["tcp:", "ssl:", "udp:"].iter().find_map(|kind| address.strip_prefix(kind)).unwrap_or(address);
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

/// Whether other hosts may reach an endpoint.
pub fn is_beyond_loopback(endpoint: &str) -> bool {
    let host = host(endpoint);
    let loopback = host.is_empty()
        || host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    !is_local(endpoint) && !loopback
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(listen: &Listen, arguments: &[&str]) -> Result<Vec<String>, Wrong> {
        let arguments = arguments.iter().map(ToString::to_string).collect();
        listen.config(arguments, 99).map(|config| config.endpoints)
    }

    #[test]
    fn options_and_arguments_that_contradict_each_other_are_refused() {
        let host = Listen { host: Some("::1".into()), ..Listen::default() };
        assert_eq!(config(&host, &[]).unwrap(), ["[::1]:99"]);
        assert_eq!(config(&host, &["-ORBLaneThreads", "2"]).unwrap(), ["[::1]:99"]);
        let unix = Listen { unix: Some("/run/s".into()), ..Listen::default() };
        for name in ENDPOINTS {
            let at = [name, "192.0.2.7:5000"];
            assert_eq!(config(&Listen::default(), &at).unwrap(), ["192.0.2.7:5000"], "{name}");
            assert_eq!(config(&unix, &at).unwrap(), ["192.0.2.7:5000", "unix:/run/s"]);
            let refused = config(&host, &at).unwrap_err().0;
            assert!(refused.contains("--host") && refused.contains(name), "{refused}");
        }
        let port = Listen { port: Some(0), ..Listen::default() };
        assert!(config(&port, &["-ORBEndPoint", ":0"]).is_err());
        assert_eq!(endpoint("lab.example", 7), "lab.example:7");
    }

    #[test]
    fn tls_takes_the_place_of_tcp() {
        for (plain, secure) in [
            ("127.0.0.1:0;lane=2", "giop:ssl:127.0.0.1:0;lane=2"),
            ("giop:tcp:h:1", "giop:ssl:h:1"),
            ("iiop://[::1]:80/", "giop:ssl:[::1]:80"),
            ("unix:/run/s", "unix:/run/s"),
            ("giop:unix:/run/s", "giop:unix:/run/s"),
        ] {
            assert_eq!(over_tls(plain), secure);
        }
    }

    #[test]
    fn loopback_is_told_from_the_rest() {
        for near in [
            "127.0.0.1:0",
            "[::1]:1;lane",
            "localhost:2",
            "unix:/s",
            "segment:",
            ":0",
            "giop:ssl:127.0.0.2:1",
        ] {
            assert!(!is_beyond_loopback(near), "{near}");
        }
        for far in ["0.0.0.0:1", "[::]:1", "lab:2", "giop:tcp:10.0.0.1:1;publish=h", "iiop://h:1/"] {
            assert!(is_beyond_loopback(far), "{far}");
        }
    }
}
