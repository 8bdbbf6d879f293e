//! isorb's peer: `isorb-peer server …` and `isorb-peer client …`, with the contract of
//! `interop/README.md`.

use isorb_interop::options::{Options, Role};
use isorb_interop::{cases, servants};
use std::process::ExitCode;

const USAGE: &str = "usage: isorb-peer server --ior-file FILE [--ns URL --name a/b] [--port N] [--tls DIR] [--unix PATH] [--giop 1.x] [--utf8] [--bidir] [--dynamic] [--rt] [ORB args]
       isorb-peer client --ior IOR|URL [--ns URL] [--only CASE,...] [--tls DIR] [--unix PATH] [--giop 1.x] [--utf8] [--bidir] [--interleave] [--dynamic] [ORB args]";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let role = match args.next().as_deref() {
        Some("server") => Role::Server,
        Some("client") => Role::Client,
        _ => return usage(),
    };
    let Some(options) = Options::parse(role, args) else { return usage() };
    let outcome = match role {
        Role::Server => servants::serve(&options).map(|()| 0),
        Role::Client => cases::run(&options),
    };
    match outcome {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("isorb-peer: {error}");
            ExitCode::from(2)
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}
