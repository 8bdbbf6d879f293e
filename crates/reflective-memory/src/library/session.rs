//! The session with the node's server, and its recovery when the server is restarted.

use super::TIMEOUT;
use super::attached::{Attachment, Role};
use super::set_up::{Call, Calls};
use crate::Error;
use crate::error::PeerError;
use crate::fail_points::{FailPoint, fail_point};
use crate::idl::{DataType, Lib_CommRef, lib_comm};
use crate::memory::{Segment, State as AreaState};
use crate::session_socket::{self, Kind, Message};
use isorb::Orb;
use isorb_rt::Errno;
use isorb_rt::sync::{PiCondvar, PiMutex};
use isorb_rt::time::Deadline;
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The pause between attempts to connect to a server.
const PAUSE: Duration = Duration::from_millis(100);

/// The number of pauses between two offers of a refused area.
const OFFERS: usize = 10;

pub(super) struct Session {
    orb: Orb,
    path: PathBuf,
    state: PiMutex<State>,
    changed: PiCondvar,
    stop: Arc<AtomicBool>,
    notifiers: Arc<AtomicUsize>,
}

#[derive(Default)]
struct State {
    link: Option<Link>,
    /// Memory that no caller has asked for yet, by ticket, and the call that was the newest then.
    arrived: HashMap<u64, (Memory, u64)>,
    calls: Calls,
    /// Tickets that are to be detached: the answers with them were lost.
    orphans: Vec<u64>,
    /// The session in which a thread detaches them; 0 for none.
    detaching: u64,
    attachments: Vec<Weak<Attachment>>,
    /// The newest attachment that reads each area.
    readers: HashMap<String, Weak<Attachment>>,
    /// The writer that is being offered to the server again: a server that refused it may accept it
    /// now.
    offered: Option<Weak<Attachment>>,
    /// Writers of areas that the server does not serve.
    refused: Vec<Weak<Attachment>>,
    /// The session in which a thread offers them again; 0 for none.
    offering: u64,
}

/// Memory from the server.
pub(super) struct Memory {
    pub file: OwnedFd,
    /// The doorbell of its writer.
    pub doorbell: Option<OwnedFd>,
    /// The writer's own, not a replica.
    pub local: bool,
    pub data: DataType,
}

/// A server that is connected.
#[derive(Clone)]
struct Link {
    socket: Arc<OwnedFd>,
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
            notifiers: Arc::default(),
        });
        let link = session.greet()?;
        session.state.lock().link = Some(link.clone());
        let (weak, stop) = (Arc::downgrade(&session), session.stop.clone());
        std::thread::Builder::new()
            .name("memory-session".into())
            .spawn(move || keep_session(&weak, &stop, link))?;
        Ok(session)
    }

    /// The server, waiting for it while it is being restarted.
    pub fn server(&self) -> Result<(Lib_CommRef, u64), Error> {
        let deadline = Deadline::after(TIMEOUT);
        let mut state = self.state.lock();
        loop {
            if let Some(link) = &state.link {
                return Ok((link.server.clone(), link.number));
            }
            if !self.changed.wait_until(&mut state, deadline) && deadline.is_past() {
                return Err(PeerError::Ended(format!("the server at {}", self.path.display())).into());
            }
        }
    }

    /// The server, if there is one.
    pub fn server_now(&self) -> Option<(Lib_CommRef, u64)> {
        self.state.lock().link.as_ref().map(|link| (link.server.clone(), link.number))
    }

    /// The descriptor for a ticket, which was sent before the ticket was given.
    pub fn descriptor(&self, ticket: u64) -> Result<Memory, Error> {
        let deadline = Deadline::after(TIMEOUT);
        let mut state = self.state.lock();
        loop {
            if let Some((memory, _)) = state.arrived.remove(&ticket) {
                return Ok(memory);
            }
            if !self.changed.wait_until(&mut state, deadline) && deadline.is_past() {
                return Err(PeerError::Protocol("the server did not hand the memory over").into());
            }
        }
    }

    pub fn keep(&self, attachment: &Arc<Attachment>) {
        let mut state = self.state.lock();
        state.attachments.retain(|other| other.strong_count() > 0);
        state.attachments.push(Arc::downgrade(attachment));
        if matches!(attachment.role, Role::Reader { .. }) {
            state.readers.retain(|_, other| other.strong_count() > 0);
            state.readers.insert(attachment.name.clone(), Arc::downgrade(attachment));
        }
    }

    /// Readers of one area in this process share its mapping. So thousands of readers need no more
    /// descriptors and mappings than there are areas.
    pub fn share(&self, name: &str, segment: Segment) -> Segment {
        // Dropped after the lock is released.
        let other = self.state.lock().readers.get(name).and_then(Weak::upgrade);
        let known = other.map(|other| other.segment.lock().clone());
        known.filter(|known| known.same_file(&segment)).unwrap_or(segment)
    }

    /// Threads of this library that push events.
    pub fn notifiers(&self) -> Arc<AtomicUsize> {
        self.notifiers.clone()
    }

    fn greet(&self) -> Result<Link, Error> {
        let socket = session_socket::connect_to(&self.path)?;
        // A server that hangs still accepts connections.
        set_socket_timeout(&socket, Timeout::Recv, Some(TIMEOUT))?;
        let welcome = session_socket::receive(&socket).map_err(|error| match error {
            Errno::AGAIN => {
                let peer = format!("the node server at {}", self.path.display());
                Error::Peer(PeerError::NoAnswer { peer, within: TIMEOUT })
            }
            other => other.into(),
        })?;
        set_socket_timeout(&socket, Timeout::Recv, None)?;
        match welcome {
            Some(Message { kind: Kind::Hello, number, text, .. }) => {
                let server = self.orb.resolve::<Lib_CommRef>(&text)?;
                Ok(Link { socket: Arc::new(socket), number, server })
            }
            _ => Err(PeerError::Protocol("the server refused the session").into()),
        }
    }

    fn arrived(self: &Arc<Self>, message: Message) {
        let number = message.number;
        if message.kind == Kind::Adopted {
            let offered = self.state.lock().offered.take();
            if let Some(writer) = offered.and_then(|writer| writer.upgrade()) {
                writer.is_writer_of(number, message.descriptor);
            }
            return;
        }
        if message.kind == Kind::Withdrawn {
            return self.withdrawn(&message.text);
        }
        if let Some(memory) = handed_over(message) {
            {
                let mut state = self.state.lock();
                let newest = state.calls.newest();
                state.arrived.insert(number, (memory, newest));
            }
            self.changed.notify_all(&self.state);
            self.find_orphans();
        }
    }

    /// Runs on the record of calls, under the lock.
    pub(super) fn with_calls<T>(&self, run: impl FnOnce(&mut Calls) -> T) -> T {
        run(&mut self.state.lock().calls)
    }

    /// Finds the memory that no caller will ask for, and lets a thread detach it.
    pub(super) fn find_orphans(self: &Arc<Self>) {
        // Its descriptors are closed after the lock is released.
        let found: Vec<_>;
        let mut state = self.state.lock();
        let State { arrived, calls, orphans, .. } = &mut *state;
        found = arrived.extract_if(|_, (_, newest)| calls.have_ended(*newest)).collect();
        orphans.extend(found.iter().map(|(ticket, _)| ticket));
        let Some(link) = state.link.clone() else { return };
        if state.orphans.is_empty() || state.detaching == link.number {
            return;
        }
        state.detaching = link.number;
        drop(state);
        let (session, number) = (Arc::downgrade(self), link.number);
        let detach = move || detach_all(&session, &link);
        if std::thread::Builder::new().name("memory-detach".into()).spawn(detach).is_err() {
            // The next call of set-up detaches them.
            let mut state = self.state.lock();
            if state.detaching == number {
                state.detaching = 0;
            }
        }
    }

    /// Attempts to detach each orphan once.
    pub(super) fn detach_orphans(&self, server: &Lib_CommRef, number: u64) {
        let orphans = self.state.lock().orphans.clone();
        for ticket in orphans {
            let detached = server.detach(number, ticket);
            if matches!(detached, Ok(()) | Err(lib_comm::DetachError::UnknownHandle(_))) {
                self.state.lock().orphans.retain(|other| *other != ticket);
            }
        }
    }

    /// Another node has an area of this name. The writer learns this from `is_served`, and the area
    /// is offered again.
    fn withdrawn(self: &Arc<Self>, name: &str) {
        let writers = self.writers_of(name);
        writers.iter().for_each(|writer| writer.is_writer_of(0, None));
        let mut state = self.state.lock();
        let is_other = |known: &Weak<Attachment>| {
            known.strong_count() > 0 && !writers.iter().any(|writer| Arc::as_ptr(writer) == known.as_ptr())
        };
        state.refused.retain(is_other);
        state.refused.extend(writers.iter().map(Arc::downgrade));
        // While the areas are being handed back there is no connection yet; all of them are
        // considered after that.
        let Some(link) = state.link.clone().filter(|link| link.number != state.offering) else { return };
        state.offering = link.number;
        drop(state);
        // Without a thread it is offered to the next server.
        let _ = self.go_on_asking(&link, Vec::new());
    }

    fn writers_of(&self, name: &str) -> Vec<Arc<Attachment>> {
        let all: Vec<Arc<Attachment>> =
            self.state.lock().attachments.iter().filter_map(Weak::upgrade).collect();
        let is_one =
            |other: &Arc<Attachment>| other.name == name && matches!(other.role, Role::Writer { .. });
        all.into_iter().filter(is_one).collect()
    }

    fn lost(&self) {
        let mut state = self.state.lock();
        state.link = None;
        state.arrived.clear();
        // The next server has other tickets.
        state.orphans.clear();
        state.offered = None;
    }

    /// A server is connected again: hands back the segments of its areas, then lets set-up continue
    /// and requests the readers' memory anew.
    fn resume(self: &Arc<Self>, link: &Link) -> Result<(), Error> {
        let attachments: Vec<Arc<Attachment>> =
            self.state.lock().attachments.iter().filter_map(Weak::upgrade).collect();
        let (writers, readers): (Vec<_>, Vec<_>) =
            attachments.iter().partition(|attachment| matches!(attachment.role, Role::Writer { .. }));
        for attachment in writers {
            let Role::Writer { qos } = attachment.role else { continue };
            let segment = attachment.segment.lock().clone();
            // A fresh description of the file: the lock that makes us the writer stays with the old
            // one.
            let (ticket, doorbell) =
                self.hand_back(link, attachment, (qos.period, qos.size), segment.writable_fd()?)?;
            attachment.is_writer_of(ticket, doorbell);
        }
        // An area without a writer lives on in its readers.
        let mut handed: Vec<&str> = Vec::new();
        for attachment in readers.iter().filter(|attachment| attachment.local) {
            if !handed.contains(&&*attachment.name) {
                let segment = attachment.segment.lock().clone();
                self.hand_back(link, attachment, (session_socket::ONLY_READ, 0), segment.read_only_fd()?)?;
                handed.push(&attachment.name);
            }
        }
        let readers: Vec<Weak<Attachment>> = readers.into_iter().map(Arc::downgrade).collect();
        let refused = attachments.iter().filter(|attachment| attachment.is_refused());
        {
            let mut state = self.state.lock();
            state.refused = refused.map(Arc::downgrade).collect();
            state.offering = link.number;
            state.link = Some(link.clone());
        }
        self.changed.notify_all(&self.state);
        fail_point(FailPoint::Resumed);
        self.go_on_asking(link, readers)
    }

    /// On a thread of its own, because a call to a node that hangs lasts until its time-out.
    fn go_on_asking(self: &Arc<Self>, link: &Link, readers: Vec<Weak<Attachment>>) -> Result<(), Error> {
        let (session, link) = (Arc::downgrade(self), link.clone());
        std::thread::Builder::new()
            .name("memory-reattach".into())
            .spawn(move || reattach_all(&session, &link, readers))?;
        Ok(())
    }

    /// Writers of areas that the server does not serve, and the number of candidates.
    fn refused(&self) -> (Vec<Arc<Attachment>>, usize) {
        let all = self.state.lock().refused.clone();
        let refused = all.iter().filter_map(Weak::upgrade).filter(|writer| writer.is_refused());
        (refused.collect(), all.len())
    }

    /// Ends the offers, unless more writers came than were considered. A later one gets a new
    /// thread.
    fn ends_offering(&self, link: &Link, looked_at: usize) -> bool {
        let mut state = self.state.lock();
        if state.offering != link.number {
            return true;
        }
        let ends = state.refused.len() == looked_at;
        if ends {
            state.refused.clear();
            state.offering = 0;
        }
        ends
    }

    /// Gives the writer's new ticket and doorbell; 0 for none.
    fn hand_back(
        self: &Arc<Self>,
        link: &Link,
        attachment: &Attachment,
        (number, size): (u64, u32),
        file: OwnedFd,
    ) -> Result<(u64, Option<OwnedFd>), Error> {
        offer(link, attachment, (number, size), &file)?;
        fail_point(FailPoint::HandBackSent);
        let answer = self.await_message(link, |message| message.kind == Kind::Adopted)?;
        fail_point(FailPoint::HandedBack);
        Ok((answer.number, answer.descriptor))
    }

    /// Offers the refused areas again, one after another. The answer arrives at
    /// [`arrived`](Self::arrived).
    fn offer_again(&self, link: &Link, attachment: &Arc<Attachment>) -> Result<(), Error> {
        let Role::Writer { qos } = attachment.role else { return Ok(()) };
        let file = attachment.segment.lock().writable_fd()?;
        let mut state = self.state.lock();
        if state.offered.is_none() {
            offer(link, attachment, (qos.period, qos.size), &file)?;
            state.offered = Some(Arc::downgrade(attachment));
        }
        Ok(())
    }

    fn reattach(self: &Arc<Self>, link: &Link, attachment: &Attachment) -> Result<(), Error> {
        let Role::Reader { qos } = attachment.role else { return Ok(()) };
        let _call = Call::begin(self);
        let ticket = link.server.attach_reader(link.number, &attachment.name, qos)?;
        let segment = self.share(&attachment.name, Segment::attach(self.descriptor(ticket)?.file)?);
        attachment.ticket.store(ticket, Ordering::Release);
        let mut current = attachment.segment.lock();
        if !current.same_file(&segment) {
            let before = std::mem::replace(&mut *current, segment);
            attachment.moves.fetch_add(1, Ordering::Release);
            drop(current);
            attachment.moved.notify_all(&attachment.segment);
            if !attachment.local {
                // A thread that waits on a replica without a server continues with the new one.
                let _ = before.for_writing().map(|before| before.set_state(AreaState::Moved));
            }
        }
        fail_point(FailPoint::Reattached);
        Ok(())
    }

    fn is_current(&self, link: &Link) -> bool {
        !self.stop.load(Ordering::Acquire)
            && self
                .state
                .lock()
                .link
                .as_ref()
                .is_some_and(|now| now.number == link.number && Arc::ptr_eq(&now.socket, &link.socket))
    }

    /// Receives until a message matches. Other messages are kept for their waiting threads.
    fn await_message(
        self: &Arc<Self>,
        link: &Link,
        wanted: impl Fn(&Message) -> bool,
    ) -> Result<Message, Error> {
        loop {
            match session_socket::receive(&*link.socket)? {
                Some(message) if wanted(&message) => return Ok(message),
                Some(message) => self.arrived(message),
                None => return Err(PeerError::Ended("the server".into()).into()),
            }
        }
    }
}

fn offer(
    link: &Link,
    attachment: &Attachment,
    (number, size): (u64, u32),
    file: &OwnedFd,
) -> Result<(), Error> {
    let mut text = format!("{size} {}", attachment.name);
    if !attachment.data.is_octets() {
        text = format!("{text}\0{}", attachment.data.to_text());
    }
    Ok(session_socket::send(&*link.socket, Kind::HandBack, number, &text, &[file.as_fd()])?)
}

/// Requests the readers' memory anew until all have it or the server has changed, because an area's
/// writer or its node may come back later. Also offers the refused areas once a second.
fn reattach_all(session: &Weak<Session>, link: &Link, mut readers: Vec<Weak<Attachment>>) {
    for round in 0_usize.. {
        let Some(session) = session.upgrade().filter(|session| session.is_current(link)) else { return };
        readers.retain(|reader| {
            let Some(attachment) = reader.upgrade() else { return false };
            session.is_current(link) && session.reattach(link, &attachment).is_err()
        });
        let (refused, looked_at) = session.refused();
        if round % OFFERS == 0 && !refused.is_empty() {
            // Each time another area, so that none delays the others.
            let _ = session.offer_again(link, &refused[round / OFFERS % refused.len()]);
        }
        if readers.is_empty() && refused.is_empty() && session.ends_offering(link, looked_at) {
            return;
        }
        drop((refused, session));
        std::thread::sleep(PAUSE);
    }
}

/// Detaches the orphans of a session until there is none, or the server has changed.
fn detach_all(session: &Weak<Session>, link: &Link) {
    loop {
        let Some(session) = session.upgrade().filter(|session| session.is_current(link)) else { return };
        session.detach_orphans(&link.server, link.number);
        {
            let mut state = session.state.lock();
            if state.orphans.is_empty() {
                if state.detaching == link.number {
                    state.detaching = 0;
                }
                return;
            }
        }
        drop(session);
        std::thread::sleep(PAUSE);
    }
}

fn handed_over(message: Message) -> Option<Memory> {
    let local = match message.kind {
        Kind::Segment => true,
        Kind::Replica => false,
        _ => return None,
    };
    let (doorbell, data) = (message.doorbell, DataType::from_text(&message.text)?);
    message.descriptor.map(|file| Memory { file, doorbell, local, data })
}

/// Receives the server's messages; after its end, connects to the next server. Ends with the
/// library.
fn keep_session(session: &Weak<Session>, stop: &AtomicBool, first: Link) {
    let mut link = first;
    loop {
        // With a weak reference, so that the thread does not keep the session alive.
        while let Ok(Some(message)) = session_socket::receive(&*link.socket) {
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
