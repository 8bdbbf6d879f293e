//! A client without a standard library calls a server of isorb over a byte pipe.
//!
//! `tests/no-std` has the client; it knows two functions that move octets. This test carries them
//! between the client's pipes and the server's port, a few at a time.

mod common;

use common::Service;
use isorb_testkit::repository;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Builds the client; `None` where there is no C compiler to link it.
fn client() -> Option<PathBuf> {
    let source = repository().join("tests/no-std");
    // As `tools/check-no-std`, which has compiled all of it when both run.
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(repository().join("target"), PathBuf::from);
    let target = target.join("no-std");
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--release", "--locked"]).current_dir(&source);
    let built = build.env("CARGO_TARGET_DIR", &target).status().unwrap();
    assert!(built.success(), "the client builds without the standard library");
    let program = target.join("isorb-no-std-client");
    let mut link = Command::new("cc");
    link.arg("-o").arg(&program).arg(source.join("main.c")).arg(target.join("release/libisorb_no_std.a"));
    let Ok(linked) = link.status() else {
        println!("SKIPPED: the client without a standard library (there is no C compiler)");
        return None;
    };
    assert!(linked.success(), "the client links without the standard library");
    Some(program)
}

/// Moves octets until one side ends, `most` at a time.
fn carry(mut from: impl Read, mut to: impl Write, most: usize) {
    let mut octets = vec![0; most];
    while let Ok(count @ 1..) = from.read(&mut octets) {
        if to.write_all(&octets[..count]).and_then(|()| to.flush()).is_err() {
            return;
        }
    }
}

/// How the client ends that calls this URL, with the replies as `changed`.
fn calls(client: &PathBuf, url: &str, changed: fn(&mut [u8])) -> Option<i32> {
    let (_, address) = url.split_once('@').unwrap();
    let server = TcpStream::connect(address.split_once('/').unwrap().0).unwrap();
    let mut process =
        Command::new(client).arg(url).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (requests, mut replies) = (process.stdout.take().unwrap(), process.stdin.take().unwrap());
    let status = std::thread::scope(|scope| {
        let up = server.try_clone().unwrap();
        scope.spawn(|| carry(requests, up, 7));
        let mut down = server.try_clone().unwrap();
        scope.spawn(move || {
            let mut octets = [0; 5];
            while let Ok(count @ 1..) = down.read(&mut octets) {
                changed(&mut octets[..count]);
                if replies.write_all(&octets[..count]).is_err() {
                    return;
                }
            }
        });
        let status = process.wait().unwrap();
        let _ = server.shutdown(std::net::Shutdown::Both);
        status
    });
    status.code()
}

#[test]
fn a_client_without_a_standard_library_calls_over_a_byte_pipe() {
    let Some(client) = client() else { return };
    let service = Service::start(&["naming", "--port", "0", "--memory"]);
    assert!(service.url.starts_with("corbaloc::") && service.url.contains('@'), "{}", service.url);
    assert_eq!(calls(&client, &service.url, |_| {}), Some(0));
    // The controls: octets that are no message, and a URL that is none.
    assert_eq!(calls(&client, &service.url, |octets| octets.fill(b'x')), Some(14));
    assert_eq!(Command::new(&client).arg("nonsense").status().unwrap().code(), Some(11));
}
