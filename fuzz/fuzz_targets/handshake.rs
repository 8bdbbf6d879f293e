//! A hostile process at the other end of a segment's socket: its handshake, the descriptors with
//! it, its doorbell signals and its octets in both segments come from the fuzzer, and so do the
//! entries of messages in its arena and what it releases of the other's. The connection
//! may end. Nothing may panic, return more than requested, or leak a descriptor or a mapping.
#![no_main]

use isorb_transport::{Listener, Segments, Stream, Transport, Wait};
use libfuzzer_sys::fuzz_target;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use std::cell::OnceCell;
use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, AtomicUsize};

/// The size of the control page, and of the payload in the handshake.
const WORDS: u64 = 4096;
const PAYLOAD: u32 = 4096;
const HONEST: [u8; 8] = *b"isorbseg";
/// Limit of accompanying descriptors.
const MOST: usize = 5;
/// The number of runs between checks of the mappings.
const LOOK: u32 = 4096;
/// The number of runs between checks of the descriptors.
const COUNT: u32 = 64;

/// The fuzzer's octets one after the other, then zeros.
struct Octets<'a>(&'a [u8]);

impl Octets<'_> {
    fn next(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }
}

fn memory(octets: u64, seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = rustix::fs::memfd_create("isorb-segment", flags).expect("memory");
    rustix::fs::ftruncate(&fd, octets).expect("its size");
    rustix::fs::fcntl_add_seals(&fd, seals).expect("its seals");
    fd
}

/// Memory that is refused, made once.
fn refused(kind: u8) -> OwnedFd {
    thread_local! {
        static MADE: [OnceCell<OwnedFd>; 13] = const { [const { OnceCell::new() }; 13] };
    }
    let whole = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    let honest = WORDS + u64::from(PAYLOAD);
    let arena = whole | SealFlags::FUTURE_WRITE;
    let make = || match kind {
        2 => memory(honest, SealFlags::empty()),
        3 => memory(honest, SealFlags::GROW | SealFlags::SEAL),
        4 => memory(honest - 1, whole),
        5 => memory(1 << 40, whole),
        6 => memory(honest, whole | SealFlags::WRITE),
        10 => memory(u64::from(PAYLOAD) * 2 + 1, arena),
        11 => memory(64 << 20, arena),
        _ => File::open("/dev/null").expect("it is there").into(),
    };
    MADE.with(|made| made[usize::from(kind)].get_or_init(make).try_clone().expect("a descriptor"))
}

/// A received segment or arena.
fn descriptor(kind: u8, socket: &OwnedFd) -> OwnedFd {
    let whole = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    match kind % 13 {
        0 | 1 => memory(WORDS + u64::from(PAYLOAD), whole),
        8 | 9 => memory(u64::from(PAYLOAD), whole | SealFlags::FUTURE_WRITE),
        12 => socket.try_clone().expect("a descriptor"),
        kind => refused(kind),
    }
}

fn transmit(socket: &OwnedFd, text: &[u8], fds: &[OwnedFd]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&fds));
    }
    // No room, or the peer is gone: then it was not sent.
    let _ = rustix::net::sendmsg(
        socket,
        &[IoSlice::new(text)],
        &mut control,
        SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
    );
}

/// The segment in the reply to the handshake, if there is one.
fn answer(socket: &OwnedFd) -> Option<File> {
    let mut text = [0; 64];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut text)], &mut control, RecvFlags::DONTWAIT)
        .ok()?;
    control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next().map(File::from),
        _ => None,
    })
}

/// Writes a word or an octet of payload, small or arbitrary as the octets decide.
fn scribble(file: &File, octets: &mut Octets<'_>) {
    let at = match octets.next() {
        word @ 0..128 => u64::from(word % 4) * 4 + u64::from(word / 4) / 8 * 128,
        // Entries, and what is released.
        word @ 128..160 => 512 + u64::from(word - 128) * 4,
        // The number of the last message.
        168 => 2048,
        word @ 160..168 => 1024 + u64::from(word - 160) * 4,
        payload => WORDS + u64::from(payload),
    };
    let number = match octets.next() {
        255 => [octets.next(), octets.next(), octets.next(), octets.next()],
        small => [small, 0, 0, 0],
    };
    // It may not be memory at all, or sealed.
    let _ = file.write_at(&number, at);
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("it is there").count()
}

fn mappings() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("it is there");
    maps.lines().filter(|line| line.contains("isorb-segment") || line.contains("isorb-arena")).count()
}

fn hello(octets: &mut Octets<'_>) -> Vec<u8> {
    let kind = octets.next();
    if kind % 8 == 7 {
        return (0..octets.next() % 40).map(|_| octets.next()).collect();
    }
    let mut text = HONEST.to_vec();
    text.extend(1u32.to_ne_bytes());
    text.extend(PAYLOAD.to_ne_bytes());
    for _ in 0..kind % 4 {
        let at = usize::from(octets.next()) % text.len();
        text[at] = octets.next();
    }
    text
}

/// One connection, from the handshake to its end.
fn converse(octets: &mut Octets<'_>, socket: OwnedFd, stream: &dyn Stream) {
    let text = hello(octets);
    let fds: Vec<_> =
        (0..usize::from(octets.next()) % (MOST + 1)).map(|_| descriptor(octets.next(), &socket)).collect();
    transmit(&socket, &text, &fds);
    let own = fds.first().map(|fd| File::from(fd.try_clone().expect("a descriptor")));
    drop(fds);
    let (mut theirs, mut socket) = (None, Some(socket));
    let mut into = [0; 300];
    while !octets.0.is_empty() {
        let step = octets.next();
        let n = usize::from(step >> 3) * 9;
        match (step & 7, &socket) {
            (0, _) if step & 0x80 != 0 => {
                if let Ok(Some(part)) = stream.take_lent() {
                    part.read(0, &mut into[..part.octets().min(300)]);
                    if step & 0x40 != 0 {
                        stream.release_lent(&part);
                    }
                }
            }
            (0, _) => drop(stream.recv(&mut into[..n], Wait::No).map(|got| assert!(got <= n))),
            (1, _) if step & 0x80 != 0 => {
                let loan = stream.arena().and_then(|arena| arena.loan(n * 16).ok());
                let pieces = loan.as_deref().map(|octets| [IoSlice::new(b"head"), IoSlice::new(octets)]);
                pieces.map(|pieces| stream.send(&pieces, Wait::No));
            }
            (1, _) => drop(stream.send(&[IoSlice::new(&into[..n])], Wait::No).map(|sent| assert!(sent <= n))),
            // Doorbell signals, of empty and of long packets. Some steps are a flood that leaves no
            // room in the socket: hundreds of system calls.
            (2, Some(socket)) => {
                let signals = if step > 0xf0 { n } else { n / 72 };
                (0..signals).for_each(|i| transmit(socket, &into[..i % 20], &[]));
            }
            (3, Some(socket)) => transmit(socket, &text, &[descriptor(octets.next(), socket)]),
            (4, Some(socket)) => theirs = answer(socket).or(theirs),
            (5, _) => own.iter().for_each(|file| scribble(file, octets)),
            (6, _) => theirs.iter().for_each(|file| scribble(file, octets)),
            (7, _) if step == 0xff => socket = None,
            (7, _) => stream.watched(),
            _ => {}
        }
    }
    drop(socket);
    while stream.recv(&mut into, Wait::No).is_ok_and(|got| got > 0) {}
}

thread_local! {
    static LISTENER: Box<dyn Listener> = {
        let segments = Segments {
            bytes: PAYLOAD as usize,
            arena_bytes: 4 * PAYLOAD as usize,
            spin: isorb_transport::Spin::NEVER,
            ..Segments::default()
        };
        segments.listen("").expect("a socket")
    };
}

fuzz_target!(|data: &[u8]| LISTENER.with(|listener| run(data, &**listener)));

fn run(data: &[u8], listener: &dyn Listener) {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    // With the listener, and from the second check on with the timeout monitor, which keeps a
    // descriptor permanently.
    static KEPT: AtomicUsize = AtomicUsize::new(usize::MAX);
    static RISES: AtomicU32 = AtomicU32::new(0);
    let order = std::sync::atomic::Ordering::Relaxed;
    let runs = RUNS.fetch_add(1, order);
    if runs == 0 {
        // They stay, and count from the beginning.
        (0..13).for_each(|kind| drop(refused(kind)));
        KEPT.store(descriptors(), order);
    }
    let kind = SocketType::SEQPACKET;
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).expect("a socket");
    let at = SocketAddrUnix::new(listener.address()).expect("a path");
    rustix::net::connect(&socket, &at).expect("the listener");
    let stream = listener.accept(Wait::No).expect("the connection");
    converse(&mut Octets(data), socket, &*stream);
    drop(stream);
    if runs % COUNT == 0 {
        let (now, before) = (descriptors(), KEPT.load(order));
        if now > before {
            let rises = RISES.fetch_add(1, order);
            assert!(rises == 0, "{} descriptors are left in {COUNT} runs", now - before);
            KEPT.store(now, order);
        }
    }
    if runs % LOOK == 0 {
        assert_eq!(mappings(), 0, "a segment stays mapped");
    }
}
