//! The live page that services have with `--admin`.

use isorb_admin::{Admin, Options, OtherPage, Source, Together};
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};

/// Whether there is a page, and where.
#[derive(Debug, clap::Args)]
pub struct AdminArgs {
    /// Serves a live page with what happens, at an address and port, or at a port of 127.0.0.1; 0 for a free port. Whoever can connect
    /// there can look.
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = place)]
    admin: Option<SocketAddr>,
    /// A host name that the page may be asked for under, besides localhost and addresses; repeatable.
    #[arg(long, value_name = "NAME", requires = "admin")]
    admin_host: Vec<String>,
    /// Shows what another process's page says below, too, such as a server's of reflective memory; repeatable.
    #[arg(long, value_name = "[ADDRESS:]PORT", requires = "admin", value_parser = place)]
    admin_also: Vec<SocketAddr>,
}

impl AdminArgs {
    /// Is there to be a page?
    pub fn is_wanted(&self) -> bool {
        self.admin.is_some()
    }

    /// Serves it, where it is wanted. The page ends with the result.
    pub fn start(&self, source: impl Source) -> Result<Option<Admin>, Box<dyn Error>> {
        let Some(address) = self.admin else { return Ok(None) };
        let options = Options { hosts: self.admin_host.clone(), ..Options::default() };
        let started = if self.admin_also.is_empty() {
            Admin::start(address, options, source)
        } else {
            let mut sources: Vec<Box<dyn Source>> = vec![Box::new(source)];
            sources.extend(self.admin_also.iter().map(|other| Box::new(OtherPage::new(*other)) as _));
            Admin::start(address, options, Together::new(sources))
        };
        match started {
            Ok(admin) => Ok(Some(admin)),
            Err(error) => Err(format!("the page at {address}: {error}").into()),
        }
    }
}

/// The line that says where it is, with its end; nothing where there is none.
pub fn line(admin: Option<&Admin>) -> String {
    admin.map(|admin| format!("ADMIN http://{}/\n", admin.address())).unwrap_or_default()
}

fn place(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<u16>() {
        Ok(port) => Ok((Ipv4Addr::LOCALHOST, port).into()),
        Err(_) => text.parse().map_err(|_| "an address and a port such as 127.0.0.1:8080, or a port".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::place;

    #[test]
    fn a_port_alone_is_of_loopback() {
        assert_eq!(place("8080").unwrap(), "127.0.0.1:8080".parse().unwrap());
        assert_eq!(place("[::]:80").unwrap(), "[::]:80".parse().unwrap());
        for bad in ["", "70000", "localhost:80", "127.0.0.1"] {
            assert!(place(bad).is_err(), "{bad}");
        }
    }
}
