//! What is measured: the raw control, and the ORBs.

pub mod afresh;
pub mod band;
pub(crate) mod build;
pub mod futex;
pub mod iceoryx2;
pub mod isorb;
pub mod omniorb;
pub mod raw;
pub mod tls;

use std::ffi::OsString;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::process::{Fault, Launcher, Peer, PeerError, Place, Role};
use crate::protocol::Block;

/// What is measured, by the name that the tables give it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Subject {
    /// TCP without an ORB.
    Raw,
    /// The same once more: what the two differ by is noise.
    RawAgain,
    /// isorb with a thread for each connection.
    Isorb,
    /// isorb with a lane of threads that all connections share.
    IsorbLane,
    /// isorb with a thread pool's lane behind a connection in bands, the client at a priority.
    IsorbBand,
    /// isorb over a unix socket, with a thread for each connection.
    IsorbUnix,
    /// isorb over memory segments, with a thread for each connection.
    IsorbSegment,
    /// isorb with messages in fragments of a kilobyte: a control, not one of the usual subjects.
    IsorbFragments,
    /// isorb with a priority that travels with each request, and is told again with its reply; not one of the usual subjects.
    IsorbPriority,
    /// omniORB as its package ships it.
    OmniOrb,
    /// omniORB with a server that scans its connections every five seconds instead of twenty times a second.
    OmniOrbTuned,
    /// A unix socket without an ORB: for the transports, not one of the usual subjects; as those that follow.
    RawUnix,
    /// A word of shared memory that two processes hand to and fro, and sleep on.
    Futex,
    /// iceoryx2's request and response, both ends polling.
    Iceoryx2,
    /// [`IsorbSegment`](Self::IsorbSegment) whose ends never look before they sleep: a control; as the next.
    IsorbSegmentAsleep,
    /// [`IsorbUnix`](Self::IsorbUnix) whose calls have no time-out, as those of [`RawUnix`](Self::RawUnix) have none: the kernel sets no
    /// timer for either.
    IsorbUnixUnlimited,
    /// [`IsorbTls`](Self::IsorbTls) with a connection, and so a handshake, for each call.
    IsorbTlsAfresh,
    /// rustls over TCP without an ORB.
    RawTls,
    /// isorb over TLS, with a thread for each connection.
    IsorbTls,
}

/// The programs of a subject. The client gets the server's address as one more argument.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The server and its arguments.
    pub server: Vec<OsString>,
    /// The client and its arguments.
    pub client: Vec<OsString>,
}

/// Why a subject has no programs here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Missing {
    /// Something that must be installed, and how Debian names it.
    NotInstalled(&'static str),
    /// It is installed, but its programs cannot be built; the compiler has said why.
    NotBuilt,
}

impl Subject {
    /// The usual ones, the control first.
    pub const ALL: [Subject; 9] = [
        Subject::Raw,
        Subject::RawAgain,
        Subject::Isorb,
        Subject::IsorbLane,
        Subject::IsorbBand,
        Subject::IsorbUnix,
        Subject::IsorbSegment,
        Subject::OmniOrb,
        Subject::OmniOrbTuned,
    ];

    /// Those that are measured where they are named.
    pub const MORE: [Subject; 10] = [
        Subject::IsorbFragments,
        Subject::IsorbPriority,
        Subject::RawUnix,
        Subject::Futex,
        Subject::Iceoryx2,
        Subject::RawTls,
        Subject::IsorbTls,
        Subject::IsorbSegmentAsleep,
        Subject::IsorbUnixUnlimited,
        Subject::IsorbTlsAfresh,
    ];

    /// The `subject` field of a result.
    pub fn name(self) -> &'static str {
        match self {
            Subject::Raw => "raw",
            Subject::RawAgain => "raw-again",
            Subject::Isorb => "isorb",
            Subject::IsorbLane => "isorb-lane",
            Subject::IsorbBand => "isorb-band",
            Subject::IsorbUnix => "isorb-unix",
            Subject::IsorbSegment => "isorb-segment",
            Subject::IsorbFragments => "isorb-fragments",
            Subject::IsorbPriority => "isorb-priority",
            Subject::OmniOrb => "omniorb",
            Subject::OmniOrbTuned => "omniorb-tuned",
            Subject::RawUnix => "raw-unix",
            Subject::Futex => "futex",
            Subject::Iceoryx2 => "iceoryx2",
            Subject::IsorbSegmentAsleep => "isorb-segment-asleep",
            Subject::IsorbUnixUnlimited => "isorb-unix-unlimited",
            Subject::IsorbTlsAfresh => "isorb-tls-afresh",
            Subject::RawTls => "rustls",
            Subject::IsorbTls => "isorb-tls",
        }
    }

    /// How often its server does something without being called, where that is so often that blocks of calls would be
    /// hit by it.
    pub fn housekeeping(self) -> Option<Duration> {
        (self == Subject::OmniOrb).then_some(Duration::from_millis(50))
    }

    /// Its programs, built if need be, which takes some seconds once.
    pub fn programs(self, launcher: &Launcher) -> Result<Programs, Missing> {
        match self {
            Subject::Raw | Subject::RawAgain => Ok(Programs {
                server: launcher.peer(&["raw-server"]),
                client: launcher.peer(&["raw-client"]),
            }),
            Subject::Isorb => Ok(isorb_programs(launcher, &["-ORBConcurrency", "connection"], &[])),
            Subject::IsorbLane => Ok(isorb_programs(launcher, &["-ORBConcurrency", "lane"], &[])),
            Subject::IsorbBand => Ok(Programs {
                server: launcher.peer(&["isorb-band-server"]),
                client: launcher.peer(&["isorb-band-client"]),
            }),
            Subject::IsorbUnix | Subject::IsorbUnixUnlimited => {
                let client: &[&str] =
                    if self == Subject::IsorbUnix { &[] } else { &["-ORBRoundTripTimeout", "0"] };
                let server = ["-ORBConcurrency", "connection", "-ORBEndPoint", "unix:"];
                Ok(isorb_programs(launcher, &server, client))
            }
            Subject::IsorbSegment => Ok(isorb_programs(
                launcher,
                &["-ORBConcurrency", "connection", "-ORBEndPoint", "segment:"],
                &[],
            )),
            Subject::IsorbSegmentAsleep => {
                let asleep = ["-ORBSegmentSpin", "0"];
                let server = [&["-ORBConcurrency", "connection", "-ORBEndPoint", "segment:"], &asleep[..]];
                Ok(isorb_programs(launcher, &server.concat(), &asleep))
            }
            Subject::IsorbFragments => {
                let fragments = ["-ORBFragment", "1024"];
                Ok(isorb_programs(launcher, &fragments, &fragments))
            }
            Subject::IsorbPriority => {
                // What the kernel does about priorities is no part of the path that is counted.
                let ordinary = ["--", "-ORBConcurrency", "connection", "-ORBRealTime", "off"];
                let peer = |name| launcher.peer(&[&[name, "--propagated"], &ordinary[..]].concat());
                Ok(Programs { server: peer("isorb-server"), client: peer("isorb-client") })
            }
            Subject::OmniOrb => omniorb::programs(omniorb::Server::AsShipped),
            Subject::OmniOrbTuned => omniorb::programs(omniorb::Server::Tuned),
            Subject::RawUnix => Ok(Programs {
                server: launcher.peer(&["raw-unix-server"]),
                client: launcher.peer(&["raw-unix-client"]),
            }),
            Subject::Futex => futex::programs(),
            Subject::Iceoryx2 => iceoryx2::programs(),
            Subject::RawTls => with_certificates(launcher, "raw-tls-server", "raw-tls-client", &[]),
            Subject::IsorbTlsAfresh => {
                with_certificates(launcher, "isorb-tls-server", "isorb-tls-afresh-client", &[])
            }
            Subject::IsorbTls => isorb_tls_programs(launcher, &[]),
        }
    }
}

/// The two peers, with the folder of their certificates.
fn with_certificates(
    launcher: &Launcher,
    server: &str,
    client: &str,
    of_server: &[&str],
) -> Result<Programs, Missing> {
    let folder = tls::certificates().map_err(|error| {
        eprintln!("certificates: {error}");
        Missing::NotBuilt
    })?;
    let program = |what: &str| {
        let mut words = launcher.peer(&[what]);
        words.push(folder.clone().into());
        words
    };
    let mut server = program(server);
    if !of_server.is_empty() {
        server.extend(["--"].iter().chain(of_server).map(Into::into));
    }
    Ok(Programs { server, client: program(client) })
}

/// isorb's programs over TLS with these arguments of the server's ORB.
pub(crate) fn isorb_tls_programs(launcher: &Launcher, of_server: &[&str]) -> Result<Programs, Missing> {
    with_certificates(launcher, "isorb-tls-server", "isorb-tls-client", of_server)
}

/// isorb's programs with these arguments of their ORBs.
pub(crate) fn isorb_programs(launcher: &Launcher, of_server: &[&str], of_client: &[&str]) -> Programs {
    // The client's own arguments come before the reference, which is added last.
    Programs {
        server: launcher.peer(&[&["isorb-server", "--"], of_server].concat()),
        client: launcher.peer(&[&["isorb-client", "--"], of_client].concat()),
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no subject has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoSubject;

impl fmt::Display for NoSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected one of:")?;
        Subject::ALL.iter().chain(&Subject::MORE).try_for_each(|subject| write!(f, " {subject}"))
    }
}

impl std::error::Error for NoSubject {}

impl FromStr for Subject {
    type Err = NoSubject;

    fn from_str(s: &str) -> Result<Subject, NoSubject> {
        Subject::ALL.into_iter().chain(Subject::MORE).find(|subject| subject.name() == s).ok_or(NoSubject)
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Missing::NotInstalled(packages) => write!(f, "not installed (apt-get install {packages})"),
            Missing::NotBuilt => f.write_str("installed, but its programs could not be built"),
        }
    }
}

impl std::error::Error for Missing {}

/// A client and its server, connected.
#[derive(Debug)]
pub struct Pair {
    server: Peer,
    client: Peer,
    address: String,
    places: Places,
}

/// Where the two of a pair run.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// The client.
    pub client: Place,
    /// The server.
    pub server: Place,
}

impl Places {
    /// Wherever the kernel puts them.
    pub const ANYWHERE: Places = Places { client: Place::ANYWHERE, server: Place::ANYWHERE };
}

impl Pair {
    /// Starts the two and waits until a call can be made, for at most `within` each.
    pub fn start(
        launcher: &Launcher,
        subject: Subject,
        programs: &Programs,
        places: Places,
        within: Duration,
    ) -> Result<Pair, PeerError> {
        let name = subject.name();
        let mut server = Peer::start(launcher, name, Role::Server, places.server, &programs.server)?;
        let address = server.expect("ready", within)?;
        let mut words = programs.client.clone();
        words.push(address.clone().into());
        let mut client = Peer::start(launcher, name, Role::Client, places.client, &words)?;
        client.expect("ready", within)?;
        Ok(Pair { server, client, address, places })
    }

    /// What the server said when it was ready: its address or reference.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Makes a block of calls; the samples in nanoseconds.
    pub fn run(&mut self, block: Block, within: Duration) -> Result<Vec<u64>, PeerError> {
        self.client.tell(&block.line())?;
        let count = self.client.expect("samples", within)?;
        match count.parse() {
            Ok(count) if count <= block.calls => self.client.numbers(count, within),
            _ => Err(self.client.error(Fault::Garbled)),
        }
    }

    /// How many threads of both do not run as their places say, of how many.
    pub fn strays(&self) -> (usize, usize) {
        let (client, server) =
            (self.client.strays(self.places.client), self.server.strays(self.places.server));
        (client.0 + server.0, client.1 + server.1)
    }

    /// Stops both where they are.
    pub fn pause(&self) {
        self.client.pause();
        self.server.pause();
    }

    /// Lets both go on.
    pub fn resume(&self) {
        self.server.resume();
        self.client.resume();
    }

    /// Resident memory of the server in KiB, as the kernel counts it.
    pub fn server_resident_kib(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.server.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix(" kB")?.parse().ok()
    }

    /// Ends both, the client first, in an orderly way: what counts their instructions reports at their end.
    pub fn end(self, within: Duration) -> Result<(), PeerError> {
        self.client.end(within)?;
        self.server.end(within)
    }
}
