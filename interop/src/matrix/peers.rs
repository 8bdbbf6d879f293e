//! The peers and their commands.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A program with the contract of `interop/README.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    Isorb,
    OmniOrb,
    OmniOrbPy,
    JacOrb,
}

impl Peer {
    pub const OTHERS: [Peer; 3] = [Peer::OmniOrb, Peer::OmniOrbPy, Peer::JacOrb];

    pub fn name(self) -> &'static str {
        match self {
            Peer::Isorb => "isorb",
            Peer::OmniOrb => "omniorb",
            Peer::OmniOrbPy => "omniorbpy",
            Peer::JacOrb => "jacorb",
        }
    }
}

/// The folders of the programs.
pub(super) struct Installed {
    /// The output of `interop/setup.sh`.
    build: PathBuf,
    /// The folder of this program, where cargo puts isorb's own beside it.
    own: PathBuf,
}

impl Installed {
    pub fn find() -> Installed {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let build = std::env::var_os("ISORB_INTEROP_BUILD").map_or(here.join(".build"), PathBuf::from);
        let own = std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_owned));
        Installed { build, own: own.unwrap_or_default() }
    }

    pub fn has(&self, peer: Peer) -> bool {
        match peer {
            Peer::Isorb => self.isorb("isorb-peer").exists(),
            other => ["server", "client"].iter().all(|role| self.built(other, role).exists()),
        }
    }

    /// One of the peers' programs.
    pub fn built(&self, peer: Peer, program: &str) -> PathBuf {
        self.build.join(peer.name()).join(program)
    }

    /// One of isorb's own programs.
    pub fn isorb(&self, program: &str) -> PathBuf {
        self.own.join(program)
    }

    /// The command of a peer as `server` or `client`.
    pub fn command(&self, peer: Peer, role: &str) -> Command {
        match peer {
            Peer::Isorb => {
                let mut command = Command::new(self.isorb("isorb-peer"));
                command.arg(role);
                command
            }
            other => Command::new(self.built(other, role)),
        }
    }
}
