//! Names as URLs (`NamingContextExt::to_url`; Naming Service 1.3, clause 2.5.3).

use isorb_giop::Name;
use isorb_giop::url::{Address, ObjectUrl};
use std::fmt::Write;

/// Invalid arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlProblem {
    /// The address is invalid.
    Address,
    /// The name is invalid.
    Name,
}

/// The `corbaname:` URL of a name in the root context at an address, such as `:host:2809` or
/// `:host/NameService`.
///
/// # Errors
/// [`UrlProblem`].
pub fn to_url(address: &str, name: &str) -> Result<String, UrlProblem> {
    // A fragment sign would begin the name too early.
    if address.is_empty() || address.contains('#') {
        return Err(UrlProblem::Address);
    }
    match format!("corbaname:{address}").parse() {
        Ok(ObjectUrl::Corbaname { context, name: None }) if context.addresses.iter().all(is_known) => {}
        _ => return Err(UrlProblem::Address),
    }
    let name: Name = name.parse().map_err(|_| UrlProblem::Name)?;
    let mut url = format!("corbaname:{address}#");
    for octet in name.to_string().bytes() {
        match octet {
            octet if octet.is_ascii_alphanumeric() => url.push(octet.into()),
            b';' | b'/' | b':' | b'?' | b'@' | b'&' | b'=' | b'+' | b'$' | b',' | b'-' | b'_' | b'.'
            | b'!' | b'~' | b'*' | b'\'' | b'(' | b')' => url.push(octet.into()),
            // Writing to a String does not fail.
            octet => _ = write!(url, "%{octet:02x}"),
        }
    }
    Ok(url)
}

fn is_known(address: &Address) -> bool {
    !matches!(address, Address::Other { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_lead_back() {
        for name in ["a/b.c", r"x\.y/z\/w", "grün/lab 1", "100%/a#b"] {
            let url = to_url(":lab:2809,iiop:1.2@other:1/Key", name).unwrap();
            match url.parse() {
                Ok(ObjectUrl::Corbaname { context, name: Some(found) }) => {
                    assert_eq!((found.to_string().as_str(), context.key.as_slice()), (name, &b"Key"[..]));
                }
                other => panic!("{url}: {other:?}"),
            }
        }
        assert_eq!(to_url(":h", "a b/c"), Ok("corbaname::h#a%20b/c".into()));
        assert_eq!(to_url("rir:", "a"), Ok("corbaname:rir:#a".into()));
    }

    #[test]
    fn what_is_wrong() {
        for address in ["", "nonsense", ":h:99999", ":h#a", "iiop:2.x@h"] {
            assert_eq!(to_url(address, "a"), Err(UrlProblem::Address), "{address}");
        }
        for name in ["", "a//b", "a.b.c"] {
            assert_eq!(to_url(":h", name), Err(UrlProblem::Name), "{name}");
        }
    }
}
