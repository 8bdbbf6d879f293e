//! `isorb bench footprint`: how large the smallest client and server are, on disk and in memory.
//!
//! The programs are those of `examples/minimum`, built with the profile `minimum` and without isorb's default features, and the
//! same in C++ on omniORB. An omniORB program needs its ORB's shared libraries beside it; those are counted apart, since several
//! programs may share them.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde::Serialize;

use super::BenchError;
use crate::subjects::Missing;
use crate::subjects::omniorb;

/// One line of the results.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Row {
    /// ORB and part, such as `isorb-client`.
    pub subject: String,
    /// The program's file without symbols, in bytes.
    pub stripped_bytes: u64,
    /// Shared libraries of the ORB that it loads, in bytes; 0 where it is linked in.
    pub orb_library_bytes: u64,
    /// Resident memory after a few calls, in bytes (`VmRSS`).
    pub rss_bytes: u64,
}

/// Builds, runs and prints.
///
/// # Errors
/// [`BenchError`]; where omniORB is missing, it is left out and named.
pub fn run(json: bool) -> Result<(), BenchError> {
    let print = |text: String| if json { eprintln!("{text}") } else { println!("{text}") };
    print("building the smallest client and server (this can take a minute)".into());
    let mut programs = vec![("isorb", build_isorb()?)];
    match omniorb::smallest() {
        Ok(folder) => programs.push(("omniorb", [folder.join("client"), folder.join("server")])),
        Err(Missing::NotInstalled(packages)) => {
            print(format!("omniorb: left out, it is not installed (apt-get install {packages})"));
        }
        Err(why) => print(format!("omniorb: left out, {why}")),
    }
    print(format!("  {:<16} {:>12} {:>16} {:>12}", "", "stripped", "ORB's libraries", "resident"));
    for (orb, paths) in programs {
        for row in measure(orb, &paths)? {
            print(format!(
                "  {:<16} {:>8} KiB {:>12} KiB {:>8} KiB",
                row.subject,
                row.stripped_bytes.div_ceil(1024),
                row.orb_library_bytes.div_ceil(1024),
                row.rss_bytes.div_ceil(1024)
            ));
            if json {
                // Names and numbers cannot fail to be written.
                println!("{}", serde_json::to_string(&row).unwrap_or_default());
            }
        }
    }
    Ok(())
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

fn measure(orb: &str, [client, server]: &[PathBuf; 2]) -> Result<[Row; 2], BenchError> {
    let mut serving = Running::start(server, &[])?;
    let reference = serving.line()?;
    let mut calling = Running::start(client, &[&reference])?;
    calling.line()?;
    let row = |part: &str, program: &Path, running: &Running| -> io::Result<Row> {
        Ok(Row {
            subject: format!("{orb}-{part}"),
            stripped_bytes: stripped(program)?,
            orb_library_bytes: libraries(&fs::read_to_string(running.proc("maps"))?)
                .iter()
                .map(|path| fs::metadata(path).map_or(0, |file| file.len()))
                .sum(),
            rss_bytes: resident(&fs::read_to_string(running.proc("status"))?)
                .ok_or_else(|| io::Error::other("no VmRSS"))?,
        })
    };
    Ok([row("client", client, &calling)?, row("server", server, &serving)?])
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
