//! The command line of the contract, and its meaning for isorb.

use isorb::interceptor::OrbInitInfo;
use isorb::{Kind, Orb, Result, SystemException};
use isorb_tls::{Tls, TlsConfig};
use std::path::Path;
use std::sync::Arc;

/// The selected program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `isorb-peer server`
    Server,
    /// `isorb-peer client`
    Client,
}

/// The options of the contract.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The file for a server's reference.
    pub ior_file: String,
    /// The naming service.
    pub ns: String,
    /// The name of a server in the naming service.
    pub name: String,
    /// The reference for a client.
    pub ior: String,
    /// The cases to run; all when empty.
    pub only: Vec<String>,
    /// The highest version of GIOP; empty for 1.2.
    pub giop: String,
    /// The port to listen at; empty for a free one.
    pub port: String,
    /// The folder with certificates; empty for no TLS.
    pub tls: String,
    /// The unix socket of a server without any other endpoint; a client then uses no other
    /// protocol.
    pub unix: String,
    /// Whether UTF-8 is preferred on the wire, instead of ISO 8859-1; and whether case
    /// `utf8_strings` runs.
    pub utf8: bool,
    /// Whether connections are used in both directions.
    pub bidir: bool,
    /// Whether all calls take one connection; and whether case `interleaving` runs.
    pub interleave: bool,
    /// Whether isorb serves by dynamic servants, or calls by dynamic requests.
    pub dynamic: bool,
    /// Whether isorb's server serves by the lanes of a real-time POA.
    pub rt: bool,
    /// The remaining arguments, for the ORB.
    pub orb_args: Vec<String>,
}

impl Options {
    /// Reads the arguments after `server` or `client`; `None` for invalid ones.
    pub fn parse(role: Role, args: impl IntoIterator<Item = String>) -> Option<Options> {
        let mut o = Options::default();
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--ior-file" => o.ior_file = args.next()?,
                "--ns" => o.ns = args.next()?,
                "--name" => o.name = args.next()?,
                "--ior" => o.ior = args.next()?,
                "--only" => o.only = args.next()?.split(',').map(String::from).collect(),
                "--giop" => o.giop = args.next()?,
                "--port" => o.port = args.next()?,
                "--tls" => o.tls = args.next()?,
                "--unix" => o.unix = args.next()?,
                "--utf8" => o.utf8 = true,
                "--bidir" => o.bidir = true,
                "--dynamic" => o.dynamic = true,
                "--interleave" if role == Role::Client => o.interleave = true,
                "--rt" if role == Role::Server => o.rt = true,
                other if other.starts_with("--") => return None,
                _ => o.orb_args.push(arg),
            }
        }
        let enough = match role {
            Role::Server => !o.ior_file.is_empty(),
            Role::Client => !o.ior.is_empty() || !o.ns.is_empty(),
        };
        enough.then_some(o)
    }

    /// The ORB of the options.
    ///
    /// # Errors
    /// BAD_PARAM with a sentence for arguments unknown to the ORB.
    pub fn orb(&self) -> Result<Orb> {
        let port = if self.port.is_empty() { "0" } else { &self.port };
        // The case large sends 12 MiB three times in one reply.
        let mut args = vec!["-ORBMessageLimit".to_owned(), "67108864".to_owned()];
        let protocol = if self.tls.is_empty() { "tcp" } else { "ssl" };
        if self.unix.is_empty() {
            args.extend(["-ORBEndPoint".to_owned(), format!("giop:{protocol}:127.0.0.1:{port}")]);
        } else {
            // The profile that omniORB reads is IIOP's, with a port at which no server listens. A
            // client's addresses for call-backs differ from a server's.
            let (end, unused) = if self.ior_file.is_empty() { (".client", 10) } else { ("", 9) };
            args.extend([
                "-ORBEndPoint".to_owned(),
                format!("giop:tcp:127.0.0.1:0;publish=127.0.0.1:{unused}"),
            ]);
            args.extend(["-ORBEndPoint".to_owned(), format!("unix:{}{end}", self.unix)]);
            args.extend(["-ORBProtocols".to_owned(), "unix".to_owned()]);
        }
        if !self.utf8 {
            args.extend(["-ORBNativeCharCodeSet".to_owned(), "ISO-8859-1".to_owned()]);
        }
        if !self.giop.is_empty() {
            args.extend(["-ORBGiop".to_owned(), self.giop.clone()]);
        }
        if self.interleave {
            args.extend(["-ORBConnectionsPerServer".to_owned(), "1".to_owned()]);
        }
        if self.bidir {
            args.extend(["-ORBBidirectional".to_owned(), "1".to_owned()]);
        }
        Orb::builder()
            .arguments(args.into_iter().chain(self.orb_args.iter().cloned()))
            .register(|info| self.secure(info))
            .build()
    }

    /// Adds TLS, if it was asked for.
    fn secure(&self, info: &mut OrbInitInfo) -> Result<()> {
        if self.tls.is_empty() {
            return Ok(());
        }
        let bad = |sentence: String| SystemException::from(Kind::BadParam).detail(sentence);
        let file = |name: &str| Path::new(&self.tls).join(name);
        let config = TlsConfig::new(file("peer.pem"), file("peer.key"), file("authority.pem"));
        let tls = Tls::new(config).map_err(|error| bad(error.to_string()))?;
        info.add_transport(Arc::new(tls)).map_err(|error| bad(error.to_string()))
    }

    /// Whether both sides may use GIOP 1.2.
    pub fn is_giop_1_2(&self) -> bool {
        self.giop.is_empty() || self.giop == "1.2"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(role: Role, line: &str) -> Option<Options> {
        Options::parse(role, line.split_whitespace().map(String::from))
    }

    #[test]
    fn the_contract_is_understood() {
        let o = parse(Role::Client, "--ior corbaloc::h/k --only a,b --bidir -ORBFragment 1024").unwrap();
        assert_eq!((o.only.as_slice(), o.bidir, o.utf8), (["a".into(), "b".into()].as_slice(), true, false));
        assert_eq!(o.orb_args, ["-ORBFragment", "1024"]);
        assert!(parse(Role::Server, "--ior x").is_none());
        assert!(parse(Role::Client, "--ior").is_none());
        assert!(parse(Role::Client, "--ior x --nonsense").is_none());
    }
}
