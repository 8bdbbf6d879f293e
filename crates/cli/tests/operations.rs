//! Services as processes: their options, their end, and what they tell others.

mod common;

use common::{Service, ended, get, isorb};
use isorb_testkit::{TempFolder, wait_for, wait_until};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

/// The services, and where their calls go.
const SERVICES: [&[&str]; 7] = [
    &["naming", "--memory"],
    &["log-service", "--memory"],
    &["imr", "serve", "--memory"],
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
        for (more, message) in [
            (&["-ORBProtocols", "bogus"][..], "bogus"),
            (&["-ORBNonsense", "1"], "-ORBNonsense"),
            (&["--host", "127.0.0.1", "-ORBEndPoint", "127.0.0.1:0"], "--host and -ORBEndPoint"),
            (&["--open", "--access-policy", "p"], "--access-policy"),
            (&["--tls", "one"], "CERTIFICATE,KEY,AUTHORITIES"),
            (&["--tls", "a,b,c"], "--tls: c: no certificate"),
            (&["--tls", "a,b,c,d,e"], "CERTIFICATE,KEY,AUTHORITIES[,REVOCATIONS]"),
        ] {
            let args = [service, more].concat();
            let (code, out, error) = ended(isorb(&args).current_dir(folder.path()));
            assert!(code == Some(2) && out.is_empty(), "{args:?}: {code:?}, {out}");
            assert!(error.contains(message), "{args:?}: {error}");
        }
    }
    for service in &SERVICES[..6] {
        let args = [service, &["--port", "0", "-ORBEndPoint", "127.0.0.1:0"][..]].concat();
        let (code, out, error) = ended(isorb(&args).current_dir(folder.path()));
        assert!(code == Some(2) && out.is_empty(), "{args:?}: {code:?}, {out}");
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
    for service in &SERVICES[..5] {
        for name in ["-TERM", "-INT"] {
            let args = [service, &["--port", "0"][..]].concat();
            let mut running = Service::start(&args);
            let mut client = TcpStream::connect(address(&running.url)).unwrap();
            client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            // A connection that has been taken: a request is answered, with an exception.
            client.write_all(b"GIOP\x01\x00\x00\x03\0\0\0\x0c\0\0\0\x01\0\0\0\x04none").unwrap();
            client.read_exact(&mut [0; 20]).unwrap();
            signal(running.id(), name);
            let mut ending = Vec::new();
            client.read_to_end(&mut ending).unwrap();
            assert_eq!(ending.get(7), Some(&CLOSE_CONNECTION), "{args:?}: {ending:?}");
            let status = wait_for("the end", || running.ended());
            assert_eq!(status.code(), Some(0), "{args:?} {name}");
        }
    }
}

/// Each sample stands below the type of its family, and no sample comes twice.
fn check_form(body: &str) {
    let (mut family, mut seen) = (("", ""), std::collections::HashSet::new());
    for line in body.lines() {
        if let Some(line) = line.strip_prefix("# TYPE ") {
            family = line.split_once(' ').unwrap();
        }
        if line.starts_with('#') {
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        assert!(seen.insert(series) && value.parse::<f64>().is_ok_and(|value| value >= 0.0), "{line}");
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let suffixes: &[&str] = match family.1 {
            "gauge" => &[""],
            "counter" => &["_total"],
            "histogram" => &["_bucket", "_sum", "_count"],
            other => panic!("{other}"),
        };
        let suffix = name.strip_prefix(family.0).unwrap_or_else(|| panic!("{line} below {family:?}"));
        assert!(suffixes.contains(&suffix) && labels.ends_with('}'), "{line}");
    }
}

/// The value of a sample.
fn sample(body: &str, series: &str) -> Option<f64> {
    body.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn requests_are_counted_by_operation_and_lane() {
    const CONTEXT: &str = "interface=\"IDL:omg.org/CosNaming/NamingContextExt:1.0\"";
    let args = ["naming", "--memory", "--port", "0", "--metrics", "0"];
    let (naming, line) = Service::with_line(&mut isorb(&args), "METRICS");
    let place = line.strip_prefix("http://").and_then(|line| line.strip_suffix("/metrics")).unwrap();
    let name = |args: &[&str]| common::run(&[&["name", "--ns", &naming.url], args].concat()).0;
    assert_eq!(name(&["bind", "a", "corbaloc::1.2@127.0.0.1:9/thing"]), Some(0));
    assert_eq!(name(&["resolve", "a"]), Some(0));
    assert_eq!(name(&["resolve", "b"]), Some(1));
    let text = get(place, "/metrics");
    let body = text.split_once("\r\n\r\n").unwrap().1;
    check_form(body);
    let resolved = |outcome: &str| {
        let labels = format!("{CONTEXT},operation=\"resolve_str\",outcome=\"{outcome}\"");
        let other = labels.replace("resolve_str", "resolve");
        let of = |labels: &str| sample(body, &format!("isorb_operation_requests_total{{{labels}}}"));
        of(&labels).or_else(|| of(&other)).unwrap_or_else(|| panic!("{body}"))
    };
    assert_eq!(["results", "user_exception", "system_exception"].map(resolved), [1.0, 1.0, 0.0]);
    let count = |le: &str| {
        let labels = format!("pool=\"0\",priority=\"none\",le=\"{le}\"");
        sample(body, &format!("isorb_lane_request_seconds_bucket{{{labels}}}")).unwrap()
    };
    assert!(count("+Inf") >= 3.0 && count("0.000001024") <= count("+Inf"), "{body}");
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
        check_form(body);
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
    let mut states = Vec::new();
    let mut next = || {
        let mut octets = [0; 256];
        let n = manager.recv(&mut octets).unwrap();
        states.push(String::from_utf8_lossy(&octets[..n]).trim().to_owned());
        states.clone()
    };
    wait_until("ready and alive", || {
        let states = next();
        states.contains(&"READY=1".to_owned())
            && states.iter().filter(|line| *line == "WATCHDOG=1").count() > 2
    });
    signal(naming.id(), "-TERM");
    wait_until("stopping", || next().contains(&"STOPPING=1".to_owned()));
    assert_eq!(wait_for("the end", || naming.ended()).code(), Some(0));
}
