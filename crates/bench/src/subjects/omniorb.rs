//! omniORB, the C++ ORB that Debian has: programs of `peers/omniorb` on the stubs that omniidl
//! makes of `idl/bench.idl`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::build::{cached, installed, step};
use super::{Missing, Programs};

const SOURCES: [(&str, &str); 4] = [
    ("bench.idl", include_str!("../../idl/bench.idl")),
    ("peer.h", include_str!("../../peers/omniorb/peer.h")),
    ("server.cc", include_str!("../../peers/omniorb/server.cc")),
    ("client.cc", include_str!("../../peers/omniorb/client.cc")),
];

/// What makes the programs runnable at full speed, debugging aside: as Debian builds its own.
const FLAGS: [&str; 4] = ["-std=c++14", "-O2", "-DNDEBUG", "-I."];

/// How the server is set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Server {
    /// As the package has it: it looks at its connections every 50 ms.
    AsShipped,
    /// It looks at them every five seconds.
    Tuned,
}

/// The programs, built unless they are in the cache.
pub fn programs(server: Server) -> Result<Programs, Missing> {
    // The same for both set-ups, and a failed build shall not be tried twice.
    static BUILT: OnceLock<Result<PathBuf, Missing>> = OnceLock::new();
    let folder = BUILT.get_or_init(build).clone()?;
    let client = folder.join("client").into_os_string();
    let mut words = vec![folder.join("server").into_os_string()];
    // Loopback, as the raw server; by itself it would listen at the machine's first address.
    words.extend(["-ORBendPoint", "giop:tcp:127.0.0.1:"].map(Into::into));
    if server == Server::Tuned {
        words.extend(["-ORBscanGranularity", "0", "-ORBconnectionWatchPeriod", "5000000"].map(Into::into));
    }
    Ok(Programs { server: words, client: vec![client] })
}

fn build() -> Result<PathBuf, Missing> {
    ready()?;
    let set_up = FLAGS.join(" ") + &version();
    cached("omniorb", &SOURCES, &set_up, |folder| {
        step(folder, "omniidl", &["-bcxx", "bench.idl"])?;
        // The generated file has warnings that are none of ours.
        compile(folder, &["-w", "-c", "benchSK.cc"])?;
        for program in ["server", "client"] {
            let source = format!("{program}.cc");
            let libraries = ["-lomniORB4", "-lomnithread", "-lpthread"];
            compile(folder, &[&["-Wall", "-o", program, &source, "benchSK.o"], &libraries[..]].concat())?;
        }
        Ok(())
    })
}

const SMALLEST: [(&str, &str); 3] = [
    ("lamp.idl", include_str!("../../../../examples/minimum/idl/lamp.idl")),
    ("server.cc", include_str!("../../peers/omniorb-minimum/server.cc")),
    ("client.cc", include_str!("../../peers/omniorb-minimum/client.cc")),
];

/// The folder with the smallest `client` and `server`, built for size.
pub fn smallest() -> Result<PathBuf, Missing> {
    ready()?;
    cached("omniorb-minimum", &SMALLEST, &version(), |folder| {
        step(folder, "omniidl", &["-bcxx", "lamp.idl"])?;
        for program in ["server", "client"] {
            let source = format!("{program}.cc");
            let arguments =
                ["-std=c++14", "-Os", "-DNDEBUG", "-w", "-I.", "-ffunction-sections", "-Wl,--gc-sections"];
            let inputs = ["-o", program, &source, "lampSK.cc", "-lomniORB4", "-lomnithread", "-lpthread"];
            step(folder, "g++", &[&arguments[..], &inputs[..]].concat())?;
        }
        Ok(())
    })
}

const CREMES: [(&str, &str); 4] = [
    ("cremes.idl", include_str!("../../idl/cremes.idl")),
    ("peer.h", include_str!("../../peers/omniorb/peer.h")),
    ("server.cc", include_str!("../../peers/omniorb-cremes/server.cc")),
    ("client.cc", include_str!("../../peers/omniorb-cremes/client.cc")),
];

/// The folder with the `client` and `server` of the cremes experiments.
pub fn cremes() -> Result<PathBuf, Missing> {
    ready()?;
    let set_up = FLAGS.join(" ") + &version();
    cached("omniorb-cremes", &CREMES, &set_up, |folder| {
        step(folder, "omniidl", &["-bcxx", "cremes.idl"])?;
        for program in ["server", "client"] {
            let source = format!("{program}.cc");
            let libraries = ["-lomniORB4", "-lomnithread", "-lpthread"];
            compile(folder, &[&["-w", "-o", program, &source, "cremesSK.cc"], &libraries[..]].concat())?;
        }
        Ok(())
    })
}

/// Whether omniORB's programs can be built here.
fn ready() -> Result<(), Missing> {
    if !installed("omniidl") || !has_headers() {
        return Err(Missing::NotInstalled("omniidl libomniorb4-dev omniorb omniorb-idl"));
    }
    if !installed("g++") {
        return Err(Missing::NotInstalled("g++"));
    }
    Ok(())
}

fn compile(folder: &Path, arguments: &[&str]) -> io::Result<()> {
    step(folder, "g++", &[&FLAGS[..], arguments].concat())
}

fn has_headers() -> bool {
    ["/usr/include", "/usr/local/include"]
        .iter()
        .any(|folder| Path::new(folder).join("omniORB4/CORBA.h").is_file())
}

/// Stubs and library must be of one version, so another version is another build.
fn version() -> String {
    let output = std::process::Command::new("omniidl").arg("-V").output();
    output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default()
}
