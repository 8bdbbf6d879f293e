//! Accepts connections.

use crate::Fabric;
use crate::device::{DeviceHandle, Requests};
use crate::ffi::Info;
use crate::remote::Joining;
use isorb_rt::net::{Interest, Wait as MayWait, recv_into, wait_ready};
use isorb_rt::time::Deadline;
use isorb_transport::{Listener, Stream, Wait};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

#[derive(Debug)]
pub(crate) struct FabricListener {
    fabric: Fabric,
    device: Arc<DeviceHandle>,
    id: usize,
    address: String,
    /// An octet for each client that waits.
    socket: OwnedFd,
    requests: Arc<Requests>,
    closed: AtomicBool,
}

impl FabricListener {
    pub fn open(
        fabric: Fabric,
        device: Arc<DeviceHandle>,
        info: &Info,
        address: &str,
    ) -> io::Result<FabricListener> {
        let (doorbell, socket) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let requests = Arc::new(Requests::new(doorbell, fabric.most()));
        let (id, port) = device.listen(info, requests.clone())?;
        let host = address.rsplit_once(':').map_or("", |(host, _)| host);
        let address = format!("{host}:{port}");
        Ok(FabricListener { fabric, device, id, address, socket, requests, closed: AtomicBool::new(false) })
    }
}

impl Listener for FabricListener {
    fn accept(&self, wait: Wait) -> io::Result<Box<dyn Stream>> {
        let (info, hello) = loop {
            if wait == Wait::Block {
                wait_ready(&self.socket, Interest::READ, Deadline::NONE)?;
            }
            match recv_into(&self.socket, &mut [0], MayWait::Never) {
                Ok(0) | Err(Errno::CONNRESET) => return Err(io::ErrorKind::ConnectionAborted.into()),
                Ok(_) => {}
                Err(Errno::AGAIN) if wait == Wait::Block => continue,
                Err(error) => return Err(error.into()),
            }
            if let Some(request) = self.requests.take() {
                break request;
            }
        };
        let fabric = &self.fabric;
        let accepted = self.device.open_connection(
            &info,
            fabric.segment(),
            fabric.most(),
            Some(hello),
            |endpoint, own| endpoint.accept(own),
        );
        // A client that has left.
        let aborted = |error| io::Error::new(io::ErrorKind::ConnectionAborted, error);
        let (connection, socket) = accepted.map_err(aborted)?;
        Ok(Box::new(fabric.stream(
            Joining(connection),
            socket,
            format!("fabric: a client of {}", self.address),
        )))
    }

    fn address(&self) -> &str {
        &self.address
    }

    fn close(&self) {
        if !self.closed.swap(true, Ordering::AcqRel) {
            self.requests.hang_up();
            self.device.close_listener(self.id, channel().0);
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for FabricListener {
    fn drop(&mut self) {
        self.requests.hang_up();
        let (done, wait) = channel();
        self.device.close_listener(self.id, done);
        // Until the address is free. The sender is dropped unused.
        let _ = wait.recv();
    }
}
