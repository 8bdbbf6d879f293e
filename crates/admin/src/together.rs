//! Several services on one page.

use crate::Source;
use crate::channel::json;
use serde::Serialize;
use serde_json::Value;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long another page may take to connect, and to send each piece of its numbers.
const TIMEOUT: Duration = Duration::from_secs(1);
/// The most octets of another page's numbers.
const MOST: u64 = 4 << 20;

/// Combines several sources on one page, one below the other; the first gives the page its title.
pub struct Together(Vec<Box<dyn Source>>);

impl Together {
    /// Of these.
    pub fn new(sources: Vec<Box<dyn Source>>) -> Together {
        Together(sources)
    }
}

impl std::fmt::Debug for Together {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Together").field(&self.0.len()).finish()
    }
}

#[derive(Serialize)]
struct CombinedState {
    kind: &'static str,
    parts: Vec<Value>,
}

impl Source for Together {
    fn sample(&mut self) -> String {
        let parts = self.0.iter_mut().filter_map(|source| serde_json::from_str(&source.sample()).ok());
        json(&CombinedState { kind: "together", parts: parts.collect() })
    }
}

/// The numbers of another process's page, which are fetched each time.
#[derive(Debug)]
pub struct OtherPage {
    address: SocketAddr,
}

impl OtherPage {
    /// Of the page at this address.
    pub fn new(address: SocketAddr) -> OtherPage {
        OtherPage { address }
    }

    fn fetch(&self) -> io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&self.address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        write!(stream, "GET /state HTTP/1.1\r\nHost: {}\r\n\r\n", self.address)?;
        let mut answer = String::new();
        // The other side closes after its answer.
        stream.take(MOST).read_to_string(&mut answer)?;
        let wrong = |what| io::Error::new(io::ErrorKind::InvalidData, what);
        let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| wrong("this is no HTTP"))?;
        if head.split(' ').nth(1) != Some("200") {
            return Err(wrong(head.lines().next().unwrap_or_default()));
        }
        Ok(body.to_owned())
    }
}

#[derive(Serialize)]
struct Unreachable {
    kind: &'static str,
    address: String,
    why: String,
}

impl Source for OtherPage {
    fn sample(&mut self) -> String {
        let why = match self.fetch() {
            // Only numbers of a known kind are passed on; the answers of other programs at that
            // address are not.
            Ok(text) => match serde_json::from_str::<KindOnly>(&text) {
                Ok(known) if KINDS.contains(&known.kind.as_str()) => return text,
                _ => "what listens there is no page of isorb's".to_owned(),
            },
            Err(error) => error.to_string(),
        };
        json(&Unreachable { kind: "unreachable", address: self.address.to_string(), why })
    }
}

#[derive(serde::Deserialize)]
struct KindOnly {
    kind: String,
}

/// The known kinds. `together` is not one of them: two pages that show each other would fetch for
/// ever.
const KINDS: [&str; 3] = ["event-channel", "reflective-memory", "ended"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Admin, Options};

    struct Answering(&'static str);
    impl Source for Answering {
        fn sample(&mut self) -> String {
            self.0.to_owned()
        }
    }

    fn page(source: impl Source) -> Admin {
        Admin::start("127.0.0.1:0".parse().unwrap(), Options::default(), source).unwrap()
    }

    fn seen(source: &mut dyn Source) -> serde_json::Value {
        serde_json::from_str(&source.sample()).unwrap()
    }

    #[test]
    fn another_page_is_shown_beside() {
        let other = page(Answering(r#"{"kind":"reflective-memory","name":"a"}"#));
        let own: Box<dyn Source> = Box::new(Answering(r#"{"kind":"event-channel","id":7}"#));
        let mut both = Together::new(vec![own, Box::new(OtherPage::new(other.address()))]);
        let value = seen(&mut both);
        assert_eq!(value["kind"], "together");
        assert_eq!((&value["parts"][0]["id"], &value["parts"][1]["name"]), (&7.into(), &"a".into()));
        // It ends; the first goes on.
        drop(other);
        let value = seen(&mut both);
        assert_eq!(
            (&value["parts"][0]["id"], &value["parts"][1]["kind"]),
            (&7.into(), &"unreachable".into())
        );
    }

    #[test]
    fn what_is_no_page_is_not_passed_on() {
        for document in [r#"{"kind":"together","parts":[]}"#, r#"{"kind":"<b>"}"#, "[]", "nonsense"] {
            let other = page(Answering(document));
            let value = seen(&mut OtherPage::new(other.address()));
            assert_eq!(value["kind"], "unreachable", "{document}");
            assert!(value["why"].as_str().unwrap().contains("no page"), "{value}");
        }
    }

    #[test]
    fn two_that_show_each_other_do_not_ask_for_ever() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let first = page(Together::new(vec![Box::new(OtherPage::new(address))]));
        let second = Admin::start(
            address,
            Options::default(),
            Together::new(vec![Box::new(OtherPage::new(first.address()))]),
        );
        // Another program may have taken the port meanwhile.
        let Ok(_second) = second else { return };
        let value = seen(&mut OtherPage::new(first.address()));
        assert_eq!(value["kind"], "unreachable");
    }
}
