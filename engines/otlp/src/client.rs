//! Requests to the collector: HTTP/1.1 over TCP, one connection each.

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response, StatusCode, Uri};
use isorb_rt::sync::PiMutex;
use isorb_rt::time::Deadline;
use opentelemetry_http::{HttpClient, HttpError};
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

/// The largest response that is read. A collector answers with a few octets.
const MAX_RESPONSE: usize = 64 << 10;

/// How the last request ended.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// 0 without a response.
    pub status: u16,
    /// Why there was no response, or the beginning of the response's text.
    pub detail: String,
}

impl Outcome {
    /// Whether OTLP lets the client send the same spans again.
    pub fn may_retry(&self) -> bool {
        matches!(self.status, 0 | 429 | 502..=504)
    }
}

/// A client that blocks its thread, at most for the time-out.
#[derive(Clone, Debug)]
pub struct Client {
    timeout: Duration,
    last: Arc<PiMutex<Outcome>>,
}

impl Client {
    pub fn new(timeout: Duration) -> Client {
        Client { timeout, last: Arc::new(PiMutex::new(Outcome::default())) }
    }

    pub fn last(&self) -> Outcome {
        self.last.lock().clone()
    }

    fn exchange(&self, request: &Request<Bytes>) -> Result<Response<Bytes>, String> {
        let deadline = Deadline::after(self.timeout);
        let (host, port) = address_of(request.uri())?;
        let late = || format!("no response within {:?}", self.timeout);
        let left = || deadline.remaining().filter(|left| !left.is_zero()).ok_or_else(late);
        let error = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => late(),
            _ => error.to_string(),
        };
        let addresses = (host, port).to_socket_addrs().map_err(|error| format!("{host}: {error}"))?;
        let mut failed = format!("{host} has no address");
        let mut connected = None;
        for address in addresses {
            match TcpStream::connect_timeout(&address, left()?) {
                Ok(stream) => {
                    connected = Some(stream);
                    break;
                }
                Err(error) => failed = format!("{address}: {error}"),
            }
        }
        let mut stream = connected.ok_or(failed)?;
        stream.set_write_timeout(Some(left()?)).map_err(error)?;
        stream.write_all(&octets_of(request)).map_err(error)?;
        let mut response = Vec::new();
        let mut room = [0; 4096];
        while !is_complete(&response) {
            stream.set_read_timeout(Some(left()?)).map_err(error)?;
            match stream.read(&mut room).map_err(error)? {
                0 => break,
                count if response.len() + count > MAX_RESPONSE => {
                    return Err(format!("the response has more than {MAX_RESPONSE} octets"));
                }
                count => response.extend_from_slice(&room[..count]),
            }
        }
        read_response(&response).ok_or_else(|| "the response is not HTTP/1".to_owned())
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let result = self.exchange(&request);
        *self.last.lock() = match &result {
            Ok(response) => {
                let text = String::from_utf8_lossy(response.body());
                let detail = text.chars().filter(|c| !c.is_control()).take(200).collect();
                Outcome { status: response.status().as_u16(), detail }
            }
            Err(detail) => Outcome { status: 0, detail: detail.clone() },
        };
        Ok(result?)
    }
}

/// The host and port of a collector.
///
/// # Errors
/// A text for the operator: not `http://`, or without a host.
pub fn address_of(uri: &Uri) -> Result<(&str, u16), String> {
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => {
            return Err(format!(
                "{uri}: TLS is not supported; name a collector on this host, as in http://127.0.0.1:4318, which \
                 forwards over TLS"
            ));
        }
        _ => return Err(format!("{uri}: expected http://HOST:PORT")),
    }
    let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| format!("{uri}: has no host"))?;
    Ok((host.trim_start_matches('[').trim_end_matches(']'), uri.port_u16().unwrap_or(80)))
}

fn octets_of(request: &Request<Bytes>) -> Vec<u8> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let host = request.uri().authority().map_or("", |authority| authority.as_str());
    let length = request.body().len();
    let mut octets =
        format!("{} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n", request.method())
            .into_bytes();
    for (name, value) in request.headers() {
        octets.extend_from_slice(name.as_str().as_bytes());
        octets.extend_from_slice(b": ");
        octets.extend_from_slice(value.as_bytes());
        octets.extend_from_slice(b"\r\n");
    }
    octets.extend_from_slice(b"Connection: close\r\n\r\n");
    octets.extend_from_slice(request.body());
    octets
}

/// The parts of a response before and behind the empty line.
fn split(response: &[u8]) -> Option<(&str, &[u8])> {
    let end = response.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some((std::str::from_utf8(&response[..end]).ok()?, &response[end + 4..]))
}

/// Whether the body has the length that the header says. Without one the end of the connection is
/// the end of the body.
fn is_complete(response: &[u8]) -> bool {
    split(response).is_some_and(|(head, body)| {
        head.lines().skip(1).filter_map(|line| line.split_once(':')).any(|(name, value)| {
            name.eq_ignore_ascii_case("content-length")
                && value.trim().parse::<usize>().is_ok_and(|length| body.len() >= length)
        })
    })
}

fn read_response(response: &[u8]) -> Option<Response<Bytes>> {
    let (head, body) = split(response)?;
    let line = head.lines().next()?.strip_prefix("HTTP/1.")?;
    let status: StatusCode = line.split(' ').nth(1)?.parse().ok()?;
    let mut answer = Response::new(Bytes::copy_from_slice(body));
    *answer.status_mut() = status;
    Some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_or_refused_with_the_reason() {
        let address = |text: &str| {
            let uri: Uri = text.parse().unwrap();
            address_of(&uri).map(|(host, port)| (host.to_owned(), port))
        };
        assert_eq!(address("http://[::1]:4318/v1/traces"), Ok(("::1".to_owned(), 4318)));
        assert_eq!(address("http://collector"), Ok(("collector".to_owned(), 80)));
        assert!(address("https://collector").unwrap_err().contains("TLS is not supported"));
        assert!(address("ftp://collector").unwrap_err().contains("expected http://"));
        assert!(address("/v1/traces").unwrap_err().contains("expected http://"));
    }

    #[test]
    fn responses_are_read_to_their_end() {
        let response = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab";
        assert!((0..response.len()).all(|length| !is_complete(&response[..length])));
        assert!(is_complete(response));
        let read = read_response(response).unwrap();
        assert_eq!((read.status().as_u16(), &read.body()[..]), (200, &b"ab"[..]));
        for wrong in
            ["", "HTTP/1.1 200 OK\r\n", "HTTP/2 200\r\n\r\n", "HTTP/1.1\r\n\r\n", "HTTP/1.1 x\r\n\r\n"]
        {
            assert!(read_response(wrong.as_bytes()).is_none(), "{wrong}");
        }
    }
}
