//! The endpoints of a service's ORB.

use isorb::{Config, Result};

/// The ORB's arguments that name an endpoint.
const ENDPOINTS: [&str; 3] = ["-ORBEndPoint", "-ORBendPoint", "-ORBListenEndpoints"];

/// The ORB's configuration from its arguments, and whether these name an endpoint.
pub fn config(arguments: Vec<String>) -> Result<(Config, bool)> {
    let named = arguments.iter().any(|argument| ENDPOINTS.contains(&argument.as_str()));
    Ok((Config::from_args(arguments)?.0, named))
}

/// Like [`config`], with this host and port if the arguments name no endpoint.
pub fn config_at(arguments: Vec<String>, host: &str, port: u16) -> Result<Config> {
    let (mut config, named) = config(arguments)?;
    if !named {
        config.endpoints = vec![endpoint(host, port)];
    }
    Ok(config)
}

/// Host name or address, and port, as an endpoint.
pub fn endpoint(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_the_orb_go_first() {
        let at = |arguments: &[&str]| {
            let arguments = arguments.iter().map(ToString::to_string).collect();
            config_at(arguments, "::1", 99).unwrap().endpoints
        };
        assert_eq!(at(&[]), ["[::1]:99"]);
        assert_eq!(at(&["-ORBLaneThreads", "2"]), ["[::1]:99"]);
        for name in ENDPOINTS {
            assert_eq!(at(&[name, "192.0.2.7:5000"]), ["192.0.2.7:5000"], "{name}");
        }
        assert_eq!(endpoint("lab.example", 7), "lab.example:7");
    }
}
