//! The session with the node's server, and what happens when there is another server.

use super::PATIENCE;
use super::attached::{Attachment, Role};
use crate::Error;
use crate::idl::Lib_CommRef;
use crate::memory::Segment;
use crate::passing::{self, Kind, Message};
use isorb::Orb;
use isorb_rt::sync::{PiCondvar, PiMutex};
use isorb_rt::time::Deadline;
use rustix::fd::{AsFd, OwnedFd};
use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long to wait before looking for a server again.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Session {
    orb: Orb,
    path: PathBuf,
    state: PiMutex<State>,
    changed: PiCondvar,
    stop: Arc<AtomicBool>,
}

#[derive(Default)]
struct State {
    link: Option<Link>,
    /// Descriptors that came and were not asked for yet, by ticket.
    arrived: HashMap<u64, OwnedFd>,
    attachments: Vec<Weak<Attachment>>,
}

/// A server that is there.
#[derive(Clone)]
struct Link {
    socket: Arc<OwnedFd>,
    bell: Arc<OwnedFd>,
    number: u64,
    server: Lib_CommRef,
}

impl Session {
    pub fn connect(orb: &Orb, path: PathBuf) -> Result<Arc<Session>, Error> {
        let session = Arc::new(Session {
            orb: orb.clone(),
            path,
            state: PiMutex::new(State::default()),
            changed: PiCondvar::new(),
            stop: Arc::new(AtomicBool::new(false)),
        });
        let link = session.greet()?;
        session.state.lock().link = Some(link.clone());
        let (weak, stop) = (Arc::downgrade(&session), session.stop.clone());
        std::thread::Builder::new()
            .name("crm-session".into())
            .spawn(move || keep_session(&weak, &stop, link))?;
        Ok(session)
    }

    /// The server, waiting for it while it is being restarted.
    pub fn server(&self) -> Result<(Lib_CommRef, u64), Error> {
        let deadline = Deadline::after(PATIENCE);
        let mut state = self.state.lock();
        loop {
            if let Some(link) = &state.link {
                return Ok((link.server.clone(), link.number));
            }
            if !self.changed.wait_until(&mut state, deadline) && deadline.is_past() {
                return Err(Error::unavailable(format_args!("no server at {}", self.path.display())));
            }
        }
    }

    /// The server, if there is one.
    pub fn server_now(&self) -> Option<(Lib_CommRef, u64)> {
        self.state.lock().link.as_ref().map(|link| (link.server.clone(), link.number))
    }

    /// The descriptor for a ticket, which was sent before the ticket was given.
    pub fn descriptor(&self, ticket: u64) -> Result<OwnedFd, Error> {
        let deadline = Deadline::after(PATIENCE);
        let mut state = self.state.lock();
        loop {
            if let Some(descriptor) = state.arrived.remove(&ticket) {
                return Ok(descriptor);
            }
            if !self.changed.wait_until(&mut state, deadline) && deadline.is_past() {
                return Err(Error::unavailable("the server did not hand the memory over"));
            }
        }
    }

    pub fn keep(&self, attachment: &Arc<Attachment>) {
        let mut state = self.state.lock();
        state.attachments.retain(|other| other.strong_count() > 0);
        state.attachments.push(Arc::downgrade(attachment));
    }

    /// Tells the server that something was written.
    ///
    /// # Real-time
    /// Takes a lock that is held for a few instructions elsewhere; one system call.
    pub fn ring(&self) {
        let bell = self.state.lock().link.as_ref().map(|link| link.bell.clone());
        if let Some(bell) = bell {
            // The counter cannot be full: it takes 2^64 - 2 values.
            let _ = rustix::io::write(&*bell, &1u64.to_ne_bytes());
        }
    }

    fn greet(&self) -> Result<Link, Error> {
        let socket = passing::connect_to(&self.path)
            .map_err(|error| Error::unavailable(format_args!("{}: {error}", self.path.display())))?;
        match passing::receive(&socket)? {
            Some(Message { kind: Kind::Hello, number, text, descriptor: Some(bell) }) => {
                let server = self.orb.resolve::<Lib_CommRef>(&text)?;
                Ok(Link { socket: Arc::new(socket), bell: Arc::new(bell), number, server })
            }
            _ => Err(Error::unavailable("the server refused the session")),
        }
    }

    fn arrived(&self, message: Message) {
        if let (Kind::Segment, Some(descriptor)) = (message.kind, message.descriptor) {
            self.state.lock().arrived.insert(message.number, descriptor);
            self.changed.notify_all(&self.state);
        }
    }

    fn lost(&self) {
        let mut state = self.state.lock();
        state.link = None;
        state.arrived.clear();
    }

    /// There is a server again: hands writers' segments back, asks for readers' anew, then lets set-up go on.
    fn resume(&self, link: &Link) -> Result<(), Error> {
        let attachments: Vec<Arc<Attachment>> =
            self.state.lock().attachments.iter().filter_map(Weak::upgrade).collect();
        let (writers, readers): (Vec<_>, Vec<_>) =
            attachments.iter().partition(|attachment| matches!(attachment.role, Role::Writer { .. }));
        for attachment in writers {
            let Role::Writer { period_ns } = attachment.role else { continue };
            let segment = attachment.segment.lock().clone();
            // A fresh description of the file: the lock that makes us the writer stays with the old one.
            let descriptor = segment.writable_fd()?;
            passing::send(
                &*link.socket,
                Kind::HandBack,
                period_ns,
                &attachment.name,
                Some(descriptor.as_fd()),
            )?;
            let ticket = self.await_message(link, |message| message.kind == Kind::Adopted)?.number;
            attachment.ticket.store(ticket, Ordering::Release);
        }
        self.state.lock().link = Some(link.clone());
        self.changed.notify_all(&self.state);
        for attachment in readers {
            let _ = self.reattach(link, attachment);
        }
        Ok(())
    }

    fn reattach(&self, link: &Link, attachment: &Attachment) -> Result<(), Error> {
        let Role::Reader { qos } = attachment.role else { return Ok(()) };
        // The area's writer may not have handed it back yet.
        let mut tries = 50;
        let ticket = loop {
            match link.server.attach_reader(link.number, &attachment.name, qos) {
                Ok(ticket) => break ticket,
                Err(error) => {
                    tries -= 1;
                    if tries == 0 || self.stop.load(Ordering::Acquire) {
                        return Err(error.into());
                    }
                    std::thread::sleep(PAUSE);
                }
            }
        };
        let known = self.state.lock().arrived.remove(&ticket);
        let descriptor = match known {
            Some(descriptor) => descriptor,
            None => {
                let message = self.await_message(link, |m| m.kind == Kind::Segment && m.number == ticket)?;
                message.descriptor.ok_or_else(|| Error::unavailable("a message without its descriptor"))?
            }
        };
        let segment = Segment::attach(descriptor)?;
        attachment.ticket.store(ticket, Ordering::Release);
        let mut current = attachment.segment.lock();
        if !current.same_file(&segment) {
            *current = segment;
            attachment.moved.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Receives until a message is the one; others are kept for who waits for them.
    fn await_message(&self, link: &Link, wanted: impl Fn(&Message) -> bool) -> Result<Message, Error> {
        loop {
            match passing::receive(&*link.socket)? {
                Some(message) if wanted(&message) => return Ok(message),
                Some(message) => self.arrived(message),
                None => return Err(Error::unavailable("the server ended")),
            }
        }
    }
}

/// Receives what the server sends; when it ends, waits for the next. Ends with the library.
fn keep_session(session: &Weak<Session>, stop: &AtomicBool, first: Link) {
    let mut link = first;
    loop {
        // Without holding the session: this must not keep it alive.
        while let Ok(Some(message)) = passing::receive(&*link.socket) {
            let Some(session) = session.upgrade() else { return };
            session.arrived(message);
        }
        if let Some(session) = session.upgrade() {
            session.lost();
        }
        link = loop {
            if stop.load(Ordering::Acquire) {
                return;
            }
            std::thread::sleep(PAUSE);
            let Some(session) = session.upgrade() else { return };
            if let Ok(link) = session.greet()
                && session.resume(&link).is_ok()
            {
                break link;
            }
        };
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // The thread that receives notices the end of its socket.
        if let Some(link) = &self.state.lock().link {
            let _ = rustix::net::shutdown(&*link.socket, rustix::net::Shutdown::Both);
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("path", &self.path).finish_non_exhaustive()
    }
}
