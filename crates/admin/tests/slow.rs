//! Slow clients keep no others out.

use isorb_admin::{Admin, Options, Probes};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn forty_slow_clients_are_evicted_for_a_newcomer() {
    let probes =
        Probes { metrics: Arc::new(|| "# EOF\n".into()), live: Arc::new(|| true), ready: Arc::new(|| false) };
    // They would be served for longer than the test takes.
    let options = Options { timeout: Duration::from_secs(600), ..Options::default() };
    let admin = Admin::start_probes("127.0.0.1:0".parse().unwrap(), options, probes).unwrap();
    let slow = || {
        let mut stream = TcpStream::connect(admin.address()).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\n").unwrap();
        stream
    };
    let _slow: Vec<TcpStream> = (0..40).map(|_| slow()).collect();
    for (path, status) in [("/metrics", "200"), ("/healthz", "200"), ("/readyz", "503"), ("/state", "404")] {
        let mut newcomer = TcpStream::connect(admin.address()).unwrap();
        newcomer.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write!(newcomer, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut answer = String::new();
        newcomer.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{path}: {answer}");
    }
}
