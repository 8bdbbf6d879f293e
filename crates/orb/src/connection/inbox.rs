//! Bytes from the stream to whole messages.

use isorb_cdr::{Order, Version};
use isorb_giop::fragment::{self, Assembled, Assembler};
use isorb_giop::{Header, MessageKind, ProtocolError};
use isorb_rt::time::Deadline;
use isorb_scope::{Buffer, BufferPool};
use isorb_transport::{Stream, Wait};
use std::io;
use std::sync::Arc;
use std::time::Duration;

const HEADER: usize = 12;
/// First block of a connection.
const SMALL: usize = 4096;
/// Blocks up to this size stay with the connection and the threads that read it; larger ones go back to the pool, so that
/// one large message does not cost memory for ever.
pub(crate) const STAY: usize = 128 << 10;

/// Room that the header of a message is trusted with. More is made as its octets come, so that a peer which announces much
/// and sends nothing takes no memory from others.
const ON_TRUST: usize = 256 << 10;

/// Messages of which fragments may be outstanding at a time.
const PARTIAL: usize = 8;

/// A whole message, at the start of the block that was handed to the reader.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    pub header: Header,
    /// Length in bytes, header included.
    pub len: usize,
    /// Of requests and replies; 0 for others.
    pub request_id: u32,
}

impl Arrived {
    /// A message that was made in this process.
    pub fn of_local(message: &[u8]) -> Result<Arrived, isorb_cdr::Error> {
        let truncated = isorb_cdr::Error::new(isorb_cdr::ErrorKind::Truncated, 0);
        let header = Header::parse(message.first_chunk().ok_or(truncated)?).map_err(|_| truncated)?;
        Ok(Arrived { header, len: message.len(), request_id: 0 })
    }

    #[inline]
    pub fn is_reply_to(&self, id: u32) -> bool {
        self.request_id == id && matches!(self.header.kind, MessageKind::Reply | MessageKind::LocateReply)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadError {
    /// Nothing (more) is there, and waiting was not wanted.
    WouldBlock,
    /// The deadline passed.
    TimedOut,
    /// The stream ended between messages.
    End,
    /// The peer said CloseConnection.
    ClosedInOrder,
    /// The stream broke, or ended inside a message.
    Lost,
    /// The peer sent what is no GIOP, or more than the limit.
    Protocol(ProtocolError),
    /// No block for a message of this size.
    NoMemory,
}

/// What became of the bytes at the start of an inbox.
enum Step {
    /// More must be received.
    Incomplete,
    /// They were a part of a message that is not whole yet.
    Fragment,
    Message(Arrived),
}

pub(crate) struct Inbox {
    block: Buffer,
    filled: usize,
    /// Whether the message that `next` gave last was received with nothing behind it, by a receive that got less than
    /// there was room for.
    pub emptied: bool,
    /// Made when the first fragment comes.
    assembler: Option<Box<Assembler>>,
    /// What the stream's receive time-out is set to.
    timeout: Option<Duration>,
    limit: usize,
}

impl Inbox {
    pub fn new(pool: &Arc<BufferPool>, limit: usize) -> Inbox {
        Inbox { block: fresh_block(pool), filled: 0, emptied: false, assembler: None, timeout: None, limit }
    }

    /// The next whole message, put at the start of `into`; the two blocks change places, nothing is copied but what was
    /// read beyond the message. A message that is not complete stays here, whoever asks next.
    ///
    /// # Real-time
    /// One system call for a message that arrives whole; a block is taken from the pool when the message outgrows the
    /// present one.
    pub fn next(
        &mut self,
        stream: &dyn Stream,
        pool: &Arc<BufferPool>,
        wait: Wait,
        deadline: Deadline,
        timeout: Option<Duration>,
        into: &mut Buffer,
    ) -> Result<Arrived, ReadError> {
        if wait == Wait::Block && self.timeout != timeout {
            stream.set_recv_timeout(timeout).map_err(|_| ReadError::Lost)?;
            self.timeout = timeout;
        }
        self.emptied = false;
        loop {
            // A fragment leaves room for the next, which may be here already.
            while self.filled >= HEADER {
                match self.complete(pool, into)? {
                    Step::Message(arrived) => return Ok(arrived),
                    Step::Fragment => {}
                    Step::Incomplete => break,
                }
            }
            let room = &mut self.block.bytes_mut()[self.filled..];
            let most = room.len();
            match stream.recv(room, wait) {
                Ok(0) => return Err(if self.filled == 0 { ReadError::End } else { ReadError::Lost }),
                Ok(n) => {
                    self.filled += n;
                    self.emptied = n < most;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && wait == Wait::No => {
                    return Err(ReadError::WouldBlock);
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    if deadline.is_past() {
                        return Err(ReadError::TimedOut);
                    }
                    // Less is left than the usual time-out: wait exactly that long.
                    let left = deadline.remaining();
                    stream.set_recv_timeout(left).map_err(|_| ReadError::Lost)?;
                    self.timeout = left;
                }
                Err(_) => return Err(ReadError::Lost),
            }
            if self.filled < HEADER && deadline.is_past() {
                return Err(ReadError::TimedOut);
            }
        }
    }

    /// Whether no part of a further message is here.
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Takes the first message out if it is whole; makes room for it if it is not.
    #[inline]
    fn complete(&mut self, pool: &Arc<BufferPool>, into: &mut Buffer) -> Result<Step, ReadError> {
        let header = {
            let Some(head) = self.block.bytes().first_chunk::<HEADER>() else { return Ok(Step::Incomplete) };
            Header::parse(head).map_err(ReadError::Protocol)?
        };
        header.check_limit(self.limit).map_err(ReadError::Protocol)?;
        let len = header.total();
        if len > self.block.capacity() {
            self.grow(len, pool)?;
        }
        if self.filled < len {
            return Ok(Step::Incomplete);
        }
        let beyond = self.filled - len;
        if into.capacity() < beyond.max(SMALL) || into.capacity() > STAY {
            *into = pool.take(beyond.max(SMALL)).ok_or(ReadError::NoMemory)?;
        }
        std::mem::swap(&mut self.block, into);
        if beyond > 0 {
            self.block.bytes_mut()[..beyond].copy_from_slice(&into.bytes()[len..len + beyond]);
        }
        self.filled = beyond;
        if header.more_fragments || header.kind == MessageKind::Fragment {
            return self.assemble(header, len, pool, into);
        }
        if header.kind == MessageKind::CancelRequest
            && let Some(assembler) = &mut self.assembler
            && let Some(id) = number(&header, into.bytes(), HEADER)
        {
            assembler.cancel(id);
        }
        let request_id = reply_id(&header, &into.bytes()[..len]);
        Ok(Step::Message(Arrived { header, len, request_id }))
    }

    /// Makes room for more of a message of `len` octets.
    fn grow(&mut self, len: usize, pool: &Arc<BufferPool>) -> Result<(), ReadError> {
        let room = len.min(ON_TRUST.max(4 * self.filled));
        let full = self.filled == self.block.capacity();
        if full || self.block.capacity() < len.min(ON_TRUST) {
            let mut larger = pool.take(room).ok_or(ReadError::NoMemory)?;
            larger.bytes_mut()[..self.filled].copy_from_slice(&self.block.bytes()[..self.filled]);
            self.block = larger;
        }
        Ok(())
    }

    #[cold]
    fn assemble(
        &mut self,
        header: Header,
        len: usize,
        pool: &Arc<BufferPool>,
        into: &mut Buffer,
    ) -> Result<Step, ReadError> {
        let limits = fragment::Limits { message: self.limit, bytes: 2 * self.limit, messages: PARTIAL };
        let assembler = self.assembler.get_or_insert_with(|| Box::new(Assembler::new(pool.clone(), limits)));
        let pushed = assembler.push(&header, &into.bytes()[..len]).map_err(ReadError::Protocol)?;
        let (header, block, len) = match pushed {
            Assembled::Complete(header, buffer) => (header, buffer, header.total()),
            Assembled::Whole | Assembled::Pending | Assembled::Ignored => return Ok(Step::Fragment),
        };
        *into = block;
        let request_id = reply_id(&header, &into.bytes()[..len]);
        Ok(Step::Message(Arrived { header, len, request_id }))
    }
}

fn number(header: &Header, message: &[u8], at: usize) -> Option<u32> {
    let bytes = *message.get(at..)?.first_chunk::<4>()?;
    Some(if header.order == Order::Little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
}

/// The request id of a reply; 0 for anything else, and for what is malformed, which its reader will notice.
#[inline]
fn reply_id(header: &Header, message: &[u8]) -> u32 {
    if !matches!(header.kind, MessageKind::Reply | MessageKind::LocateReply) {
        return 0;
    }
    let number = |at| number(header, message, at);
    let before_1_2 = || {
        // The service contexts come first, each an id and counted octets.
        let mut at = HEADER + 4;
        for _ in 0..number(HEADER)? {
            let octets = number(at.checked_add(4)?)? as usize;
            at = at.checked_add(8)?.checked_add(octets)?.checked_next_multiple_of(4)?;
        }
        number(at)
    };
    let id = match (header.version, header.kind) {
        (Version::V1_2, _) | (_, MessageKind::LocateReply) => number(HEADER),
        _ => before_1_2(),
    };
    id.unwrap_or(0)
}

/// A small block; from the heap in the rare case that the pool's limit is reached.
pub(crate) fn fresh_block(pool: &Arc<BufferPool>) -> Buffer {
    pool.take(SMALL).unwrap_or_else(|| Buffer::unpooled(SMALL))
}
