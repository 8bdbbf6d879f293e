//! Where processes of one host meet: a socket in the file system.
//!
//! Two processes mean the same locality by a path when they run on one kernel and the path leads
//! both to the same file. The text that [`locality`] gives says both, so that a reference which
//! came from another host, another container or an earlier server at the same path is not taken for
//! one to what happens to listen there.

use crate::{Locality, PeerProcess};
use isorb_rt::sync::PiOnceLock;
use rustix::fs::{Mode, chmod, stat, unlink};
use rustix::io::Errno;
use socket2::{Domain, SockAddr, Socket, Type};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

const BACKLOG: i32 = 128;
/// `sun_path` with its final zero.
const LONGEST: usize = 107;

/// The identity of a file, which differs even if the number of a removed file is used again:
/// device, number, and when it was last changed, which for a socket is when it was made.
type File = (u64, u64, i64, i64);

fn file(path: &str) -> Result<File, Errno> {
    let found = stat(path)?;
    Ok((found.st_dev, found.st_ino, found.st_ctime, found.st_ctime_nsec as i64))
}

/// A bound path, which is removed when this is dropped, unless something else lies there by then.
#[derive(Debug)]
pub(crate) struct Path {
    pub text: String,
    file: File,
}

/// Listens at `path`, or at a fresh path when it is empty. The file gets `mode`. A file that an
/// ended server left behind is replaced.
pub(crate) fn listen(path: &str, kind: Type, mode: u32) -> io::Result<(OwnedFd, Path)> {
    let text = if path.is_empty() { fresh() } else { path.to_string() };
    if text.len() > LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is longer than 107 octets"));
    }
    let address = SockAddr::unix(&text)?;
    let socket = Socket::new(Domain::UNIX, kind, None)?;
    if let Err(error) = socket.bind(&address) {
        if error.kind() != io::ErrorKind::AddrInUse || !is_stale(&text, &address, kind) {
            return Err(error);
        }
        unlink(&*text)?;
        socket.bind(&address)?;
    }
    // No client can connect before `listen`, so none connects with the default permissions.
    chmod(&*text, Mode::from_raw_mode(mode))?;
    let file = file(&text)?;
    socket.listen(BACKLOG)?;
    Ok((socket.into(), Path { text, file }))
}

/// Whether the path is a socket at which no process listens.
fn is_stale(path: &str, address: &SockAddr, kind: Type) -> bool {
    let is_socket = stat(path).is_ok_and(|found| {
        rustix::fs::FileType::from_raw_mode(found.st_mode) == rustix::fs::FileType::Socket
    });
    let probe = |kind| {
        Socket::new(Domain::UNIX, kind, None).and_then(|probe| {
            probe.set_nonblocking(true)?;
            probe.connect(address)
        })
    };
    // A server with another kind of socket is alive as well; the error is another one then.
    is_socket && probe(kind).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

fn fresh() -> String {
    let folder = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_dir());
    let folder = folder.unwrap_or_else(std::env::temp_dir);
    let nonce = isorb_rt::random_u64();
    folder.join(format!("isorb-{}-{nonce:016x}", std::process::id())).to_string_lossy().into_owned()
}

/// What `path` means to this process: the running kernel, and the file that the path leads to.
pub(crate) fn locality(path: &str) -> Option<Locality> {
    static BOOT: PiOnceLock<Option<String>> = PiOnceLock::new();
    let boot = BOOT.get_or_init(|| {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some(id.trim().to_string()).filter(|id| !id.is_empty())
    });
    let (device, number, seconds, nanoseconds) = file(path).ok()?;
    let identity = format!("{device:x}:{number:x}:{seconds:x}.{nanoseconds:x}");
    Some(Locality { host: boot.clone()?, identity })
}

/// The process at the other end, for logs and checks.
pub(crate) fn credentials(fd: &OwnedFd) -> Result<PeerProcess, Errno> {
    let peer = rustix::net::sockopt::socket_peercred(fd)?;
    let (user, group) = (peer.uid.as_raw(), peer.gid.as_raw());
    Ok(PeerProcess { id: peer.pid.as_raw_nonzero().get(), user, group })
}

impl Path {
    /// Removes the file, if it is still the one that was made.
    pub fn remove(&self) {
        if file(&self.text) == Ok(self.file) {
            let _ = unlink(&*self.text);
        }
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        self.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_file_of_a_dead_server_is_replaced() {
        let path = fresh();
        let (alive, first) = listen(&path, Type::STREAM, 0o600).unwrap();
        let refused = listen(&path, Type::STREAM, 0o600).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        let other_kind = listen(&path, Type::SEQPACKET, 0o600).unwrap_err();
        assert_eq!(other_kind.kind(), io::ErrorKind::AddrInUse);
        let before = locality(&path).unwrap();
        // As a killed server leaves it: the file without a listener.
        drop(alive);
        // The file system's clock has ticks.
        std::thread::sleep(std::time::Duration::from_millis(50));
        let (_again, second) = listen(&path, Type::STREAM, 0o600).unwrap();
        assert_ne!(locality(&path).unwrap(), before, "another file is another locality");
        // The first no longer owns what lies there.
        drop(first);
        assert!(stat(&*path).is_ok());
        drop(second);
        assert!(stat(&*path).is_err());
        assert_eq!(locality(&path), None);
    }

    #[test]
    fn files_other_than_sockets_are_kept() {
        let path = fresh();
        std::fs::write(&path, "mine").unwrap();
        assert!(listen(&path, Type::STREAM, 0o600).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
        std::fs::remove_file(&path).unwrap();
        assert!(listen(&"x".repeat(200), Type::STREAM, 0o600).is_err());
    }
}
