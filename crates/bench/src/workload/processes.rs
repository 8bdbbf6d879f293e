//! A server and a client, as the harness has them.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use isorb_netlab::{Lab, tool_place};
use isorb_rt::time::now_ns;

use super::layers::ORB;
use super::plan::Plan;
use super::setup::Setup;
use crate::experiments::{BenchError, Context};
use crate::load::work;
use crate::process::{Fault, Peer, PeerError, Scheduling, Side};
use crate::subjects::Programs;

/// How long a process may take to start and to end, and how much longer than ordered a run may
/// take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A server and a client, connected, on one processor.
#[derive(Debug)]
pub struct Workload {
    // Ends before the server, so that it does not see its connections break.
    client: Peer,
    server: Peer,
    _socket: SocketFile,
}

/// What a server that is killed cannot remove.
#[derive(Debug)]
struct SocketFile(Option<PathBuf>);

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Some(file) = &self.0 {
            // The server may have done it.
            let _ = std::fs::remove_file(file);
        }
    }
}

/// What the threads of a role did together.
#[derive(Clone, Debug, Default)]
pub struct RoleResult {
    /// Calls that were made.
    pub calls: u64,
    /// Periods that began; of those without a pause, the calls.
    pub due: u64,
    /// Calls that ended within their period.
    pub in_time: u64,
    /// How long calls took, in nanoseconds; of very many, those that came first.
    pub latencies: Vec<u64>,
    /// Where the time of calls went (see [`layers`](super::layers)), those of one call after those
    /// of another.
    pub parts: Vec<u64>,
}

impl RoleResult {
    /// Calls in time, of the periods that began, in percent.
    pub fn in_time_percent(&self) -> f64 {
        if self.due == 0 { f64::NAN } else { 100.0 * self.in_time as f64 / self.due as f64 }
    }
}

impl Workload {
    /// Starts both, in the left and the right host of `lab` if there is one.
    pub fn start(
        cx: &Context<'_>,
        subject: &'static str,
        setup: &Setup,
        lab: Option<&Lab>,
    ) -> Result<Workload, PeerError> {
        // Their threads choose their own priorities; what sets them up has none.
        let place = Scheduling { cpu: Some(cx.cpu()), fifo: None };
        let setup = Setup { no_real_time: cx.fifo.is_none(), ..setup.clone() };
        // Flags, numbers and names cannot fail to be written.
        let json = serde_json::to_string(&setup).unwrap_or_default();
        let program = |what: &str, host: Option<&str>, more: &[String]| {
            let words = [what, &json].into_iter().chain(more.iter().map(String::as_str));
            let program = cx.launcher.peer(&words.collect::<Vec<_>>());
            in_host(host, program)
        };
        let mut server = program("load-server", lab.map(|lab| lab.left().namespace()), &[]);
        if setup.allocating > 0 {
            // By itself the C library gives each of a few threads a heap of its own.
            server.splice(0..0, ["env".into(), "MALLOC_ARENA_MAX=1".into()]);
        }
        let start =
            |side, program: &[_]| Peer::start_ready(cx.launcher, subject, side, place, program, TIMEOUT);
        let (server, addresses) = start(Side::Server, &server)?;
        let socket = SocketFile(setup.socket_file(server.id()));
        let addresses: Vec<String> = addresses.split(' ').map(str::to_owned).collect();
        let client = program("load-client", lab.map(|lab| lab.right().namespace()), &addresses);
        let mut client = Peer::start(cx.launcher, subject, Side::Client, place, &client)?;
        client.expect("ready", TIMEOUT)?;
        Ok(Workload { client, server, _socket: socket })
    }

    /// Starts programs of another kind that obey the same orders. They take care of their
    /// priorities themselves.
    pub fn of(cx: &Context<'_>, subject: &'static str, programs: Programs) -> Result<Workload, PeerError> {
        let place = Scheduling { cpu: Some(cx.cpu()), fifo: None };
        let mut server = Peer::start(cx.launcher, subject, Side::Server, place, &programs.server)?;
        let address = server.expect("ready", TIMEOUT)?;
        let socket = SocketFile(Some(address.clone().into()));
        let mut program = programs.client;
        program.push(address.into());
        let mut client = Peer::start(cx.launcher, subject, Side::Client, place, &program)?;
        client.expect("ready", TIMEOUT)?;
        Ok(Workload { client, server, _socket: socket })
    }

    /// One run; what each role did, in the order's order.
    pub fn run(&mut self, order: &Plan) -> Result<Vec<RoleResult>, PeerError> {
        self.client.send(&order.line())?;
        let within = Duration::from_millis(order.ms.into()) + TIMEOUT;
        order.roles.iter().map(|_| results(&mut self.client, within)).collect()
    }

    /// Stops the server where it is, so that what it does besides serving takes no processor from
    /// others.
    pub fn pause(&self) {
        self.server.pause();
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.server.resume();
    }

    /// Ends both.
    pub fn end(self) {
        let Workload { client, server, _socket } = self;
        server.resume();
        // A process that has to be killed is no error any more.
        let _ = client.end(TIMEOUT);
        let _ = server.end(TIMEOUT);
    }
}

fn results(client: &mut Peer, within: Duration) -> Result<RoleResult, PeerError> {
    let line = client.expect("role", within)?;
    let mut numbers = line.split(' ').map(|word| word.parse::<u64>().ok());
    let mut number = || numbers.next().flatten().ok_or(client.error(Fault::Garbled));
    let (calls, due, in_time, kept, parts) = (number()?, number()?, number()?, number()?, number()?);
    if kept > calls || parts > calls * ORB.len() as u64 {
        return Err(client.error(Fault::Garbled));
    }
    let mut numbers = |count| client.numbers(usize::try_from(count).unwrap_or(usize::MAX), within);
    let (latencies, parts) = (numbers(kept)?, numbers(parts)?);
    Ok(RoleResult { calls, due, in_time, latencies, parts })
}

/// The program, in a network namespace if there is one.
pub(super) fn in_host(namespace: Option<&str>, program: Vec<OsString>) -> Vec<OsString> {
    let Some(namespace) = namespace else { return program };
    let mut words = vec![tool_place("ip").into_os_string()];
    words.extend(["netns", "exec", namespace].map(OsString::from));
    words.extend(program);
    words
}

/// Units of work that take a millisecond on the processor that contenders share.
pub fn calibrate_work(cx: &Context<'_>) -> Result<f64, BenchError> {
    const UNITS: i32 = 2000;
    // The fastest of several: the others were disturbed.
    let ns = cx.on_thread(|| {
        let once = || {
            let start = now_ns();
            work(UNITS);
            now_ns() - start
        };
        (0..20).map(|_| once()).min().unwrap_or(1)
    })?;
    Ok(f64::from(UNITS) * 1e6 / ns.max(1) as f64)
}
