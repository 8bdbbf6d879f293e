//! What all services have in common: where they listen, the rights of clients, and their life as a
//! process.

use super::listen::{Listen, is_beyond_loopback, over_tls};
use super::metrics::{Families, Metrics, MetricsArgs};
use super::orb::Passwords;
use crate::commands::arguments::{Wrong, to_read, to_write};
use isorb::{Config, Orb};
use isorb_access::{AccessControl, Audit, Policy};
use isorb_csi::Users;
use isorb_rt::log;
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::error::Error;
use std::fmt::Display;
use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// The target of this module's log records.
const LOG: &str = "isorb::service";

/// The pause after a failure to wait for signals.
const SIGNAL_RETRY: Duration = Duration::from_millis(100);

/// How long the records of an ending process may take.
const LAST_RECORDS: Duration = Duration::from_millis(500);

/// Options of all services.
#[derive(Clone, Debug, clap::Args)]
pub struct ServiceArgs {
    #[command(flatten)]
    pub listen: Listen,
    #[command(flatten)]
    pub access: AccessArgs,
}

/// Options about the rights of clients, and about the process.
#[derive(Clone, Debug, clap::Args)]
pub struct AccessArgs {
    /// Policy file: which clients may read, bind, supply, write and administer. It is read again
    /// at SIGHUP. Without it all may do everything but administer, which is for clients of the
    /// same user on this host.
    #[arg(long, value_name = "FILE", value_parser = to_read())]
    access_policy: Option<PathBuf>,
    /// File to append a line to for each change, with the client that made it [default: the log].
    #[arg(long, value_name = "FILE", value_parser = to_write())]
    audit: Option<PathBuf>,
    /// Users with hashes of their passwords, lines as `isorb user` prints them. Clients over TLS
    /// give a user name and password (CSIv2), which a policy may name as principal:NAME. Without a
    /// policy, requests without them are refused. The file is read again at SIGHUP.
    #[arg(long, value_name = "FILE", value_parser = to_read())]
    users: Option<PathBuf>,
    /// Lets every client administer.
    #[arg(long, conflicts_with = "access_policy")]
    open: bool,
    #[command(flatten)]
    metrics: MetricsArgs,
}

/// A service's process.
pub struct Service {
    pub orb: Orb,
    access: Arc<AccessControl>,
    metrics: MetricsArgs,
    families: Option<Families>,
    serves: Option<Serves>,
}

/// Whether a service does what it is for, besides its ORB.
pub type Serves = Arc<dyn Fn() -> bool + Send + Sync>;

impl ServiceArgs {
    /// The ORB's configuration.
    ///
    /// # Errors
    /// As [`Listen::config`].
    pub fn config(&self, orb_arguments: Vec<String>, port: u16) -> Result<Config, Wrong> {
        self.listen.config(orb_arguments, port)
    }

    /// As [`AccessArgs::start`].
    ///
    /// # Errors
    /// As [`AccessArgs::start`].
    pub fn start(&self, config: Config) -> Result<Service, Box<dyn Error>> {
        self.access.start(config)
    }
}

impl AccessArgs {
    /// Makes the ORB of a service with its access control, and handles the process's signals from
    /// now on.
    ///
    /// # Errors
    /// A policy with errors, an audit file that cannot be written, what the ORB refuses.
    pub fn start(&self, mut config: Config) -> Result<Service, Box<dyn Error>> {
        let audit = match &self.audit {
            None => Audit::to_log(),
            Some(file) => {
                Audit::to_file(file).map_err(|error| format!("the audit file {}: {error}", file.display()))?
            }
        };
        let access = Arc::new(match &self.access_policy {
            Some(file) => AccessControl::from_file(file, audit)?,
            None => AccessControl::new(Policy::built_in(self.open), audit),
        });
        if super::orb::has_tls() {
            config.endpoints = config.endpoints.iter().map(|endpoint| over_tls(endpoint)).collect();
        }
        self.metrics.prepare(&mut config);
        self.warn_of_strangers(&config);
        if self.users.is_some() && !super::orb::has_tls() {
            return Err(Wrong("--users needs --tls: passwords go over TLS only".into()).into());
        }
        let users = self.users.as_deref().map(Users::read).transpose()?.map(Arc::new);
        let required = self.access_policy.is_none();
        let passwords = users.clone().map(|users| Passwords { users, required });
        let orb = super::orb::guarded(config, access.clone(), passwords)?;
        handle_signals(orb.clone(), access.clone(), users)?;
        Ok(Service { orb, access, metrics: self.metrics.clone(), families: None, serves: None })
    }

    fn warn_of_strangers(&self, config: &Config) {
        for endpoint in config.endpoints.iter().filter(|endpoint| is_beyond_loopback(endpoint)) {
            let tls = endpoint.starts_with("giop:ssl:");
            let missing = match (tls, self.access_policy.is_some()) {
                (true, true) => continue,
                (false, false) => {
                    "without --tls and --access-policy: every host that reaches it may read and change all"
                }
                (false, true) => {
                    "without --tls: clients are known by their addresses only, and can be overheard"
                }
                (true, false) => "without --access-policy: every client with a certificate may change all",
            };
            log::warn(LOG, format_args!("{endpoint} listens beyond this host {missing}"));
        }
    }
}

impl Service {
    /// Adds metrics of the service's own to those of all services.
    pub fn add_metrics(&mut self, families: Families) {
        self.families = Some(families);
    }

    /// Has `/readyz` say that the service is not ready while `serves` returns false.
    pub fn is_ready_while(&mut self, serves: Serves) {
        self.serves = Some(serves);
    }

    /// Prints the line that other programs wait for and tells the service manager.
    ///
    /// # Errors
    /// Standard output is closed; the metrics cannot be served.
    pub fn ready(&self, what: &dyn Display, more: &str) -> Result<Option<Metrics>, Box<dyn Error>> {
        let metrics =
            self.metrics.start(&self.orb, &self.access, self.families.clone(), self.serves.clone())?;
        let line = metrics.as_ref().map_or_else(String::new, |served| format!("METRICS {}\n", served.url()));
        print(&format!("READY {what}\n{more}{line}")).map_err(|error| {
            format!("the line READY cannot be written to standard output, so the service ends: {error}")
        })?;
        // No service manager has asked for it as a rule.
        let _ = sd_notify::notify(false, &[NotifyState::Ready]);
        feed_watchdog(&self.orb);
        Ok(metrics)
    }

    /// Serves until SIGTERM or SIGINT, or until the service ends itself.
    pub fn run(self) {
        self.orb.run();
        log::flush(LAST_RECORDS);
    }
}

/// Prints past the library's buffer: what that keeps after an error is printed when the process
/// ends, and says READY of a service that is not.
fn print(text: &str) -> std::io::Result<()> {
    let output = std::io::stdout();
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        match rustix::io::write(&output, rest) {
            Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
            Ok(written) => rest = &rest[written..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// SIGTERM and SIGINT end the ORB in order: requests under way are answered, peers get
/// CloseConnection. A second one ends the process at once. SIGHUP reads the policy and the users
/// again.
fn handle_signals(orb: Orb, access: Arc<AccessControl>, users: Option<Arc<Users>>) -> std::io::Result<()> {
    let ending = Arc::new(AtomicBool::new(false));
    let (asked, hangup) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (woken, wake) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, ending.clone())?;
        signal_hook::flag::register(signal, ending.clone())?;
        signal_hook::flag::register_usize(signal, asked.clone(), signal as usize)?;
    }
    signal_hook::flag::register(SIGHUP, hangup.clone())?;
    // Last, so that the thread finds the flags when it is woken.
    for signal in [SIGHUP, SIGTERM, SIGINT] {
        signal_hook::low_level::pipe::register(signal, wake.try_clone()?)?;
    }
    let handle = move || {
        let mut failed = false;
        loop {
            // The iterator of the library panics here where the kernel has no memory.
            if let Err(error) = (&woken).read(&mut [0; 16])
                && error.kind() != ErrorKind::Interrupted
            {
                if !std::mem::replace(&mut failed, true) {
                    log::warn(LOG, format_args!("signals are looked for ten times a second: {error}"));
                }
                std::thread::sleep(SIGNAL_RETRY);
            }
            if hangup.swap(false, Ordering::Relaxed) {
                reload(&access, users.as_deref());
            }
            let signal = asked.load(Ordering::Relaxed);
            if signal != 0 {
                let _ = sd_notify::notify(false, &[NotifyState::Stopping]);
                log::info(LOG, format_args!("ends, as signal {signal} asks"));
                let _ = orb.shutdown(true);
                return;
            }
        }
    };
    isorb_rt::sched::ThreadSpec::new("isorb-signals")
        .class(isorb_rt::sched::SchedClass::Other)
        .spawn(handle)
        .map(drop)
        .map_err(|error| std::io::Error::other(error.to_string()))
}

fn reload(access: &AccessControl, users: Option<&Users>) {
    match users.map(Users::reload) {
        Some(Ok(())) => log::info(LOG, format_args!("the users were read again")),
        Some(Err(error)) => log::error(LOG, format_args!("the users before stay in force: {error}")),
        None => {}
    }
    match access.reload() {
        Ok(true) => log::info(LOG, format_args!("the policy was read again")),
        Ok(false) if users.is_some() => {}
        Ok(false) => log::info(LOG, format_args!("there is no --access-policy to read again")),
        Err(error) => log::error(LOG, format_args!("the policy before stays in force: {error}")),
    }
}

/// Tells the service manager that the process lives, if it wants to know (`WatchdogSec`).
fn feed_watchdog(orb: &Orb) {
    let mut microseconds = 0;
    if !sd_notify::watchdog_enabled(false, &mut microseconds) {
        return;
    }
    let orb = orb.clone();
    let feed = move || {
        while !orb.is_shut_down() && super::metrics::is_live(&orb) {
            let _ = sd_notify::notify(false, &[NotifyState::Watchdog]);
            std::thread::sleep(Duration::from_micros(microseconds / 3));
        }
    };
    let started = std::thread::Builder::new().name("isorb-watchdog".into()).spawn(feed);
    if let Err(error) = started {
        log::error(LOG, format_args!("no thread for the watchdog: {error}"));
    }
}
