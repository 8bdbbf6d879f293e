//! Services as processes: their options, their end, and what they tell others.

mod common;

use common::{Service, ended, isorb};
use isorb_testkit::{TempFolder, wait_for, wait_until};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

/// The services, and where their calls go.
const SERVICES: [&[&str]; 5] = [
    &["naming", "--memory"],
    &["event-channel", "--real-time", "off"],
    &["scheduler"],
    &["memory-coordinator", "--memory"],
    &["memory-server", "--socket", "s"],
];

fn signal(id: u32, name: &str) {
    assert!(Command::new("kill").args([name, &id.to_string()]).status().unwrap().success());
}

#[test]
fn unknown_and_contradictory_options_are_refused() {
    let folder = TempFolder::new();
    for service in SERVICES {
        for (more, said) in [
            (&["-ORBProtocols", "bogus"][..], "bogus"),
            (&["-ORBNonsense", "1"], "-ORBNonsense"),
            (&["--host", "127.0.0.1", "-ORBEndPoint", "127.0.0.1:0"], "--host and -ORBEndPoint"),
            (&["--open", "--access-policy", "p"], "--access-policy"),
            (&["--tls", "one"], "CERTIFICATE,KEY,AUTHORITIES"),
            (&["--tls", "a,b,c"], "--tls: c: no certificate"),
        ] {
            let args = [service, more].concat();
            let (code, out, error) = ended(isorb(&args).current_dir(folder.path()));
            assert!(code != Some(0) && out.is_empty(), "{args:?}: {out}");
            assert!(error.contains(said), "{args:?}: {error}");
        }
    }
    for service in &SERVICES[..4] {
        let args = [service, &["--port", "0", "-ORBEndPoint", "127.0.0.1:0"][..]].concat();
        let (code, out, error) = ended(isorb(&args).current_dir(folder.path()));
        assert!(code != Some(0) && out.is_empty(), "{args:?}: {out}");
        assert!(error.contains("--port and -ORBEndPoint both say where to listen"), "{args:?}: {error}");
    }
}

/// The first address in a `corbaloc` URL.
fn address(url: &str) -> String {
    let rest = url.strip_prefix("corbaloc::1.2@").unwrap_or_else(|| panic!("{url}"));
    rest.split(['/', ',']).next().unwrap().to_owned()
}

#[test]
fn sigterm_ends_a_service_in_order() {
    const CLOSE_CONNECTION: u8 = 5;
    for service in &SERVICES[..4] {
        for name in ["-TERM", "-INT"] {
            let args = [service, &["--port", "0"][..]].concat();
            let mut running = Service::start(&args);
            let mut client = TcpStream::connect(address(&running.url)).unwrap();
            client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            // A connection that has been taken: a request is answered, with an exception.
            client.write_all(b"GIOP\x01\x00\x00\x03\0\0\0\x0c\0\0\0\x01\0\0\0\x04none").unwrap();
            client.read_exact(&mut [0; 20]).unwrap();
            signal(running.id(), name);
            let mut farewell = Vec::new();
            client.read_to_end(&mut farewell).unwrap();
            assert_eq!(farewell.get(7), Some(&CLOSE_CONNECTION), "{args:?}: {farewell:?}");
            let status = wait_for("the end", || running.ended());
            assert_eq!(status.code(), Some(0), "{args:?} {name}");
        }
    }
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn every_service_has_metrics_and_health() {
    let folder = TempFolder::new();
    for service in SERVICES {
        let args = [service, if service[0] == "memory-server" { &[][..] } else { &["--port", "0"] }].concat();
        let args = [&args[..], &["--metrics", "0"]].concat();
        let (running, line) = Service::with_line(isorb(&args).current_dir(folder.path()), "METRICS");
        let place = line.strip_prefix("http://").and_then(|line| line.strip_suffix("/metrics")).unwrap();
        let text = get(place, "/metrics");
        assert!(text.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text"), "{text}");
        let body = text.split_once("\r\n\r\n").unwrap().1;
        assert!(body.ends_with("# EOF\n"), "{body}");
        for family in
            ["isorb_connections ", "isorb_connections_accepted_total ", "isorb_access_denied_total "]
        {
            assert!(body.lines().any(|line| line.starts_with(family)), "{family}: {body}");
        }
        for line in body.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.split_once(' ').unwrap();
            assert!(
                value.parse::<u64>().is_ok()
                    && body.contains(&format!("# TYPE {}", name.trim_end_matches("_total"))),
                "{line}"
            );
        }
        for path in ["/healthz", "/readyz"] {
            assert!(get(place, path).starts_with("HTTP/1.1 200"), "{path}");
        }
        assert!(get(place, "/").starts_with("HTTP/1.1 404"));
        drop(running);
    }
}

#[test]
fn the_service_manager_is_told() {
    let folder = TempFolder::new();
    let manager = UnixDatagram::bind(folder.file("notify")).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // The watchdog is for the process with this number.
    let mut command = Command::new("sh");
    command.args(["-c", "WATCHDOG_PID=$$ exec \"$0\" naming --memory --port 0", common::ISORB]);
    let mut naming =
        Service::of(command.env("NOTIFY_SOCKET", folder.file("notify")).env("WATCHDOG_USEC", "30000"));
    let mut told = Vec::new();
    let mut next = || {
        let mut octets = [0; 256];
        let n = manager.recv(&mut octets).unwrap();
        told.push(String::from_utf8_lossy(&octets[..n]).trim().to_owned());
        told.clone()
    };
    wait_until("ready and alive", || {
        let told = next();
        told.contains(&"READY=1".to_owned()) && told.iter().filter(|line| *line == "WATCHDOG=1").count() > 2
    });
    signal(naming.id(), "-TERM");
    wait_until("stopping", || next().contains(&"STOPPING=1".to_owned()));
    assert_eq!(wait_for("the end", || naming.ended()).code(), Some(0));
}
