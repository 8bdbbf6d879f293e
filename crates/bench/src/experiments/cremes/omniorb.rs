//! Through omniORB: a process at each node, each value a two-way call.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use isorb_netlab::{Host, tool_place};

use super::echo::Echo;
use super::site::{LAST, Pass, ReadySubject, Site};
use crate::experiments::BenchError;
use crate::process::{Peer, Scheduling, Side};
use crate::subjects::{Missing, omniorb};

const NAME: &str = "omniorb";
/// To start, and to connect all producers.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The folder with the programs, built if need be.
pub fn programs() -> Result<PathBuf, Missing> {
    omniorb::cremes()
}

/// One high producer and `low` ones in one process, their consumers in another. Both are of the
/// class of what serves in other subjects, the low producers' threads of the ordinary one.
pub fn wire(site: &Site<'_>, low: u32, size: usize, echo: &Echo) -> Result<ReadySubject, BenchError> {
    let folder = programs().map_err(|_| BenchError::NoSubject)?;
    let (left, right, stamps) = (site.lab.left(), site.lab.right(), echo.to());
    let mut server = words(right, &folder, "server");
    server.extend(["-ORBendPoint".into(), format!("giop:tcp:{}:", right.address()).into()]);
    server.extend([stamps.ip().to_string().into(), stamps.port().to_string().into()]);
    let at = |cpu: Option<&usize>, above: u8| Scheduling { cpu: cpu.copied(), fifo: site.fifo(above) };
    let (cpus, launcher) = (&site.cx.machine.cpus, site.cx.launcher);
    let mut server = Peer::start(launcher, NAME, Side::Server, at(cpus.last(), 1), &server)?;
    let reference = server.expect("ready", TIMEOUT)?;
    let mut client = words(left, &folder, "client");
    let high_ns = site.high_ns;
    client.extend([reference, low.to_string(), size.to_string(), high_ns.to_string()].map(OsString::from));
    let mut client = Peer::start(launcher, NAME, Side::Client, at(cpus.first(), 0), &client)?;
    client.expect("ready", TIMEOUT)?;
    let run = move |passes: &[Pass]| {
        let words: Vec<String> =
            passes.iter().map(|pass| format!("{} {} {}", pass.start_ns, pass.offset_ns(), pass.ms)).collect();
        client.send(&format!("go {}", words.join(" ")))?;
        let longest: u64 = passes.iter().map(|pass| u64::from(pass.ms)).sum();
        client.expect("done", TIMEOUT + Duration::from_millis(2 * longest))?;
        std::thread::sleep(LAST);
        Ok(())
    };
    Ok(ReadySubject {
        senders: Vec::new(),
        elsewhere: Some(Box::new(run)),
        held: Box::new(server),
        counts: None,
    })
}

/// What starts a program in a host. It becomes the program itself.
fn words(host: &Host, folder: &std::path::Path, program: &str) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![tool_place("ip").into()];
    words.extend(["netns", "exec", host.namespace()].map(OsString::from));
    words.push(folder.join(program).into_os_string());
    words
}
