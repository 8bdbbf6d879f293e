//! The head of a request (RFC 9112, sections 2 to 6): a small part of the protocol is implemented
//! and the rest refused.

use std::net::IpAddr;

/// The largest head that is read, in octets.
pub(crate) const MAX_HEAD: usize = 8 * 1024;
/// The most header fields.
const MAX_FIELDS: usize = 64;

/// The requested resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Request {
    pub resource: Resource,
    /// HEAD: the answer has no body.
    pub head_only: bool,
}

/// The resources of the server, by path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Resource {
    Page,
    Script,
    Style,
    State,
    Events,
    Metrics,
    Health,
    Ready,
}

/// Why a request is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    Malformed,
    TooLarge,
    TooSlow,
    NotFound,
    Method,
    Body,
    Host,
    Version,
    Busy,
    NoNews,
    NotReady,
}

impl Refusal {
    /// The status line's number and words, and a sentence.
    pub fn answer(self) -> (&'static str, &'static str) {
        match self {
            Refusal::Malformed => ("400 Bad Request", "This is no HTTP request."),
            Refusal::TooLarge => ("431 Request Header Fields Too Large", "The request's head is too large."),
            Refusal::TooSlow => ("408 Request Timeout", "The request did not come in time."),
            Refusal::NotFound => {
                ("404 Not Found", "There are /, /state and /events, or /metrics, /healthz and /readyz.")
            }
            Refusal::Method => ("405 Method Not Allowed", "There is nothing here but to look: GET or HEAD."),
            Refusal::Body => ("413 Content Too Large", "A request has no content here."),
            Refusal::Host => {
                ("421 Misdirected Request", "This host name is not served here; use an address or localhost.")
            }
            Refusal::Version => ("505 HTTP Version Not Supported", "HTTP/1.1, please."),
            Refusal::Busy => ("503 Service Unavailable", "Too many look already."),
            Refusal::NotReady => ("503 Service Unavailable", "The service takes no requests."),
            Refusal::NoNews => ("503 Service Unavailable", "There are no numbers at the moment."),
        }
    }
}

/// The end of the head (after the empty line), if it is complete.
pub(crate) fn end_of_head(octets: &[u8]) -> Option<usize> {
    octets.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4)
}

/// Reads a head, with its empty line.
pub(crate) fn parse(head: &[u8], hosts: &[String]) -> Result<Request, Refusal> {
    let text = std::str::from_utf8(head).map_err(|_| Refusal::Malformed)?;
    let text = text.strip_suffix("\r\n\r\n").ok_or(Refusal::Malformed)?;
    let mut lines = text.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Refusal::Malformed);
    };
    match version {
        "HTTP/1.1" => {}
        other if other.starts_with("HTTP/") => return Err(Refusal::Version),
        _ => return Err(Refusal::Malformed),
    }
    let mut host = None;
    for (number, line) in lines.enumerate() {
        if number >= MAX_FIELDS {
            return Err(Refusal::TooLarge);
        }
        let (name, value) = line.split_once(':').ok_or(Refusal::Malformed)?;
        // No space before the colon, no folded line, no control character: other programs read such
        // a request differently.
        if name.is_empty() || !name.bytes().all(is_token) || line.bytes().any(|o| o < 0x20 && o != b'\t') {
            return Err(Refusal::Malformed);
        }
        let value = value.trim_matches([' ', '\t']);
        if name.eq_ignore_ascii_case("host") {
            if host.replace(value).is_some() {
                return Err(Refusal::Malformed);
            }
        } else if name.eq_ignore_ascii_case("transfer-encoding")
            || name.eq_ignore_ascii_case("content-length") && value != "0"
        {
            return Err(Refusal::Body);
        }
    }
    // This check comes before that of the path, so that a refusal reveals no paths.
    if !is_ours(host.ok_or(Refusal::Malformed)?, hosts) {
        return Err(Refusal::Host);
    }
    let head_only = match method {
        "GET" => false,
        "HEAD" => true,
        other if !other.is_empty() && other.bytes().all(is_token) => return Err(Refusal::Method),
        _ => return Err(Refusal::Malformed),
    };
    let resource = match target.split_once('?').map_or(target, |(path, _)| path) {
        "/" => Resource::Page,
        "/page.js" => Resource::Script,
        "/page.css" => Resource::Style,
        "/state" => Resource::State,
        "/events" => Resource::Events,
        "/metrics" => Resource::Metrics,
        "/healthz" => Resource::Health,
        "/readyz" => Resource::Ready,
        path if path.starts_with('/') => return Err(Refusal::NotFound),
        _ => return Err(Refusal::Malformed),
    };
    Ok(Request { resource, head_only })
}

/// A character of a token (RFC 9110, section 5.6.2).
fn is_token(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&octet)
}

/// Whether it is an address, `localhost` or an allowed name. The port does not matter: it may have
/// been forwarded.
fn is_ours(host: &str, hosts: &[String]) -> bool {
    let is_port = |port: &str| port.len() <= 5 && port.bytes().all(|o| o.is_ascii_digit());
    if let Some(rest) = host.strip_prefix('[') {
        let Some((address, port)) = rest.split_once(']') else { return false };
        let good = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
        return good && address.parse::<std::net::Ipv6Addr>().is_ok();
    }
    let (name, port) = host.split_once(':').unwrap_or((host, ""));
    is_port(port)
        && (name.eq_ignore_ascii_case("localhost")
            || matches!(name.parse::<IpAddr>(), Ok(IpAddr::V4(_)))
            || hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Request, Refusal> {
        parse(text.as_bytes(), &["panel.plant".to_owned()])
    }

    #[test]
    fn the_paths_are_found() {
        let page = Request { resource: Resource::Page, head_only: false };
        assert_eq!(parsed("GET / HTTP/1.1\r\nHost: localhost:80\r\n\r\n"), Ok(page));
        let state = Request { resource: Resource::State, head_only: true };
        assert_eq!(parsed("HEAD /state?x=1 HTTP/1.1\r\nAccept: */*\r\nhOST:127.0.0.1\r\n\r\n"), Ok(state));
    }

    #[test]
    fn names_that_are_not_ours_are_refused() {
        let host = |host: &str| parsed(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).err();
        for good in
            ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "10.1.2.3", "[::1]", "[::1]:80", "Panel.plant:9"]
        {
            assert_eq!(host(good), None, "{good}");
        }
        let bad = [
            "evil.example",
            "localhost.evil.example",
            "evil.example:127.0.0.1",
            "127.0.0.1.evil.example",
            "127.0.0.1@evil.example",
            "[::1",
            "[::1]evil",
            "[evil]",
            "localhost:port",
            "::1",
            "",
        ];
        for bad in bad {
            assert_eq!(host(bad), Some(Refusal::Host), "{bad}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let many = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "a: b\r\n".repeat(MAX_FIELDS));
        let cases = [
            ("GET / HTTP/1.1\r\n\r\n", Refusal::Malformed),
            ("GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", Refusal::Malformed),
            ("GET / HTTP/1.0\r\nHost: localhost\r\n\r\n", Refusal::Version),
            ("GET / FTP\r\nHost: localhost\r\n\r\n", Refusal::Malformed),
            ("GET  / HTTP/1.1\r\nHost: localhost\r\n\r\n", Refusal::Malformed),
            ("GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n", Refusal::Malformed),
            ("GET /etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", Refusal::NotFound),
            ("GET /../ HTTP/1.1\r\nHost: localhost\r\n\r\n", Refusal::NotFound),
            ("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n", Refusal::Method),
            ("G\tT / HTTP/1.1\r\nHost: localhost\r\n\r\n", Refusal::Malformed),
            ("GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n", Refusal::Body),
            ("GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n", Refusal::Body),
            ("GET / HTTP/1.1\r\nHost : localhost\r\n\r\n", Refusal::Malformed),
            ("GET / HTTP/1.1\r\nHost: localhost\r\n folded\r\n\r\n", Refusal::Malformed),
            ("GET / HTTP/1.1\r\nHost: localhost\r\na: b\0\r\n\r\n", Refusal::Malformed),
            ("GET / HTTP/1.1\r\nHost: localhost\r\na: b\nc: d\r\n\r\n", Refusal::Malformed),
            ("\r\n\r\n", Refusal::Malformed),
            (&many, Refusal::TooLarge),
        ];
        for (text, refusal) in cases {
            assert_eq!(parsed(text), Err(refusal), "{text:?}");
        }
        assert_eq!(parse(b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n", &[]), Err(Refusal::Malformed));
    }
}
