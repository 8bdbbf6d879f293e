//! The local socket between a library and its node's server. It keeps message boundaries and passes
//! descriptors.
//!
//! Set-up goes by the ORB; the memory, which the ORB cannot carry, goes here. The socket also is
//! the session: when a process ends, for any reason, the kernel closes it and the server learns it.

use crate::Error;
use crate::error::{CallerError, PeerError};
use isorb_rt::Errno;
use rustix::cmsg_space;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode, lstat};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect,
    listen, recvmsg, sendmsg, socket_with,
};
use rustix::process::{Uid, geteuid};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};

/// The kind of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Server to library: the session's number, the reference of Lib_Comm.
    Hello,
    /// Server to library: a ticket's segment of this node; to the writer with its doorbell. The
    /// text is the area's type, as for a replica.
    Segment,
    /// Library to server: an area's segment from an earlier server. The number is the period of the
    /// writer, or [`ONLY_READ`]; the text is the promised size, a space, the
    /// area's name and, with a zero octet before it, its type.
    HandBack,
    /// Server to library: the answer. The number is the writer's new ticket, with its doorbell; 0
    /// for none.
    Adopted,
    /// Server to library: a ticket's replica of another node's area.
    Replica,
    /// Server to library: another node has this name, so the server no longer serves the process's
    /// area.
    Withdrawn,
}

/// The number with which a reader hands an area back.
pub(crate) const ONLY_READ: u64 = u64::MAX;

/// A message.
#[derive(Debug)]
pub(crate) struct Message {
    pub kind: Kind,
    pub number: u64,
    pub text: String,
    pub descriptor: Option<OwnedFd>,
    pub doorbell: Option<OwnedFd>,
}

/// Octets of the longest text: a stringified reference.
const LONGEST: usize = 8000;
const HEAD: usize = 9;
/// Descriptors of a message: memory, and its writer's doorbell.
const MOST: usize = 2;

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

/// Sends without blocking: a peer that does not read loses its session.
pub(crate) fn send(
    socket: impl AsFd,
    kind: Kind,
    number: u64,
    text: &str,
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    if text.len() > LONGEST || descriptors.len() > MOST {
        return Err(Errno::MSGSIZE);
    }
    let mut head = [0; HEAD];
    head[0] = kind as u8;
    head[1..].copy_from_slice(&number.to_le_bytes());
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(socket, &[IoSlice::new(&head), IoSlice::new(text.as_bytes())], &mut control, flags).map(drop)
}

/// Waits for the next message; `None` when the peer is gone. PROTO for an invalid message.
pub(crate) fn receive(socket: impl AsFd) -> Result<Option<Message>, Errno> {
    let mut octets = [0; HEAD + LONGEST];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(MOST))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = loop {
        let mut parts = [IoSliceMut::new(&mut octets)];
        match recvmsg(&socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            Err(Errno::CONNRESET) => return Ok(None),
            other => break other?,
        }
    };
    let (mut descriptor, mut doorbell) = (None, None);
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut descriptors) = message {
            (descriptor, doorbell) = (descriptors.next(), descriptors.next());
        }
    }
    if got.bytes == 0 {
        return Ok(None);
    }
    if got.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) || got.bytes < HEAD {
        return Err(Errno::PROTO);
    }
    let kind = match octets[0] {
        0 => Kind::Hello,
        1 => Kind::Segment,
        2 => Kind::HandBack,
        3 => Kind::Adopted,
        4 => Kind::Replica,
        5 => Kind::Withdrawn,
        _ => return Err(Errno::PROTO),
    };
    let mut number = [0; 8];
    number.copy_from_slice(&octets[1..HEAD]);
    let text = std::str::from_utf8(&octets[HEAD..got.bytes]).map_err(|_| Errno::PROTO)?.to_owned();
    Ok(Some(Message { kind, number: u64::from_le_bytes(number), text, descriptor, doorbell }))
}

fn seqpacket() -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use isorb_testkit::TempFolder;
    use rustix::net::socketpair;

    #[test]
    fn messages_and_descriptors_arrive() {
        let (a, b) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        send(&a, Kind::Segment, 7, "area", &[file.as_fd()]).unwrap();
        send(&a, Kind::Segment, 8, "area", &[file.as_fd(); 2]).unwrap();
        send(&a, Kind::Adopted, u64::MAX, "", &[]).unwrap();
        let message = receive(&b).unwrap().unwrap();
        assert_eq!((message.kind, message.number, &*message.text), (Kind::Segment, 7, "area"));
        assert!(message.descriptor.is_some() && message.doorbell.is_none());
        let message = receive(&b).unwrap().unwrap();
        assert!(message.number == 8 && message.descriptor.is_some() && message.doorbell.is_some());
        let message = receive(&b).unwrap().unwrap();
        assert_eq!(
            (message.kind, message.number, message.descriptor.is_none()),
            (Kind::Adopted, u64::MAX, true)
        );
        assert_eq!(send(&a, Kind::Hello, 0, &"x".repeat(LONGEST + 1), &[]), Err(Errno::MSGSIZE));
        assert_eq!(send(&a, Kind::Hello, 0, "", &[file.as_fd(); MOST + 1]), Err(Errno::MSGSIZE));
        rustix::net::send(&a, &[9; 20], SendFlags::empty()).unwrap();
        assert_eq!(receive(&b).unwrap_err(), Errno::PROTO);
        rustix::net::send(&a, &[0; 3], SendFlags::empty()).unwrap();
        assert_eq!(receive(&b).unwrap_err(), Errno::PROTO);
        drop(a);
        assert!(receive(&b).unwrap().is_none());
    }

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
