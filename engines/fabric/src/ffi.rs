//! libfabric, as far as it is used here: the only module with unsafe code.
//!
//! Holding a value of this module proves that the object behind it is open. Each keeps what it was
//! made from open too. It proves nothing about what the peer does.

use isorb_transport::segment::OwnSegment;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::ops::Range;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

/// Octets that two sides exchange while they connect, at most. RDMA connections carry 56.
pub const MAX_HELLO: usize = 56;

macro_rules! opaque {
    ($($name:ident)*) => { $(#[repr(C)] struct $name { _private: [u8; 0] })* };
}
opaque!(RawDevice RawInfo RawListening RawEndpoint RawRegion);

unsafe extern "C" {
    fn isorb_find(
        provider: *const c_char,
        host: *const c_char,
        port: *const c_char,
        listens: c_int,
        found: *mut *mut RawInfo,
    ) -> c_int;
    fn isorb_fabric_name(info: *mut RawInfo) -> *const c_char;
    fn isorb_domain_name(info: *mut RawInfo) -> *const c_char;
    fn isorb_free(info: *mut RawInfo);
    fn isorb_open_device(
        info: *mut RawInfo,
        opened: *mut *mut RawDevice,
        eq: *mut c_int,
        cq: *mut c_int,
    ) -> c_int;
    fn isorb_close_device(device: *mut RawDevice);
    fn isorb_may_wait(device: *mut RawDevice) -> c_int;
    fn isorb_listen(
        device: *mut RawDevice,
        info: *mut RawInfo,
        listening: *mut *mut RawListening,
        port: *mut c_char,
        room: usize,
    ) -> c_int;
    fn isorb_reject(listening: *mut RawListening, request: *mut RawInfo) -> c_int;
    fn isorb_open_endpoint(
        device: *mut RawDevice,
        info: *mut RawInfo,
        opened: *mut *mut RawEndpoint,
    ) -> c_int;
    fn isorb_connect(
        endpoint: *mut RawEndpoint,
        info: *mut RawInfo,
        hello: *const c_void,
        length: usize,
    ) -> c_int;
    fn isorb_accept(endpoint: *mut RawEndpoint, hello: *const c_void, length: usize) -> c_int;
    fn isorb_close(any: *mut c_void) -> c_int;
    fn isorb_register(
        device: *mut RawDevice,
        memory: *const c_void,
        length: usize,
        remote: c_int,
        wanted: u64,
        registered: *mut *mut RawRegion,
        key: *mut u64,
        address: *mut u64,
    ) -> c_int;
    fn isorb_write(
        endpoint: *mut RawEndpoint,
        from: *const c_void,
        length: usize,
        local: *mut RawRegion,
        address: u64,
        key: u64,
        context: usize,
    ) -> isize;
    fn isorb_send(endpoint: *mut RawEndpoint, message: *const c_void, length: usize) -> isize;
    fn isorb_post_receive(
        endpoint: *mut RawEndpoint,
        into: *mut c_void,
        length: usize,
        local: *mut RawRegion,
        context: usize,
    ) -> isize;
    fn isorb_completion(
        device: *mut RawDevice,
        context: *mut usize,
        length: *mut usize,
        failure: *mut c_int,
    ) -> c_int;
    fn isorb_event(
        device: *mut RawDevice,
        about: *mut *mut c_void,
        request: *mut *mut RawInfo,
        hello: *mut u8,
        length: *mut usize,
        failure: *mut c_int,
    ) -> c_int;
}

fn check(code: isize) -> io::Result<()> {
    if code < 0 { Err(error(-code as i32)) } else { Ok(()) }
}

/// The error of a number. libfabric's own numbers begin where the system's end.
pub fn error(number: i32) -> io::Error {
    const NO_DATA: i32 = 61;
    match number {
        NO_DATA => io::Error::new(
            io::ErrorKind::AddrNotAvailable,
            "libfabric has no provider for this address; fi_info lists what there is, and the setting \
             `provider` names one",
        ),
        1..=255 => io::Error::from_raw_os_error(number),
        _ => io::Error::other(format!("libfabric's error {number}; fi_strerror(3) explains it")),
    }
}

fn text(text: &str) -> io::Result<CString> {
    CString::new(text)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "an address with a zero octet"))
}

/// A way to reach, or to listen at, an address.
#[derive(Debug)]
pub struct Info(NonNull<RawInfo>);

// SAFETY: it is plain memory that libfabric does not change.
unsafe impl Send for Info {}
// SAFETY: as above.
unsafe impl Sync for Info {}

impl Info {
    /// The best way of this provider for the address.
    pub fn find(provider: &str, host: &str, port: &str, listens: bool) -> io::Result<Info> {
        let (provider, host, port) = (text(provider)?, text(host)?, text(port)?);
        let mut found = null_mut();
        // SAFETY: the strings end in a zero and live during the call; `found` takes the answer.
        let code = unsafe {
            isorb_find(provider.as_ptr(), host.as_ptr(), port.as_ptr(), listens.into(), &mut found)
        };
        check(code as isize)?;
        NonNull::new(found).map(Info).ok_or(io::ErrorKind::AddrNotAvailable.into())
    }

    /// What tells one device from another.
    pub fn device_name(&self) -> String {
        let name = |name: *const c_char| {
            // SAFETY: a string of this info, which ends in a zero, or null.
            if name.is_null() { "".into() } else { unsafe { CStr::from_ptr(name) }.to_string_lossy() }
        };
        // SAFETY: the info is open.
        let [fabric, domain] =
            unsafe { [isorb_fabric_name(self.0.as_ptr()), isorb_domain_name(self.0.as_ptr())] };
        format!("{} {}", name(fabric), name(domain))
    }
}

impl Drop for Info {
    fn drop(&mut self) {
        // SAFETY: closed once. The list goes with its first entry.
        unsafe { isorb_free(self.0.as_ptr()) }
    }
}

/// A device of a network, with its queues of events and of completions.
#[derive(Debug)]
pub struct Device {
    raw: NonNull<RawDevice>,
    events: RawFd,
    completions: RawFd,
}

// SAFETY: it was opened for use by any thread (FI_THREAD_SAFE).
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

/// What happened to connections.
#[derive(Debug)]
pub enum Event {
    /// A client wants to connect, and said this.
    Request { listening: usize, request: Info, hello: Vec<u8> },
    /// An endpoint is connected; the accepting side said this.
    Connected { endpoint: usize, hello: Vec<u8> },
    /// The peer has gone, or connecting failed.
    Gone { endpoint: usize, failure: Option<i32> },
}

/// The end of an operation.
#[derive(Debug)]
pub struct Completion {
    /// As given to the operation.
    pub context: usize,
    /// Octets received, or the number of the error.
    pub received: Result<usize, i32>,
}

impl Device {
    /// Opens the device of `info`.
    pub fn open(info: &Info) -> io::Result<Device> {
        let (mut raw, mut events, mut completions) = (null_mut(), -1, -1);
        // SAFETY: the info is open; the others are places for the answers.
        let code = unsafe { isorb_open_device(info.0.as_ptr(), &mut raw, &mut events, &mut completions) };
        check(code as isize)?;
        let raw = NonNull::new(raw).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Device { raw, events, completions })
    }

    /// Ready to receive when there may be events, and completions.
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        // SAFETY: both belong to the device and stay open as long as it.
        unsafe { [BorrowedFd::borrow_raw(self.events), BorrowedFd::borrow_raw(self.completions)] }
    }

    /// Whether a wait on the descriptors would miss nothing.
    pub fn may_wait(&self) -> bool {
        // SAFETY: the device is open.
        unsafe { isorb_may_wait(self.raw.as_ptr()) != 0 }
    }

    /// The next event, if there is one.
    pub fn event(&self) -> Option<Event> {
        let (mut about, mut request, mut failure) = (null_mut(), null_mut(), 0);
        let (mut hello, mut length) = ([0; MAX_HELLO], MAX_HELLO);
        // SAFETY: the device is open; the others take the answers, `hello` of `length` octets.
        let kind = unsafe {
            isorb_event(
                self.raw.as_ptr(),
                &mut about,
                &mut request,
                hello.as_mut_ptr(),
                &mut length,
                &mut failure,
            )
        };
        let (about, hello) = (about as usize, hello[..length].to_vec());
        match kind {
            1 => Some(Event::Request { listening: about, request: Info(NonNull::new(request)?), hello }),
            2 => Some(Event::Connected { endpoint: about, hello }),
            3 => Some(Event::Gone { endpoint: about, failure: None }),
            4 => Some(Event::Gone { endpoint: about, failure: Some(failure) }),
            _ => None,
        }
    }

    /// The next completion, if there is one.
    pub fn completion(&self) -> Option<Completion> {
        let (mut context, mut length, mut failure) = (0, 0, 0);
        // SAFETY: the device is open; the others are places for the answers.
        let got = unsafe { isorb_completion(self.raw.as_ptr(), &mut context, &mut length, &mut failure) };
        let received = if failure == 0 { Ok(length) } else { Err(failure) };
        (got == 1).then_some(Completion { context, received })
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: closed once, after all that was made from it, which each hold an `Arc` of it.
        unsafe { isorb_close_device(self.raw.as_ptr()) }
    }
}

/// An address that is listened at.
#[derive(Debug)]
pub struct Listening {
    raw: NonNull<RawListening>,
    _device: Arc<Device>,
}

// SAFETY: as its device.
unsafe impl Send for Listening {}

impl Listening {
    /// Listens at the address of `info`; returns the port too.
    pub fn open(device: &Arc<Device>, info: &Info) -> io::Result<(Listening, String)> {
        let mut raw = null_mut();
        let mut port = [0 as c_char; 32];
        // SAFETY: device and info are open; the others are places for the answers.
        let code = unsafe {
            isorb_listen(device.raw.as_ptr(), info.0.as_ptr(), &mut raw, port.as_mut_ptr(), port.len())
        };
        check(code as isize)?;
        let raw = NonNull::new(raw).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: it was filled with a string that ends in a zero.
        let port = unsafe { CStr::from_ptr(port.as_ptr()) }.to_string_lossy().into_owned();
        Ok((Listening { raw, _device: device.clone() }, port))
    }

    /// Names it in events.
    pub fn id(&self) -> usize {
        self.raw.as_ptr() as usize
    }

    /// Refuses a client.
    pub fn reject(&self, request: Info) {
        // SAFETY: both are open. A client that has left needs no answer.
        let _ = unsafe { isorb_reject(self.raw.as_ptr(), request.0.as_ptr()) };
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // SAFETY: closed once.
        let _ = unsafe { isorb_close(self.raw.as_ptr().cast()) };
    }
}

/// Memory that the device may access.
#[derive(Debug)]
pub struct Region {
    raw: NonNull<RawRegion>,
    memory: Arc<OwnSegment>,
    _device: Arc<Device>,
    /// How the peer names it.
    pub key: u64,
    /// How the peer addresses its first octet.
    pub address: u64,
}

// SAFETY: as its device.
unsafe impl Send for Region {}

impl Region {
    /// Lets the peer write to `memory` (`remote`), or this side send from and receive into it. The
    /// provider may choose another key than the one `wanted`.
    pub fn register(
        device: &Arc<Device>,
        memory: Arc<OwnSegment>,
        remote: bool,
        wanted: u64,
    ) -> io::Result<Region> {
        let payload = memory.payload();
        let (mut raw, mut key, mut address) = (null_mut(), 0, 0);
        // SAFETY: the memory stays mapped as long as the region, which holds it; it is accessed by
        // copies and atomics only, which allow the device's writes.
        let code = unsafe {
            isorb_register(
                device.raw.as_ptr(),
                payload.as_ptr().cast_const().cast(),
                payload.len(),
                remote.into(),
                wanted,
                &mut raw,
                &mut key,
                &mut address,
            )
        };
        check(code as isize)?;
        let raw = NonNull::new(raw).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Region { raw, memory, _device: device.clone(), key, address })
    }

    /// A pointer to `n` octets at `at`.
    fn part(&self, at: usize, n: usize) -> *mut c_void {
        let payload = self.memory.payload();
        assert!(at.checked_add(n).is_some_and(|end| end <= payload.len()), "within the region");
        // SAFETY: within the mapping, as just checked.
        unsafe { payload.as_ptr().cast::<u8>().add(at).cast() }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: closed once, before the memory is unmapped.
        let _ = unsafe { isorb_close(self.raw.as_ptr().cast()) };
    }
}

/// One end of a connection, and the memory that it may access. The memory stays registered as long
/// as the endpoint.
#[derive(Debug)]
pub struct Endpoint {
    raw: NonNull<RawEndpoint>,
    regions: Vec<Region>,
    _device: Arc<Device>,
}

// SAFETY: as its device.
unsafe impl Send for Endpoint {}

impl Endpoint {
    /// An end for the connection that `info` is about.
    pub fn open(device: &Arc<Device>, info: &Info) -> io::Result<Endpoint> {
        let mut raw = null_mut();
        // SAFETY: device and info are open; `raw` is a place for the answer.
        let code = unsafe { isorb_open_endpoint(device.raw.as_ptr(), info.0.as_ptr(), &mut raw) };
        check(code as isize)?;
        let raw = NonNull::new(raw).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Endpoint { raw, regions: Vec::new(), _device: device.clone() })
    }

    /// Names it in events.
    pub fn id(&self) -> usize {
        self.raw.as_ptr() as usize
    }

    /// Keeps a region for operations of this endpoint. Returns its number.
    pub fn keep(&mut self, region: Region) -> usize {
        self.regions.push(region);
        self.regions.len() - 1
    }

    /// Begins to connect.
    pub fn connect(&self, info: &Info, hello: &[u8]) -> io::Result<()> {
        // SAFETY: both are open; the octets are copied.
        check(
            unsafe { isorb_connect(self.raw.as_ptr(), info.0.as_ptr(), hello.as_ptr().cast(), hello.len()) }
                as isize,
        )
    }

    /// Accepts the client that it was opened for.
    pub fn accept(&self, hello: &[u8]) -> io::Result<()> {
        // SAFETY: it is open; the octets are copied.
        check(unsafe { isorb_accept(self.raw.as_ptr(), hello.as_ptr().cast(), hello.len()) } as isize)
    }

    /// Writes octets of a region that it keeps to the peer's memory.
    ///
    /// # Errors
    /// `WouldBlock` where the device is busy.
    pub fn write(
        &self,
        region: usize,
        part: Range<usize>,
        address: u64,
        key: u64,
        context: usize,
    ) -> io::Result<()> {
        let (region, n) = (&self.regions[region], part.len());
        let from = region.part(part.start, n);
        // SAFETY: all are open, and the octets stay mapped. Their values may change until they are
        // sent, which garbles them and does no other harm.
        check(unsafe { isorb_write(self.raw.as_ptr(), from, n, region.raw.as_ptr(), address, key, context) })
    }

    /// Sends a short message after all earlier writes.
    ///
    /// # Errors
    /// `WouldBlock` where the device is busy.
    pub fn send(&self, message: &[u8]) -> io::Result<()> {
        // SAFETY: it is open; the octets are copied.
        check(unsafe { isorb_send(self.raw.as_ptr(), message.as_ptr().cast(), message.len()) })
    }

    /// Gives room for one message in a region that it keeps.
    pub fn post_receive(&self, region: usize, part: Range<usize>, context: usize) -> io::Result<()> {
        let (region, n) = (&self.regions[region], part.len());
        let into = region.part(part.start, n);
        // SAFETY: all are open, the octets stay mapped, and are read by copies only.
        check(unsafe { isorb_post_receive(self.raw.as_ptr(), into, n, region.raw.as_ptr(), context) })
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // SAFETY: closed once.
        let _ = unsafe { isorb_close(self.raw.as_ptr().cast()) };
    }
}
