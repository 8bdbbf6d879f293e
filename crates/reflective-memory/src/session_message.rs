//! The messages of the local socket between a library and its node's server: a kind, a number, a
//! text and descriptors.

use isorb_rt::Errno;
use rustix::cmsg_space;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

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

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

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
}
