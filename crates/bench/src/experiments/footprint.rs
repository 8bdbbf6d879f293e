//! `isorb-bench footprint`: how large the smallest client and server are, on disk and in memory.
//!
//! The programs are those of `examples/minimum`, built with the profile `minimum` and without
//! isorb's default features, and the same in C++ on omniORB. An omniORB program needs its ORB's
//! shared libraries beside it; those are counted apart, since several programs may share them.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::catalogue::Experiment;
use super::{BenchError, Context};
use crate::claim::{Above, Below, Cells, Claim, claims, control, most, paper};
use crate::figure::{Figure, Measured};
use crate::subjects::Missing;
use crate::subjects::omniorb;

pub const EXPERIMENT: Experiment = Experiment {
    name: NAME,
    about: "Size of the smallest client and server, stripped, and their resident memory, beside omniORB's",
    source: "Lankes, Pfeiffer, Bemmerl (ROFES): the aim of the project",
    paper: "an ORB cut down to minimumCORBA fits an embedded system; one for every purpose does not",
    seconds: (60, 60),
    run,
    claims,
};

const NAME: &str = "footprint";
/// The subjects of an ORB: client, server.
const ISORB: [&str; 2] = ["isorb-client", "isorb-server"];
const OMNIORB: [&str; 2] = ["omniorb-client", "omniorb-server"];
/// What an embedded system spares for each program on disk, and for the server in memory. The paper
/// has no number; these are ours.
const DISK_KIB: f64 = 700.0;
const MEMORY_KIB: f64 = 3072.0;

/// What was found out about a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Size {
    /// The program's file without symbols, in bytes.
    stripped_bytes: u64,
    /// Shared libraries of the ORB that it loads, in bytes; 0 where it is linked in.
    orb_library_bytes: u64,
    /// Resident memory after a few calls, in bytes (`VmRSS`).
    rss_bytes: u64,
}

fn run(cx: &mut Context<'_>, out: &mut Measured) -> Result<(), BenchError> {
    cx.progress(format!("{NAME}: building the smallest client and server"));
    let mut programs = vec![(ISORB, build_isorb()?)];
    out.note(
        "Programs of examples/minimum, built with the profile 'minimum'; omniORB's need its shared \
         libraries beside them.",
    );
    cx.progress(format!("{NAME}: building the same for omniORB"));
    match omniorb::smallest() {
        Ok(folder) => programs.push((OMNIORB, [folder.join("client"), folder.join("server")])),
        Err(Missing::NotInstalled(packages)) => {
            out.note(format!("omniorb: left out, it is not installed (apt-get install {packages})"));
        }
        Err(why) => out.note(format!("omniorb: left out, {why}")),
    }
    for (subjects, paths) in programs {
        cx.progress(format!("{NAME}: {}", subjects[0]));
        for (subject, size) in subjects.into_iter().zip(measure(&paths)?) {
            let values = vec![
                ("stripped_bytes", size.stripped_bytes as f64),
                ("orb_library_bytes", size.orb_library_bytes as f64),
                ("rss_bytes", size.rss_bytes as f64),
            ];
            out.row("size", subject, 1.0, values);
        }
    }
    let draw = &["stripped_bytes", "orb_library_bytes", "rss_bytes"];
    let figure = Figure::new("size", "The smallest programs", "programs", "bytes", draw);
    out.figures = vec![figure.divide(1.0).linear()];
    Ok(())
}

fn kib(r: &dyn Cells, subject: &str, value: &str) -> f64 {
    r.at("size", subject, value, 1.0) / 1024.0
}

/// A program on disk with the libraries of its ORB.
fn disk(r: &dyn Cells, subject: &str) -> f64 {
    kib(r, subject, "stripped_bytes") + kib(r, subject, "orb_library_bytes")
}

fn claims() -> Vec<Claim> {
    claims! {
        paper Below(DISK_KIB), "client {1:.1} KiB, server {2:.1} KiB without symbols (each {limit})",
            |r| {
                let [client, server] = ISORB.map(|subject| disk(r, subject));
                [most([client, server]), client, server]
            };
        paper Below(MEMORY_KIB), "the server has {0:.0} KiB of resident memory ({limit})",
            |r| [kib(r, ISORB[1], "rss_bytes")];
        control Above(1.5), "omniORB, an ORB for every purpose, takes {1:.0} KiB with its libraries, \
             {0:.1} times ours ({limit})",
            |r| [disk(r, OMNIORB[0]) / disk(r, ISORB[0]), disk(r, OMNIORB[0])], when |r| !r.series("size", OMNIORB[0], "stripped_bytes").is_empty();
    }
}

/// Builds the two programs in the source tree that this binary was built from.
fn build_isorb() -> Result<[PathBuf; 2], BenchError> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if !root.join("examples/minimum").is_dir() {
        return Err(
            io::Error::other("footprint builds examples/minimum: run it where the sources are").into()
        );
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--profile", "minimum", "-p", "isorb-example-minimum"])
        .arg("--message-format=json-render-diagnostics")
        .current_dir(root)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    if !built.status.success() {
        return Err(io::Error::other("cargo could not build examples/minimum").into());
    }
    let messages = String::from_utf8_lossy(&built.stdout).into_owned();
    let find = |name: &str| {
        executable(&messages, name)
            .ok_or_else(|| io::Error::other(format!("cargo did not say where {name} is")))
    };
    Ok([find("minimum-client")?, find("minimum-server")?])
}

/// Where cargo has put the program `name`, by its messages, one JSON object a line.
fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    let objects = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut paths = objects.filter_map(|object| object.get("executable")?.as_str().map(PathBuf::from));
    paths.find(|path| path.file_stem().is_some_and(|stem| stem == name))
}

fn measure([client, server]: &[PathBuf; 2]) -> Result<[Size; 2], BenchError> {
    let mut serving = Running::start(server, &[])?;
    let reference = serving.line()?;
    let mut calling = Running::start(client, &[&reference])?;
    calling.line()?;
    let size = |program: &Path, running: &Running| -> io::Result<Size> {
        Ok(Size {
            stripped_bytes: stripped(program)?,
            orb_library_bytes: libraries(&fs::read_to_string(running.proc("maps"))?)
                .iter()
                .map(|path| fs::metadata(path).map_or(0, |file| file.len()))
                .sum(),
            rss_bytes: resident(&fs::read_to_string(running.proc("status"))?)
                .ok_or_else(|| io::Error::other("no VmRSS"))?,
        })
    };
    Ok([size(client, &calling)?, size(server, &serving)?])
}

/// Size of a copy without symbols.
fn stripped(program: &Path) -> io::Result<u64> {
    let copy = std::env::temp_dir().join(format!("isorb-footprint-{}", std::process::id()));
    let status = Command::new("strip").arg("-o").arg(&copy).arg(program).status();
    let size = match status {
        Ok(status) if status.success() => fs::metadata(&copy).map(|file| file.len()),
        Ok(status) => Err(io::Error::other(format!("strip: {status}"))),
        Err(error) => Err(io::Error::new(error.kind(), "strip is not installed (apt-get install binutils)")),
    };
    let _ = fs::remove_file(copy);
    size
}

/// The mapped files that are libraries of omniORB.
fn libraries(maps: &str) -> Vec<&str> {
    let paths = maps.lines().filter_map(|line| line.split_ascii_whitespace().nth(5));
    let mut found: Vec<&str> = paths.filter(|path| path.contains("/libomni")).collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// A program that ends with its input, and at the latest when this is dropped.
struct Running {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Running {
    fn start(program: &Path, arguments: &[&str]) -> io::Result<Running> {
        let mut child = Command::new(program)
            .args(arguments)
            .args(["-ORBendPoint", "giop:tcp:127.0.0.1:"])
            .current_dir(std::env::temp_dir())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or_else(|| io::Error::other("no pipe"))?;
        Ok(Running { child, output: BufReader::new(output) })
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            return Err(io::Error::other("the program ended before it said anything"));
        }
        Ok(line.trim().to_owned())
    }

    fn proc(&self, file: &str) -> PathBuf {
        Path::new("/proc").join(self.child.id().to_string()).join(file)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_and_cargo_say_is_read() {
        assert_eq!(resident("Name:\tx\nVmRSS:\t    2464 kB\n"), Some(2464 << 10));
        assert_eq!(resident("Name:\tx\n"), None);
        let maps = "7f-80 r--p 0 fe:00 1 /usr/lib/libomniORB4.so.2\n80-81 r-xp 0 fe:00 1 /usr/lib/libomniORB4.so.2\n\
                    82-83 rw-p 0 fe:00 2 /usr/lib/libc.so.6\n84-85 rw-p 0 00:00 0\n";
        assert_eq!(libraries(maps), ["/usr/lib/libomniORB4.so.2"]);
        let messages =
            "{\"reason\":\"x\",\"executable\":null}\n{\"executable\":\"/t/minimum-client\"}\nnoise\n";
        assert_eq!(executable(messages, "minimum-client"), Some("/t/minimum-client".into()));
        assert_eq!(executable(messages, "minimum-server"), None);
    }
}
