//! Areas that outlived the server that created them: processes hand them back to the next server.
//!
//! A thread of its own asks the coordinator whether another node has the name by now, because the
//! coordinator may hang. Where it does not answer, the areas are adopted unconfirmed.

use super::geometry_of;
use super::table::{Adopted, Adoption};
use crate::fail_points::{FailPoint, fail_point};
use crate::idl::{Area, DataType, WriterQoS};
use crate::memory::Segment;
use crate::node::Node;
use crate::node::doorbells::Doorbell;
use crate::session_socket::{self, Kind, Message, ONLY_READ};
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::Pid;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// An area that a process hands back.
pub(in crate::node) struct ReturnedArea {
    session: u64,
    process: Pid,
    socket: Arc<OwnedFd>,
    message: Message,
}

/// From the session thread to the thread that adopts. Each session has one request under way at
/// most.
pub(in crate::node) fn queue(sessions: usize) -> (SyncSender<ReturnedArea>, Receiver<ReturnedArea>) {
    sync_channel(sessions.max(1))
}

impl Node {
    /// Queues a request. A second one before the first is answered is refused.
    pub(super) fn request_hand_back(&self, session: u64, message: Message, queue: &SyncSender<ReturnedArea>) {
        let (socket, process) = {
            let mut table = self.areas.lock();
            let Ok(entry) = table.session(session) else { return };
            let (socket, process) = (entry.socket.clone(), entry.process);
            if !table.begin_hand_back(session) {
                if message.number != ONLY_READ {
                    table.count_refused();
                }
                drop(table);
                let _ = session_socket::send(&*socket, Kind::Adopted, 0, "", &[]);
                return;
            }
            (socket, process)
        };
        let request = ReturnedArea { session, process, socket, message };
        if let Err(TrySendError::Full(refused) | TrySendError::Disconnected(refused)) =
            queue.try_send(request)
        {
            self.answer(&refused, None);
        }
    }

    /// Adopts areas until the server stops.
    pub(in crate::node) fn adopt_all(&self, queue: &Receiver<ReturnedArea>) {
        for mut request in queue {
            if self.is_stopped() {
                return;
            }
            let adopted = self.adopt(&mut request);
            self.answer(&request, adopted);
        }
    }

    fn answer(&self, request: &ReturnedArea, adopted: Option<(u64, Doorbell)>) {
        let (ticket, doorbell) = adopted.unzip();
        {
            let mut table = self.areas.lock();
            table.end_hand_back(request.session);
            if request.message.number != ONLY_READ && ticket.is_none() {
                table.count_refused();
            }
        }
        let doorbell = doorbell.as_ref().map(AsFd::as_fd);
        let ticket = ticket.unwrap_or(0);
        let _ = session_socket::send(&*request.socket, Kind::Adopted, ticket, "", doorbell.as_slice());
    }

    /// Adopts an area. Gives the writer's new ticket and doorbell; none to a process that only
    /// reads.
    fn adopt(&self, request: &mut ReturnedArea) -> Option<(u64, Doorbell)> {
        fail_point(FailPoint::AdoptBegun);
        let (session, process, message) = (request.session, request.process, &mut request.message);
        let (size, rest) = message.text.split_once(' ')?;
        let (name, data) = rest.split_once('\0').unwrap_or((rest, ""));
        let file = message.descriptor.take()?;
        // Attaching touches every page, so the file and the limits are checked first.
        let geometry = Segment::inspect(&file).ok()?;
        let what = Area::new(name, u32::try_from(geometry.size()).ok()?, geometry.histories() as u32)
            .typed(DataType::from_text(data)?);
        what.check_data().ok()?;
        geometry_of(&what).ok()?;
        let adoption = self.areas.lock().can_adopt(&what, geometry, &file, process);
        if adoption == Adoption::Refused {
            return None;
        }
        let mut segment = Segment::attach(file).ok()?;
        // A reader's descriptor is read-only. This process has the same user and may open the file
        // again.
        if !segment.is_writable() {
            segment = segment.for_writing().ok()?;
        }
        // An area that was destroyed or replaced does not come back.
        if segment.state()?.is_final() {
            return None;
        }
        let unconfirmed = adoption == Adoption::Free && self.link.offer_area(&what)?;
        fail_point(FailPoint::AdoptRegistered);
        let writer = match message.number {
            ONLY_READ => None,
            period => Some(WriterQoS { period, size: size.parse().ok()?, type_hash: what.data.hash }),
        };
        let mut table = self.areas.lock();
        let doorbell = Doorbell::new(table.number()).ok()?;
        let name = what.name.clone();
        let adopted = Adopted { what, segment, session, process, writer, unconfirmed };
        // If the writer's process ended before this, the timer for dead writers finds it.
        let ticket = table.adopt(adopted, doorbell.clone())?;
        // An agent that cannot subscribe sends the values with its heartbeats' refresh.
        let _ = self.channels.move_subscriptions(&name, &doorbell);
        fail_point(FailPoint::Adopted);
        Some((ticket, doorbell))
    }

    /// Another node has the name of an area that was adopted unconfirmed. Processes that have it
    /// mapped go on; its writer is notified.
    pub(in crate::node) fn withdraw(&self, name: &str) {
        {
            let mut table = self.areas.lock();
            let Ok(entry) = table.area(name) else { return };
            if let Some(attachment) = entry.writer.and_then(|ticket| table.remove_attachment(ticket)) {
                table.count_refused();
                if let super::AttachmentKind::Writer(doorbell) = &attachment.kind {
                    self.channels.forget_doorbell(doorbell.number());
                }
                if let Ok(session) = table.session(attachment.session) {
                    let _ = session_socket::send(&*session.socket, Kind::Withdrawn, 0, name, &[]);
                }
            }
            table.remove(name);
        }
        self.channels.end_area(name);
    }
}
