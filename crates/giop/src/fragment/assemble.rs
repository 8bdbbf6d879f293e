//! Inbound fragments.

use crate::cursor::Cursor;
use crate::{Header, MessageKind, ProtocolError};
use alloc::sync::Arc;
use alloc::vec::Vec;
use isorb_cdr::{Error, ErrorKind, Order, Version};
use isorb_scope::{Buffer, BufferPool};

/// Limits of one connection.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Incomplete messages.
    pub messages: usize,
    /// Bytes of their buffers together.
    pub bytes: usize,
    /// Bytes of one message, its header included.
    pub message: usize,
}

impl Default for Limits {
    /// 8 messages, 32 MiB in all, 16 MiB each.
    fn default() -> Limits {
        Limits { messages: 8, bytes: 32 << 20, message: 16 << 20 }
    }
}

/// The result of a received message.
#[derive(Debug)]
pub enum Assembled {
    /// The message has no fragments; read it in place.
    Whole,
    /// The assembler keeps the fragment; more must come.
    Pending,
    /// The last fragment. The buffer holds the message as if it had never been cut,
    /// [`Header::total`] bytes from its start; read it by [`message::start`](crate::message::start)
    /// with this header. A message from GIOP 1.1 has a trailer with its fragment boundaries; see
    /// [`Header::fragment_boundaries`].
    Complete(Header, Buffer),
    /// A fragment of a cancelled message: nothing to do.
    Ignored,
}

/// Assembles the fragmented messages of one connection.
///
/// The time limit for the next fragment is the caller's task: [`Assembler::pending`] says whether
/// the assembler waits for any.
///
/// # Real-time
/// Copies each fragment once, and the message again each time it outgrows a size class of the pool.
/// Allocates only where the pool does, and for GIOP 1.1 a list of four bytes for each fragment.
#[derive(Debug)]
pub struct Assembler {
    pool: Arc<BufferPool>,
    limits: Limits,
    partial: Vec<Partial>,
    bytes: usize,
    now: u64,
}

#[derive(Debug)]
struct Partial {
    /// Header of the first fragment.
    header: Header,
    /// Request id. In GIOP 1.1 at most one message is incomplete, and its id may still be unknown.
    id: Option<u32>,
    buffer: Buffer,
    length: usize,
    /// The caller's time at the first fragment.
    begun: u64,
    /// In GIOP 1.1: the offsets of the fragments in the buffer.
    boundaries: Vec<u32>,
}

impl Assembler {
    /// An assembler that takes its buffers from `pool`.
    pub fn new(pool: Arc<BufferPool>, limits: Limits) -> Assembler {
        Assembler { pool, limits, partial: Vec::with_capacity(limits.messages), bytes: 0, now: 0 }
    }

    /// Number of incomplete messages.
    pub fn pending(&self) -> usize {
        self.partial.len()
    }

    /// Sets the time, in any unit, for [`Assembler::oldest`].
    pub fn set_time(&mut self, now: u64) {
        self.now = now;
    }

    /// The time of the first fragment of the incomplete message that has waited longest, in the
    /// unit of [`Assembler::set_time`].
    pub fn oldest(&self) -> Option<u64> {
        self.partial.iter().map(|partial| partial.begun).min()
    }

    /// Octets of incomplete messages that have arrived.
    pub fn arrived(&self) -> usize {
        self.partial.iter().map(|partial| partial.length).sum()
    }

    /// Bytes of their buffers.
    pub fn held(&self) -> usize {
        self.bytes
    }

    /// Takes a received message: the header, and all its bytes, header included.
    ///
    /// # Errors
    /// [`ProtocolError`]: the connection must end.
    pub fn push(&mut self, header: &Header, message: &[u8]) -> Result<Assembled, ProtocolError> {
        if message.len() != header.total() {
            return Err(Error::new(ErrorKind::Truncated, message.len()).into());
        }
        if header.kind == MessageKind::Fragment {
            return self.fragment(header, message);
        }
        let open_1_1 = header.version == Version::V1_1 && self.position_1_1().is_some();
        let interrupts = matches!(
            header.kind,
            MessageKind::Request | MessageKind::Reply | MessageKind::LocateRequest | MessageKind::LocateReply
        );
        if open_1_1 && interrupts {
            return Err(ProtocolError::FragmentOrder);
        }
        if !header.more_fragments {
            return Ok(Assembled::Whole);
        }
        check_length(header)?;
        let id = request_id(header, message);
        if header.version == Version::V1_2 {
            let Some(id) = id else { return Err(Error::new(ErrorKind::Truncated, message.len()).into()) };
            if self.position_1_2(id).is_some() {
                return Err(ProtocolError::FragmentId(id));
            }
        }
        if self.partial.len() >= self.limits.messages {
            return Err(ProtocolError::FragmentLimit);
        }
        let buffer = self.buffer(message.len(), message.len())?;
        self.partial.push(Partial {
            header: *header,
            id,
            buffer,
            length: 0,
            begun: self.now,
            boundaries: Vec::new(),
        });
        self.append(self.partial.len() - 1, message)?;
        Ok(Assembled::Pending)
    }

    /// Drops an incomplete message that the client cancelled. False if there was none.
    pub fn cancel(&mut self, id: u32) -> bool {
        let Some(at) = self.partial.iter().position(|p| p.id == Some(id)) else { return false };
        self.remove(at);
        true
    }

    /// The kind of the incomplete message that a fragment belongs to. `None` if there is none.
    pub fn kind(&self, fragment: &Header, message: &[u8]) -> Option<MessageKind> {
        let at = match fragment.version {
            Version::V1_2 => self.position_1_2(fragment_id(fragment, message)?),
            _ => self.position_1_1(),
        };
        at.map(|at| self.partial[at].header.kind)
    }

    /// Takes an incomplete request out that a fragment of GIOP 1.2 belongs to: the header of its
    /// first fragment, and the octets that have arrived without this one. Later fragments of it are
    /// ignored. For a receiver that answers the request without the rest.
    pub fn take_request(&mut self, fragment: &Header, message: &[u8]) -> Option<(Header, Buffer, usize)> {
        let at = self.position_1_2(fragment_id(fragment, message)?)?;
        if self.partial[at].header.kind != MessageKind::Request {
            return None;
        }
        let Partial { header, buffer, length, .. } = self.remove(at);
        Some((header, buffer, length))
    }

    /// Drops all incomplete messages.
    pub fn clear(&mut self) {
        self.partial.clear();
        self.bytes = 0;
    }

    fn fragment(&mut self, header: &Header, message: &[u8]) -> Result<Assembled, ProtocolError> {
        let (at, data) = if header.version == Version::V1_2 {
            let mut c = Cursor::at_offset(&message[Header::LEN..], Header::LEN, header.order);
            let id = c.u32()?;
            // A client may cancel before the last fragment, while fragments are on their way
            // (clause 9.4.9).
            let Some(at) = self.position_1_2(id) else { return Ok(Assembled::Ignored) };
            (at, &message[Header::LEN + 4..])
        } else {
            let Some(at) = self.position_1_1() else { return Err(ProtocolError::FragmentOrder) };
            (at, &message[Header::LEN..])
        };
        if self.partial[at].header.order != header.order {
            return Err(ProtocolError::FragmentOrder);
        }
        if header.more_fragments {
            check_length(header)?;
        }
        if header.version == Version::V1_1 && !data.is_empty() {
            self.record_boundary(at)?;
        }
        self.append(at, data)?;
        if header.more_fragments {
            return Ok(Assembled::Pending);
        }
        // If every boundary is as far behind a multiple of 8 as a fragment's data, alignment never
        // changes.
        let boundaries = core::mem::take(&mut self.partial[at].boundaries);
        self.bytes -= 4 * boundaries.len();
        let boundaries =
            if boundaries.iter().all(|boundary| boundary % 8 == 4) { Vec::new() } else { boundaries };
        for boundary in &boundaries {
            self.append(at, &boundary.to_ne_bytes())?;
        }
        let Partial { header: first, mut buffer, length, .. } = self.remove(at);
        let Ok(size) = u32::try_from(length - Header::LEN) else { return Err(ProtocolError::FragmentLimit) };
        let whole =
            Header { more_fragments: false, size, fragment_boundaries: boundaries.len() as u32, ..first };
        buffer.bytes_mut()[..Header::LEN].copy_from_slice(&whole.write());
        Ok(Assembled::Complete(whole, buffer))
    }

    /// Records that a fragment begins here.
    fn record_boundary(&mut self, at: usize) -> Result<(), ProtocolError> {
        if self.bytes + 4 > self.limits.bytes {
            return Err(ProtocolError::FragmentLimit);
        }
        self.bytes += 4;
        let partial = &mut self.partial[at];
        // The limits keep a message below 4 GiB; a larger one would not fit its header.
        partial.boundaries.push(u32::try_from(partial.length).unwrap_or(u32::MAX));
        Ok(())
    }

    fn append(&mut self, at: usize, data: &[u8]) -> Result<(), ProtocolError> {
        let length = self.partial[at].length;
        let end = length + data.len();
        if end > self.limits.message {
            return Err(ProtocolError::TooLarge {
                size: u32::try_from(end - Header::LEN).unwrap_or(u32::MAX),
            });
        }
        if end > self.partial[at].buffer.capacity() {
            let mut larger = self.buffer(end, end)?;
            let old = &mut self.partial[at].buffer;
            larger.bytes_mut()[..length].copy_from_slice(&old.bytes()[..length]);
            self.bytes -= old.capacity();
            *old = larger;
        }
        let partial = &mut self.partial[at];
        partial.buffer.bytes_mut()[length..end].copy_from_slice(data);
        partial.length = end;
        Ok(())
    }

    /// A buffer that counts against the limits.
    fn buffer(&mut self, bytes: usize, message: usize) -> Result<Buffer, ProtocolError> {
        if message > self.limits.message {
            let size = u32::try_from(message - Header::LEN).unwrap_or(u32::MAX);
            return Err(ProtocolError::TooLarge { size });
        }
        let buffer = self.pool.take(bytes).ok_or(ProtocolError::FragmentLimit)?;
        if self.bytes + buffer.capacity() > self.limits.bytes {
            return Err(ProtocolError::FragmentLimit);
        }
        self.bytes += buffer.capacity();
        Ok(buffer)
    }

    fn remove(&mut self, at: usize) -> Partial {
        let partial = self.partial.swap_remove(at);
        self.bytes -= partial.buffer.capacity() + 4 * partial.boundaries.len();
        partial
    }

    fn position_1_1(&self) -> Option<usize> {
        self.partial.iter().position(|p| p.header.version == Version::V1_1)
    }

    fn position_1_2(&self, id: u32) -> Option<usize> {
        self.partial.iter().position(|p| p.header.version == Version::V1_2 && p.id == Some(id))
    }
}

/// The request id of a fragment of GIOP 1.2.
fn fragment_id(header: &Header, message: &[u8]) -> Option<u32> {
    let behind = message.get(Header::LEN..)?;
    Cursor::at_offset(behind, Header::LEN, header.order).u32().ok()
}

/// Checks the length of a fragment that is not the last one.
fn check_length(header: &Header) -> Result<(), ProtocolError> {
    if header.version == Version::V1_2 && !header.total().is_multiple_of(8) {
        return Err(ProtocolError::FragmentLength(header.size));
    }
    Ok(())
}

/// The request id, if the first fragment contains it: in 1.2 always, in 1.1 behind the service
/// contexts.
fn request_id(header: &Header, message: &[u8]) -> Option<u32> {
    let order: Order = header.order;
    let mut c = Cursor::at_offset(&message[Header::LEN..], Header::LEN, order);
    if header.version != Version::V1_2 {
        for _ in 0..c.u32().ok()? {
            c.u32().ok()?;
            c.octets().ok()?;
        }
    }
    c.u32().ok()
}
