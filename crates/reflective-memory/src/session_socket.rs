//! The local socket between a library and its node's server. It keeps message boundaries and passes
//! descriptors.
//!
//! Set-up goes by the ORB; the memory, which the ORB cannot carry, goes here. The socket also is
//! the session: when a process ends, for any reason, the kernel closes it and the server learns it.

use crate::Error;
use crate::error::{CallerError, PeerError};
pub(crate) use crate::session_message::{Kind, Message, ONLY_READ, receive, send};
use isorb_rt::Errno;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode, lstat};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, socket_with,
};
use rustix::process::{Uid, geteuid};
use std::path::{Path, PathBuf};

/// The default path: `ISORB_MEMORY_SOCKET`, else a file in the user's private folder.
pub(crate) fn default_path() -> PathBuf {
    let named = ["ISORB_MEMORY_SOCKET", "ISORB_CRM_SOCKET"].into_iter().find_map(std::env::var_os);
    named.map_or_else(|| private_folder().join("isorb-memory.socket"), PathBuf::from)
}

fn private_folder() -> PathBuf {
    let run_time = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    let temporary = || std::env::temp_dir().join(format!("isorb-{}", geteuid().as_raw()));
    run_time.map_or_else(temporary, PathBuf::from)
}

/// A folder that other users can write to lets them put a socket of their own at the default path.
fn check_private(path: &Path, create: bool) -> Result<(), Error> {
    let folder = private_folder();
    if path.parent() != Some(&folder) {
        return Ok(());
    }
    if create {
        match rustix::fs::mkdir(&folder, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(Error::file(&folder, error)),
        }
    }
    is_private(&folder)
}

fn is_private(folder: &Path) -> Result<(), Error> {
    let status = lstat(folder).map_err(|error| Error::file(folder, error))?;
    let is_folder = FileType::from_raw_mode(status.st_mode) == FileType::Directory;
    let others = Mode::WGRP | Mode::WOTH;
    match is_folder
        && status.st_uid == geteuid().as_raw()
        && !Mode::from_raw_mode(status.st_mode).intersects(others)
    {
        true => Ok(()),
        false => Err(CallerError::SharedFolder { folder: folder.into() }.into()),
    }
}

/// The server's end: a socket that only this user's processes can connect to.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: OwnedFd,
    path: PathBuf,
    /// Device and inode of the file.
    file: (u64, u64),
}

impl Listener {
    /// Listens. A socket that a killed server of this user left behind is replaced; no other file
    /// is.
    pub fn at(path: &Path) -> Result<Listener, Error> {
        let failed = |error: Errno| Error::file(path, error);
        check_private(path, true)?;
        let address = SocketAddrUnix::new(path).map_err(failed)?;
        let occupied = |reason| CallerError::SocketPath { path: path.into(), reason };
        match lstat(path) {
            Err(Errno::NOENT) => {}
            Err(error) => return Err(failed(error)),
            Ok(status) if FileType::from_raw_mode(status.st_mode) != FileType::Socket => {
                return Err(occupied("a file that is not a socket").into());
            }
            Ok(status) if status.st_uid != geteuid().as_raw() => {
                return Err(occupied("a socket of another user").into());
            }
            Ok(_) => match connect(seqpacket().map_err(failed)?, &address) {
                Ok(()) => return Err(failed(Errno::ADDRINUSE)),
                Err(Errno::CONNREFUSED) => rustix::fs::unlink(path).map_err(failed)?,
                Err(error) => return Err(failed(error)),
            },
        }
        let socket = seqpacket().map_err(failed)?;
        bind(&socket, &address).map_err(failed)?;
        rustix::fs::chmod(path, Mode::RUSR | Mode::WUSR).map_err(failed)?;
        listen(&socket, 64).map_err(failed)?;
        let file = lstat(path).map(|status| (status.st_dev, status.st_ino)).map_err(failed)?;
        Ok(Listener { socket, path: path.into(), file })
    }

    pub fn accept(&self) -> Result<OwnedFd, Errno> {
        accept_with(&self.socket, SocketFlags::CLOEXEC)
    }

    /// Removes the socket's file, unless another is at its path by now.
    pub fn remove_file(&self) {
        if lstat(&self.path).is_ok_and(|status| (status.st_dev, status.st_ino) == self.file) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Connects to a server of this user, of root, or of `ISORB_MEMORY_SERVER_UID`. Another user's
/// server could read and forge all values of the process.
pub(crate) fn connect_to(path: &Path) -> Result<OwnedFd, Error> {
    let failed = |error: Errno| {
        let what = format!(
            "no node server listens at {} (is `isorb memory-server` running on this node, and is that its socket?)",
            path.display()
        );
        Error::os(what, error)
    };
    let socket = seqpacket().map_err(|error| Error::os("a local socket", error))?;
    connect(&socket, &SocketAddrUnix::new(path).map_err(failed)?).map_err(failed)?;
    check_private(path, false)?;
    let server = socket_peercred(&socket).map_err(|error| Error::os("the server's credentials", error))?.uid;
    let configured = std::env::var("ISORB_MEMORY_SERVER_UID").ok().and_then(|uid| uid.parse().ok());
    match is_trusted(server, geteuid(), configured) {
        true => Ok(socket),
        false => Err(PeerError::WrongUser { socket: path.into(), uid: server.as_raw() }.into()),
    }
}

fn is_trusted(server: Uid, own: Uid, configured: Option<u32>) -> bool {
    server == own || server.is_root() || configured == Some(server.as_raw())
}

fn seqpacket() -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use isorb_testkit::TempFolder;

    #[test]
    fn a_listener_replaces_nothing_but_a_stale_socket() {
        let folder = TempFolder::new();
        let path = folder.file("file");
        std::fs::write(&path, "precious").unwrap();
        let error = Listener::at(&path).unwrap_err().to_string();
        assert!(error.contains(path.to_str().unwrap()) && error.contains("--socket"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        std::os::unix::fs::symlink(&path, folder.file("link")).unwrap();
        assert!(matches!(Listener::at(&folder.file("link")), Err(Error::Caller(_))));

        let path = folder.file("socket");
        let listener = Listener::at(&path).unwrap();
        assert!(matches!(Listener::at(&path), Err(Error::Os(_))), "a server listens");
        drop(listener);
        let second = Listener::at(&path).expect("a stale socket is replaced");
        // Another server that took the path over keeps its file.
        std::fs::remove_file(&path).unwrap();
        let third = Listener::at(&path).unwrap();
        second.remove_file();
        connect_to(&path).expect("the third listens");
        third.remove_file();
        assert!(!path.exists());
    }

    #[test]
    fn a_server_of_another_user_is_refused() {
        let uid = |raw| Uid::from_raw(raw);
        assert!(is_trusted(uid(7), uid(7), None) && is_trusted(Uid::ROOT, uid(7), None));
        assert!(!is_trusted(uid(8), uid(7), None) && is_trusted(uid(8), uid(7), Some(8)));
        assert!(!is_trusted(uid(8), Uid::ROOT, None) && !is_trusted(uid(8), uid(7), Some(9)));
        if !geteuid().is_root() {
            println!("skipped: a server of another user, which only root can start");
            return;
        }
        let folder = TempFolder::new();
        rustix::fs::chmod(folder.path(), Mode::RWXU | Mode::RWXG | Mode::RWXO).unwrap();
        let path = folder.file("socket");
        let squatted = path.clone();
        // The credentials of a Linux thread are its own.
        let squatter = std::thread::spawn(move || {
            let nobody = Uid::from_raw(65_534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            Listener::at(&squatted).unwrap()
        });
        let _listener = squatter.join().unwrap();
        match connect_to(&path) {
            Err(error @ Error::Peer(PeerError::WrongUser { uid: 65_534, .. })) => {
                let text = error.to_string();
                assert!(text.contains(path.to_str().unwrap()) && text.contains("ISORB_MEMORY_SERVER_UID"));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_folder_of_others_is_not_private() {
        let folder = TempFolder::new();
        rustix::fs::chmod(folder.path(), Mode::RWXU).unwrap();
        is_private(folder.path()).unwrap();
        rustix::fs::chmod(folder.path(), Mode::RWXU | Mode::WOTH).unwrap();
        let error = is_private(folder.path()).unwrap_err().to_string();
        assert!(error.contains("XDG_RUNTIME_DIR") && error.contains("ISORB_MEMORY_SOCKET"), "{error}");
        std::os::unix::fs::symlink("/", folder.file("link")).unwrap();
        assert!(is_private(&folder.file("link")).is_err());
    }
}
