//! The numbers and the health of a service over HTTP (`--metrics`).

use super::admin::place;
use super::request_metrics;
use super::service::Serves;
use isorb::{Config, Orb};
use isorb_access::AccessControl;
use isorb_admin::{Admin, Options, Probes};
use std::error::Error;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;

/// Options of the numbers.
#[derive(Clone, Debug, clap::Args)]
pub struct MetricsArgs {
    /// Serves /metrics (OpenMetrics), /healthz and /readyz at this address and port, or at this
    /// port of 127.0.0.1; 0 for a free port. All clients that can connect there can read them.
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = place)]
    metrics: Option<SocketAddr>,
}

/// Writes the families of one service.
pub type Families = Arc<dyn Fn(&mut String) + Send + Sync>;

/// The numbers while they are served.
pub struct Metrics(Admin);

impl Metrics {
    /// The URL of the numbers.
    pub fn url(&self) -> String {
        format!("http://{}/metrics", self.0.address())
    }
}

/// Operations with counts of their own, unless `request_statistics` says another number: twice
/// those of a service.
const OPERATIONS: usize = 256;

impl MetricsArgs {
    /// Has the ORB count requests, if the numbers are requested.
    pub fn prepare(&self, config: &mut Config) {
        if self.metrics.is_some() && config.request_statistics == 0 {
            config.request_statistics = OPERATIONS;
        }
    }

    /// Serves the numbers, if requested, with those that the service adds.
    ///
    /// # Errors
    /// The address cannot be listened at.
    pub fn start(
        &self,
        orb: &Orb,
        access: &Arc<AccessControl>,
        families: Option<Families>,
        serves: Option<Serves>,
    ) -> Result<Option<Metrics>, Box<dyn Error>> {
        let Some(address) = self.metrics else { return Ok(None) };
        let (live, ready) = (orb.clone(), orb.clone());
        let (orb, access) = (orb.clone(), access.clone());
        let probes = Probes {
            metrics: Arc::new(move || text(&orb, &access, families.as_ref())),
            live: Arc::new(move || is_live(&live)),
            ready: Arc::new(move || {
                !ready.is_shut_down() && is_live(&ready) && serves.as_ref().is_none_or(|serves| serves())
            }),
        };
        let served = Admin::start_probes(address, Options::default(), probes);
        served
            .map(|admin| Some(Metrics(admin)))
            .map_err(|error| format!("the metrics at {address}: {error}").into())
    }
}

/// Whether the ORB still takes connections. It hangs where a thread keeps the lock of the table of
/// connections, so that a watchdog notices.
pub fn is_live(orb: &Orb) -> bool {
    let connections = orb.connection_counts();
    connections.open <= connections.accepted && !orb.endpoint_names().is_empty()
}

/// Adds a family with one value; `kind` is `counter` or `gauge`.
pub fn family(text: &mut String, name: &str, kind: &str, help: &str, value: u64) {
    let total = if kind == "counter" { "_total" } else { "" };
    // Writing to a string does not fail.
    let _ = write!(text, "# TYPE {name} {kind}\n# HELP {name} {help}\n{name}{total} {value}\n");
}

/// The numbers in the text format of OpenMetrics 1.0.
fn text(orb: &Orb, access: &AccessControl, families: Option<&Families>) -> String {
    let connections = orb.connection_counts();
    let (log, threads) = (isorb_rt::log::counts(), isorb_rt::sched::panic_counts());
    let buffers = orb.buffer_counts();
    let mut text = String::new();
    for (name, help, value) in [
        ("isorb_connections", "Connections over which requests are served.", connections.open),
        ("isorb_connections_limit", "The most connections (max_connections).", connections.limit),
        ("isorb_peer_calls", "Requests of clients, if that is limited.", connections.peer_calls),
        (
            "isorb_peer_message_bytes",
            "Octets of messages of clients, if that is limited.",
            connections.peer_octets,
        ),
        ("isorb_buffer_bytes", "Octets of message blocks in use.", buffers.in_use),
        ("isorb_buffer_bytes_limit", "The most octets of message blocks (memory_limit).", buffers.limit),
        ("isorb_process_open_files", "Open files of the process.", entries("/proc/self/fd")),
        ("isorb_process_threads", "Threads of the process.", entries("/proc/self/task")),
        ("isorb_process_resident_bytes", "Resident memory of the process.", resident()),
    ] {
        family(&mut text, name, "gauge", help, value);
    }
    for (name, help, value) in [
        ("isorb_connections_accepted", "Connections that were accepted.", connections.accepted),
        ("isorb_connections_refused", "Connections that were refused at the limit.", connections.refused),
        ("isorb_connections_evicted", "Connections that gave way to a new one.", connections.evicted),
        ("isorb_access_denied", "Requests that the policy denied.", access.denied()),
        (
            "isorb_peer_limits_refused",
            "Requests that were refused at a limit for each client (--max-peer-...).",
            access.limited(),
        ),
        (
            "isorb_peer_requests_refused",
            "Requests above max_peer_calls or max_peer_octets.",
            connections.peer_refused,
        ),
        (
            "isorb_audit_lost",
            "Audit records that could not be written; their changes were refused.",
            access.audit().lost(),
        ),
        ("isorb_log_dropped", "Log records that standard error did not take in time.", log.dropped),
        ("isorb_log_suppressed", "Log records above the limit of their call site.", log.suppressed),
        ("isorb_panics", "Panics on threads of the ORB and of servants.", threads.panics),
    ] {
        family(&mut text, name, "counter", help, value);
    }
    if let Some(write) = families {
        write(&mut text);
    }
    request_metrics::write(&mut text, orb);
    text + "# EOF\n"
}

fn entries(folder: &str) -> u64 {
    std::fs::read_dir(folder).map_or(0, |entries| entries.count() as u64)
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok());
    kib.unwrap_or(0u64) << 10
}
