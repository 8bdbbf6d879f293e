//! The live page of services (`--admin`).

use isorb_admin::{Admin, Options, OtherPage, Source, Together};
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};

/// Options of the live page.
#[derive(Debug, clap::Args)]
pub struct AdminArgs {
    /// Serves a live page at this address and port, or at this port of 127.0.0.1; 0 for a free
    /// port. All clients that can connect there can read it.
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = place)]
    admin: Option<SocketAddr>,
    /// Host name that requests may use for the page, besides localhost and addresses; repeatable.
    #[arg(long, value_name = "NAME", requires = "admin")]
    admin_host: Vec<String>,
    /// Page of another process, such as a node server of reflective memory, to show below;
    /// repeatable.
    #[arg(long, value_name = "[ADDRESS:]PORT", requires = "admin", value_parser = place)]
    admin_also: Vec<SocketAddr>,
}

impl AdminArgs {
    /// Whether the page was requested.
    pub fn is_wanted(&self) -> bool {
        self.admin.is_some()
    }

    /// Serves the page, if requested. It ends when the result is dropped.
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

/// The line with the page's URL, or nothing.
pub fn line(admin: Option<&Admin>) -> String {
    admin.map(|admin| format!("ADMIN http://{}/\n", admin.address())).unwrap_or_default()
}

pub fn place(text: &str) -> Result<SocketAddr, String> {
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
