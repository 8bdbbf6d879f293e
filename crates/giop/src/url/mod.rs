//! Object URLs (clause 7.6.10): `corbaloc:`, `corbaname:`, `file:` and `IOR:`.
//!
//! ```
//! use isorb_giop::url::ObjectUrl;
//! let url: ObjectUrl = "corbaname::lab#probes/t1".parse().unwrap();
//! assert_eq!(url.to_string(), "corbaname::1.0@lab:2809/NameService#probes/t1");
//! ```

mod corbaloc;
mod error;
mod escape;
#[cfg(feature = "miop")]
mod group;

pub use corbaloc::{Address, Corbaloc, DEFAULT_PORT, NAME_SERVICE};
pub use error::{UrlError, UrlErrorKind};
#[cfg(feature = "miop")]
pub use group::GroupAddress;

use crate::{Ior, Name};
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

/// A way to name an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectUrl {
    /// A whole reference.
    Ior(Ior),
    /// Addresses and an object key.
    Corbaloc(Corbaloc),
    /// A naming context, and a name in it.
    Corbaname {
        /// Where the naming context is.
        context: Corbaloc,
        /// The name; `None` for the context itself.
        name: Option<Name>,
    },
    /// A file that contains another URL, by its absolute path.
    File(String),
}

impl FromStr for ObjectUrl {
    type Err = UrlError;

    /// Reads a URL of any scheme, with whitespace around it. Schemes may be in any case.
    fn from_str(text: &str) -> Result<ObjectUrl, UrlError> {
        let url = text.trim_ascii();
        let indent = text.len() - text.trim_ascii_start().len();
        let Some((scheme, rest)) = url.split_once(':') else {
            return Err(UrlError::at(UrlErrorKind::Scheme, text, indent));
        };
        let rest_at = scheme.len() + 1;
        let parsed = if scheme.eq_ignore_ascii_case("IOR") {
            url.parse().map(ObjectUrl::Ior)
        } else if scheme.eq_ignore_ascii_case("corbaloc") {
            Corbaloc::parse(url, rest_at).map(ObjectUrl::Corbaloc)
        } else if scheme.eq_ignore_ascii_case("corbaname") {
            corbaname(url, rest_at)
        } else if scheme.eq_ignore_ascii_case("file") {
            file(url, rest).map(ObjectUrl::File)
        } else {
            Err(UrlError::at(UrlErrorKind::Scheme, url, 0))
        };
        parsed.map_err(|error| error.moved(indent))
    }
}

fn corbaname(url: &str, rest_at: usize) -> Result<ObjectUrl, UrlError> {
    let (context, name) = match url.find('#') {
        Some(hash) => (&url[..hash], Some((hash + 1, &url[hash + 1..]))),
        None => (url, None),
    };
    let mut context = Corbaloc::parse(context, rest_at)?;
    if context.key.is_empty() {
        context.key = NAME_SERVICE.into();
    }
    let name = match name {
        Some((at, name)) if !name.is_empty() => {
            let name = escape::text(url, at, name)?;
            let columns = url[..at].chars().count();
            Some(name.parse::<Name>().map_err(|error| error.moved(columns))?)
        }
        _ => None,
    };
    Ok(ObjectUrl::Corbaname { context, name })
}

/// `file:///path`, `file://localhost/path` or `file:/path`.
fn file(url: &str, rest: &str) -> Result<String, UrlError> {
    let path = match rest.strip_prefix("//") {
        Some(rest) => rest.strip_prefix("localhost").unwrap_or(rest),
        None => rest,
    };
    let at = url.len() - path.len();
    if !path.starts_with('/') {
        return Err(UrlError::at(UrlErrorKind::Path, url, at));
    }
    escape::text(url, at, path)
}

impl fmt::Display for ObjectUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ObjectUrl::Ior(ior) => write!(f, "{ior}"),
            ObjectUrl::Corbaloc(corbaloc) => write!(f, "corbaloc:{corbaloc}"),
            ObjectUrl::Corbaname { context, name: None } => write!(f, "corbaname:{context}"),
            ObjectUrl::Corbaname { context, name: Some(name) } => {
                write!(f, "corbaname:{context}#{}", escape::Escaped(alloc::format!("{name}").as_bytes()))
            }
            ObjectUrl::File(path) => write!(f, "file://{}", escape::Escaped(path.as_bytes())),
        }
    }
}

#[cfg(test)]
mod tests;
