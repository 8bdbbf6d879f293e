//! The services that faults are made at: how each is started, a write that it acknowledges, and
//! the read that shows it.

mod coordinator;
mod events;
mod log;
mod memory;
mod naming;
mod scheduler;
mod servers;

use std::fmt;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use isorb::{Config, Orb};

/// A call that gets no answer for so long has failed.
const ANSWER: Duration = Duration::from_secs(4);

/// A client of one service. Its writes have numbers.
pub trait Client: Send {
    /// Makes a write, perhaps a second time. `Ok` means that the service acknowledged it.
    ///
    /// # Errors
    /// What the client learns.
    fn write(&mut self, number: u32) -> Result<(), String>;

    /// Whether the service has the write.
    ///
    /// # Errors
    /// What the client learns.
    fn read(&mut self, number: u32) -> Result<bool, String>;

    /// Takes a write back, so that a service that runs for long does not grow by what it is asked
    /// to keep.
    ///
    /// # Errors
    /// What the client learns.
    fn remove(&mut self, number: u32) -> Result<(), String>;
}

/// Why there is no client.
pub type Connected = Result<Box<dyn Client>, String>;

/// A service.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, clap::ValueEnum)]
pub enum Subject {
    /// The naming service with a store
    Naming,
    /// The event channel with a store
    EventChannel,
    /// The coordinator of reflective memory with a store
    MemoryCoordinator,
    /// A node's server of reflective memory
    MemoryServer,
    /// The scheduling service with a record
    Scheduler,
    /// The log service with a store
    LogService,
    /// The implementation repository with a store
    ImplementationRepository,
    /// The control: a naming service that stores nothing, and must be found to lose names
    #[value(hide = true)]
    Forgetful,
}

impl Subject {
    /// Those of the campaign.
    pub const ALL: [Subject; 7] = [
        Subject::Naming,
        Subject::EventChannel,
        Subject::MemoryCoordinator,
        Subject::MemoryServer,
        Subject::Scheduler,
        Subject::LogService,
        Subject::ImplementationRepository,
    ];

    /// Its name on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Subject::Naming => "naming",
            Subject::EventChannel => "event-channel",
            Subject::MemoryCoordinator => "memory-coordinator",
            Subject::MemoryServer => "memory-server",
            Subject::Scheduler => "scheduler",
            Subject::LogService => "log-service",
            Subject::ImplementationRepository => "implementation-repository",
            Subject::Forgetful => "forgetful",
        }
    }

    /// Whether a restart keeps what was acknowledged. The scheduler's operations register again
    /// after a restart; its record must be whole.
    pub fn keeps_writes(self) -> bool {
        self != Subject::Scheduler
    }

    /// Whether what was acknowledged may be seen some time after a restart only.
    pub fn comes_back_later(self) -> bool {
        matches!(self, Subject::MemoryServer | Subject::EventChannel)
    }

    /// Whether it loses its oldest writes when it is full, as a log does.
    pub fn wraps(self) -> bool {
        self == Subject::LogService
    }

    /// The arguments of `isorb` that start it with its files in a folder.
    pub fn arguments(self, room: &Room) -> Vec<String> {
        let file = |name: &str| room.folder.join(name).display().to_string();
        let words: Vec<&str> = match self {
            Subject::Naming => vec!["naming", "--store"],
            Subject::EventChannel => vec!["event-channel", "--real-time", "off", "--store"],
            Subject::MemoryCoordinator => vec!["memory-coordinator", "--store"],
            Subject::MemoryServer => vec!["memory-server", "--name", "n", "--socket"],
            Subject::Scheduler => vec!["scheduler", "--record"],
            Subject::LogService => vec!["log-service", "--max-size", LOG_SIZE, "--store"],
            Subject::ImplementationRepository => vec!["imr", "serve", "--store"],
            Subject::Forgetful => vec!["naming", "--memory"],
        };
        let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        if self != Subject::Forgetful {
            words.push(file("store"));
        }
        if self == Subject::Scheduler && room.folder.join("store").exists() {
            words.extend(["--schedule".to_owned(), file("store")]);
        }
        // References to persistent objects stay valid at the same address only.
        words.extend(["--host".to_owned(), room.host.to_string()]);
        if self != Subject::MemoryServer {
            words.extend(["--port".to_owned(), PORT.to_string()]);
        }
        words
    }

    /// A client of the service that is ready at this URL.
    ///
    /// # Errors
    /// What the client learns.
    pub fn connect(self, orb: &Orb, url: &str) -> Connected {
        match self {
            Subject::Naming | Subject::Forgetful => naming::connect(orb, url),
            Subject::EventChannel => events::connect(orb, url),
            Subject::MemoryCoordinator => coordinator::connect(orb, url),
            Subject::MemoryServer => memory::connect(orb, Path::new(url)),
            Subject::Scheduler => scheduler::connect(orb, url),
            Subject::LogService => log::connect(orb, url),
            Subject::ImplementationRepository => servers::connect(orb, url),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

const PORT: u16 = 23_101;

/// Octets of a log. Its file may be three times as large, and the disk of the soak is small.
const LOG_SIZE: &str = "1048576";

/// Where one process of a service has its files, and its address that no other process has.
#[derive(Clone, Debug)]
pub struct Room {
    pub folder: PathBuf,
    pub host: Ipv4Addr,
}

impl Room {
    /// A room of this process, by number. All of 127.0.0.0/8 is this host; neither 0 nor 255 ends
    /// an address here.
    pub fn new(folder: &Path, number: u32) -> Room {
        let [high, low] = (block() * 128 + (number / 254 % 128) as u16).to_be_bytes();
        let host = Ipv4Addr::new(127, high, low, (number % 254 + 1) as u8);
        Room { folder: folder.to_owned(), host }
    }
}

/// The block of addresses that this process has until it ends: no other one has its last address.
fn block() -> u16 {
    static BLOCK: OnceLock<(u16, Option<UdpSocket>)> = OnceLock::new();
    let choose = || {
        let blocks = (0..500).map(|further| ((std::process::id() + further) % 500 + 2) as u16);
        let last = |block: u16| {
            let [high, low] = (block * 128 + 127).to_be_bytes();
            UdpSocket::bind((Ipv4Addr::new(127, high, low, 255), PORT)).ok()
        };
        let free = blocks.into_iter().find_map(|block| Some((block, Some(last(block)?))));
        // Hundreds of campaigns at a time.
        free.unwrap_or((2, None))
    };
    BLOCK.get_or_init(choose).0
}

/// An ORB of a client, which can be called back.
///
/// # Errors
/// What the ORB refuses.
pub fn client_orb() -> isorb::Result<Orb> {
    let limit = ANSWER.as_millis() as u64;
    let config = Config { round_trip_timeout_ms: limit, connect_timeout_ms: limit, ..Config::default() };
    let orb = Orb::with_config(config)?;
    orb.root_poa()?.manager().activate()?;
    Ok(orb)
}

/// Waits until a value comes.
fn within<T>(
    limit: Duration,
    mut value: impl FnMut() -> Result<Option<T>, String>,
) -> Result<Option<T>, String> {
    let start = Instant::now();
    loop {
        match value()? {
            None if start.elapsed() < limit => std::thread::sleep(Duration::from_millis(5)),
            done => return Ok(done),
        }
    }
}

/// An error as a sentence.
fn text(error: impl fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rooms_have_addresses_of_their_own() {
        let hosts: Vec<_> = (0..20_000).map(|number| Room::new(Path::new("/"), number).host).collect();
        let distinct: std::collections::BTreeSet<_> = hosts.iter().collect();
        assert_eq!(distinct.len(), hosts.len());
        assert!(hosts.iter().all(Ipv4Addr::is_loopback));
    }
}
