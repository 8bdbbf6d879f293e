//! Inbound fragments.

use crate::cursor::Cursor;
use crate::{Header, MessageKind, ProtocolError};
use alloc::sync::Arc;
use alloc::vec::Vec;
use isorb_cdr::{Error, ErrorKind, Order, Version};
use isorb_scope::{Buffer, BufferPool};

/// What one connection may keep.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Messages of which fragments are still to come.
    pub messages: usize,
    /// Bytes of all of them, as their buffers have them.
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

/// What became of a message that was received.
#[derive(Debug)]
pub enum Assembled {
    /// It has no fragments: it can be read where it lies.
    Whole,
    /// It was kept; more is to come.
    Pending,
    /// It was the last fragment: this is the message as if it had never been cut, [`Header::total`] bytes from the start
    /// of the buffer, to be read by [`message::start`](crate::message::start) with this header. (One that came in fragments
    /// of GIOP 1.1 has a trailer, which says where alignment counts anew; see [`Header::seams`].)
    Complete(Header, Buffer),
    /// A fragment of a message that was cancelled: nothing to do.
    Ignored,
}

/// Puts the fragments of one connection together.
///
/// How long to wait for the next fragment is the caller's business: [`Assembler::pending`] says whether any is awaited.
///
/// # Real-time
/// Copies each fragment once, and the message again each time that it outgrows a size class of the pool. Allocates only
/// where the pool does, and for GIOP 1.1 a list of four bytes a fragment.
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
    /// Request id; in GIOP 1.1 there is one message at most, and its id may not be known yet.
    id: Option<u32>,
    buffer: Buffer,
    length: usize,
    /// What the caller said the time was when the first fragment came.
    begun: u64,
    /// In GIOP 1.1: where fragments begin in the buffer.
    seams: Vec<u32>,
}

impl Assembler {
    /// An assembler that takes its buffers from `pool`.
    pub fn new(pool: Arc<BufferPool>, limits: Limits) -> Assembler {
        Assembler { pool, limits, partial: Vec::with_capacity(limits.messages), bytes: 0, now: 0 }
    }

    /// Number of messages of which fragments are still to come.
    pub fn pending(&self) -> usize {
        self.partial.len()
    }

    /// Says what the time is, in any unit, for [`Assembler::oldest`].
    pub fn set_time(&mut self, now: u64) {
        self.now = now;
    }

    /// When the first fragment came of the message that waits longest for its last, as [`Assembler::set_time`] said.
    pub fn oldest(&self) -> Option<u64> {
        self.partial.iter().map(|partial| partial.begun).min()
    }

    /// Octets that have arrived of messages of which fragments are still to come.
    pub fn arrived(&self) -> usize {
        self.partial.iter().map(|partial| partial.length).sum()
    }

    /// Bytes that are held for them.
    pub fn held(&self) -> usize {
        self.bytes
    }

    /// Looks at a received message: the header, and all its bytes, header included.
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
            seams: Vec::new(),
        });
        self.append(self.partial.len() - 1, message)?;
        Ok(Assembled::Pending)
    }

    /// Forgets a message of which the client cancelled the rest. Whether there was one.
    pub fn cancel(&mut self, id: u32) -> bool {
        let Some(at) = self.partial.iter().position(|p| p.id == Some(id)) else { return false };
        self.remove(at);
        true
    }

    /// Forgets everything, as when the caller gave up waiting.
    pub fn clear(&mut self) {
        self.partial.clear();
        self.bytes = 0;
    }

    fn fragment(&mut self, header: &Header, message: &[u8]) -> Result<Assembled, ProtocolError> {
        let (at, data) = if header.version == Version::V1_2 {
            let mut c = Cursor::at_offset(&message[Header::LEN..], Header::LEN, header.order);
            let id = c.u32()?;
            // A client may cancel before the last fragment, and the fragments may have been on their way (clause 9.4.9).
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
            self.seam(at)?;
        }
        self.append(at, data)?;
        if header.more_fragments {
            return Ok(Assembled::Pending);
        }
        // Where every seam lies as far behind a multiple of 8 as a fragment's data does, alignment never changes.
        let seams = core::mem::take(&mut self.partial[at].seams);
        self.bytes -= 4 * seams.len();
        let seams = if seams.iter().all(|seam| seam % 8 == 4) { Vec::new() } else { seams };
        for seam in &seams {
            self.append(at, &seam.to_ne_bytes())?;
        }
        let Partial { header: first, mut buffer, length, .. } = self.remove(at);
        let Ok(size) = u32::try_from(length - Header::LEN) else { return Err(ProtocolError::FragmentLimit) };
        let whole = Header { more_fragments: false, size, seams: seams.len() as u32, ..first };
        buffer.bytes_mut()[..Header::LEN].copy_from_slice(&whole.write());
        Ok(Assembled::Complete(whole, buffer))
    }

    /// Notes that a fragment begins here.
    fn seam(&mut self, at: usize) -> Result<(), ProtocolError> {
        if self.bytes + 4 > self.limits.bytes {
            return Err(ProtocolError::FragmentLimit);
        }
        self.bytes += 4;
        let partial = &mut self.partial[at];
        // The limits keep a message below 4 GiB, or else its size would not fit its header.
        partial.seams.push(u32::try_from(partial.length).unwrap_or(u32::MAX));
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
        self.bytes -= partial.buffer.capacity() + 4 * partial.seams.len();
        partial
    }

    fn position_1_1(&self) -> Option<usize> {
        self.partial.iter().position(|p| p.header.version == Version::V1_1)
    }

    fn position_1_2(&self, id: u32) -> Option<usize> {
        self.partial.iter().position(|p| p.header.version == Version::V1_2 && p.id == Some(id))
    }
}

/// Checks the length of a message that is not the last part of one.
fn check_length(header: &Header) -> Result<(), ProtocolError> {
    if header.version == Version::V1_2 && !header.total().is_multiple_of(8) {
        return Err(ProtocolError::FragmentLength(header.size));
    }
    Ok(())
}

/// The request id, where it is in the first part already: in 1.2 always, in 1.1 after the service contexts.
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
