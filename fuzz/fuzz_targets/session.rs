//! The local socket between a library and its node's server: a peer that sends what it likes, with
//! descriptors.
#![no_main]

use isorb_reflective_memory::receive_session_messages;
use libfuzzer_sys::fuzz_target;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sendmsg,
    socketpair,
};
use std::fs::File;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::sync::LazyLock;

static NULL: LazyLock<File> = LazyLock::new(|| File::open("/dev/null").expect("a descriptor"));

/// Messages that wait in the socket without a reader.
const MOST: usize = 8;

// A message is the number of its descriptors, its length, and its octets.
fuzz_target!(|data: &[u8]| {
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("sockets");
    let null = &*NULL;
    let (mut rest, mut sent) = (data, 0);
    while let [descriptors, low, high, after @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high])) % 9_000;
        let (octets, after) = after.split_at(length.min(after.len()));
        rest = after;
        // Repeated to lengths that are too large.
        let mut octets = octets.repeat(length.checked_div(octets.len()).map_or(0, |times| times + 1));
        octets.truncate(length);
        let fds = vec![null.as_fd(); usize::from(descriptors % 4)];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&fds));
        }
        if sent == MOST
            || sendmsg(&theirs, &[IoSlice::new(&octets)], &mut control, SendFlags::DONTWAIT).is_err()
        {
            break;
        }
        sent += 1;
    }
    drop(theirs);
    let (counts, _) = receive_session_messages(&ours);
    assert!(counts.iter().sum::<usize>() <= sent);
});
