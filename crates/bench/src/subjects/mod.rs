//! What is measured: the raw control, and the ORBs.

pub mod band;
pub mod bare_echo;
pub mod build;
pub mod futex;
pub mod iceoryx2;
pub mod isorb;
pub mod omniorb;
mod pair;
pub mod raw;
pub mod raw_epoll;
pub mod stderr_sink;
pub mod tls;
pub mod tls_each_call;

use std::ffi::OsString;
use std::fmt;
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::PossibleValue;

use crate::process::Launcher;
pub use pair::{Pair, PairScheduling, StoppedPair, TIMEOUT};

/// The subjects with the names that tables give them, as one list.
macro_rules! subjects {
    ($($(#[$doc:meta])* $subject:ident = $name:literal,)*) => {
        /// A subject, by the name that the tables give it.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Subject {
            $($(#[$doc])* $subject,)*
        }

        impl Subject {
            const ALL: &[Subject] = &[$(Subject::$subject),*];

            /// The `subject` field of a result.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Subject::$subject => $name,)*
                }
            }
        }
    };
}

// Those that are measured only where they are named come last.
subjects! {
    /// TCP without an ORB.
    Raw = "raw",
    /// The same once more: what the two differ by is noise.
    RawAgain = "raw-again",
    /// isorb with a thread for each connection.
    Isorb = "isorb",
    /// isorb with a lane of threads that all connections share.
    IsorbLane = "isorb-lane",
    /// isorb with a thread pool's lane behind a connection in bands, the client at a priority.
    IsorbBand = "isorb-band",
    /// isorb over a unix socket, with a thread for each connection.
    IsorbUnix = "isorb-unix",
    /// isorb over memory segments, with a thread for each connection.
    IsorbSegment = "isorb-segment",
    /// omniORB as its package ships it.
    OmniOrb = "omniorb",
    /// omniORB with a server that scans its connections every five seconds, not twenty times a
    /// second.
    OmniOrbTuned = "omniorb-tuned",
    /// isorb over memory segments, with a lane of one thread for all connections.
    IsorbSegmentLane = "isorb-segment-lane",
    /// isorb with messages in fragments of a kilobyte: a control.
    IsorbFragments = "isorb-fragments",
    /// isorb with a priority that travels with each request, and with its reply.
    IsorbPriority = "isorb-priority",
    /// A unix socket without an ORB.
    RawUnix = "raw-unix",
    /// A word of shared memory that two processes hand to and fro, and sleep on.
    Futex = "futex",
    /// iceoryx2's request and response, both ends polling.
    Iceoryx2 = "iceoryx2",
    /// rustls over TCP without an ORB.
    RawTls = "rustls",
    /// isorb over TLS, with a thread for each connection.
    IsorbTls = "isorb-tls",
    /// [`IsorbSegment`](Self::IsorbSegment) without spinning before a sleep: a control.
    IsorbSegmentAsleep = "isorb-segment-asleep",
    /// [`IsorbSegment`](Self::IsorbSegment) with sequences of octets from 4 KiB on that the client
    /// has by a loan, filled once.
    IsorbSegmentLoan = "isorb-segment-loan",
    /// [`IsorbSegment`](Self::IsorbSegment) with loans both ways that neither side writes or reads.
    /// Only sequences of octets from 4 KiB on.
    IsorbSegmentInPlace = "isorb-segment-in-place",
    /// [`Iceoryx2`](Self::Iceoryx2) with echoes that neither side writes or reads.
    Iceoryx2InPlace = "iceoryx2-in-place",
    /// [`IsorbUnix`](Self::IsorbUnix) without a time-out of calls. [`RawUnix`](Self::RawUnix)
    /// has none either, so the kernel sets no timer for the two.
    IsorbUnixUnlimited = "isorb-unix-unlimited",
    /// [`IsorbTls`](Self::IsorbTls) with a connection, and so a handshake, for each call.
    IsorbTlsEachCall = "isorb-tls-afresh",
}

/// The programs of a subject. The client gets the server's address as one more argument.
#[derive(Clone, Debug)]
pub struct Programs {
    pub server: Vec<OsString>,
    pub client: Vec<OsString>,
}

/// Why a subject has no programs here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Missing {
    /// Packages that must be installed, as Debian names them.
    NotInstalled(&'static str),
    /// It is installed, but its programs cannot be built; the compiler has said why.
    NotBuilt,
}

use Subject::*;

impl Subject {
    /// The usual ones, the control first.
    pub fn usual() -> &'static [Subject] {
        &Subject::ALL[..9]
    }

    /// The period of what its server does without being called, where that would hit blocks of
    /// calls.
    pub fn housekeeping(self) -> Option<Duration> {
        (self == OmniOrb).then_some(Duration::from_millis(50))
    }

    /// Its programs, built if need be, which takes some seconds once.
    pub fn programs(self, launcher: &Launcher) -> Result<Programs, Missing> {
        const SEGMENT: [&str; 4] = ["-ORBConcurrency", "connection", "-ORBEndPoint", "segment:"];
        const UNIX: [&str; 4] = ["-ORBConcurrency", "connection", "-ORBEndPoint", "unix:"];
        let peers = |server: &[&str], client: &[&str]| {
            Ok(Programs { server: launcher.peer(server), client: launcher.peer(client) })
        };
        let isorb = |server: &[&str], client: &[&str]| Ok(isorb_programs(launcher, server, client));
        match self {
            Raw | RawAgain => peers(&["raw-server"], &["raw-client"]),
            RawUnix => peers(&["raw-server", "--unix"], &["raw-client", "--unix"]),
            RawTls => with_certificates(launcher, &["raw-server"], &["raw-client"], &[]),
            Isorb => isorb(&["-ORBConcurrency", "connection"], &[]),
            IsorbLane => isorb(&["-ORBConcurrency", "lane"], &[]),
            IsorbBand => peers(&["isorb-band-server"], &["isorb-band-client"]),
            IsorbUnix => isorb(&UNIX, &[]),
            IsorbUnixUnlimited => isorb(&UNIX, &["-ORBRoundTripTimeout", "0"]),
            IsorbSegment => isorb(&SEGMENT, &[]),
            IsorbSegmentLane => isorb(&["-ORBEndPoint", "segment:;lane=1"], &[]),
            IsorbSegmentAsleep => {
                let asleep = ["-ORBSegmentSpin", "0"];
                isorb(&[&SEGMENT[..], &asleep].concat(), &asleep)
            }
            IsorbSegmentLoan => {
                let server = [&["isorb-server", "--"][..], &SEGMENT].concat();
                peers(&server, &["isorb-client", "--loan", "--"])
            }
            IsorbSegmentInPlace => {
                let server = [&["isorb-server", "--loan", "--"][..], &SEGMENT].concat();
                peers(&server, &["isorb-client", "--loan-in-place", "--"])
            }
            IsorbFragments => isorb(&["-ORBFragment", "1024"], &["-ORBFragment", "1024"]),
            IsorbPriority => {
                // Changes of priority in the kernel are no part of the path that is counted.
                let ordinary = ["--propagated", "--", "-ORBConcurrency", "connection", "-ORBRealTime", "off"];
                let with = |name| [&[name][..], &ordinary].concat();
                peers(&with("isorb-server"), &with("isorb-client"))
            }
            IsorbTls => isorb_tls_programs(launcher, &[]),
            IsorbTlsEachCall => {
                with_certificates(launcher, &["isorb-server"], &["isorb-client", "--each-call"], &[])
            }
            OmniOrb => omniorb::programs(omniorb::Server::AsShipped),
            OmniOrbTuned => omniorb::programs(omniorb::Server::Tuned),
            Futex => futex::programs(),
            Iceoryx2 => iceoryx2::programs(false),
            Iceoryx2InPlace => iceoryx2::programs(true),
        }
    }
}

/// The two peers over TLS, with these arguments of the server's ORB.
fn with_certificates(
    launcher: &Launcher,
    server: &[&str],
    client: &[&str],
    of_server: &[&str],
) -> Result<Programs, Missing> {
    let folder = tls::certificates()?;
    let program = |words: &[&str], more: &[&str]| {
        let mut words = launcher.peer(words);
        words.extend(["--tls".into(), folder.clone().into()]);
        words.extend(more.iter().map(OsString::from));
        words
    };
    let of_server = if of_server.is_empty() { vec![] } else { [&["--"], of_server].concat() };
    Ok(Programs { server: program(server, &of_server), client: program(client, &[]) })
}

/// isorb's programs over TLS with these arguments of the server's ORB.
pub fn isorb_tls_programs(launcher: &Launcher, of_server: &[&str]) -> Result<Programs, Missing> {
    with_certificates(launcher, &["isorb-server"], &["isorb-client"], of_server)
}

/// isorb's programs with these arguments of their ORBs.
pub fn isorb_programs(launcher: &Launcher, of_server: &[&str], of_client: &[&str]) -> Programs {
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

impl ValueEnum for Subject {
    fn value_variants<'a>() -> &'a [Self] {
        Subject::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()))
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
