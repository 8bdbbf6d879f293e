//! From octets of the stream to whole messages.

use super::peer_account::PeerShare;
use super::table::{BufferAccount, Growth};
use crate::buffers::{LANE_SMALL, MAX_RETAINED_BLOCK};
use crate::hot::hot;
use crate::lent::LentParts;
use crate::policy::Timeout;
use isorb_cdr::{Order, Version};
use isorb_giop::fragment::{self, Assembled, Assembler};
use isorb_giop::{Header, MessageKind, ProtocolError};
use isorb_rt::time::{Deadline, now_ns};
use isorb_scope::{Buffer, BufferPool};
use isorb_transport::{Stream, Wait};
use std::hint::cold_path;
use std::io;
use std::sync::Arc;
use std::time::Duration;

const HEADER: usize = 12;
/// First block of a connection.
const SMALL: usize = 4096;
/// Block of a connection on which messages come faster than they are read: one system call gets
/// many.
const LARGE: usize = 32 << 10;
/// Octets that count towards `memory_limit` when only the header of a message has arrived. More are
/// committed as octets arrive. Those that a peer announces and does not send occupy no memory.
const COMMITTED_AT_ONCE: usize = 256 << 10;

/// Messages of which fragments may be outstanding at a time.
const PARTIAL: usize = 8;

/// A whole message, at the start of the reader's block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrived {
    pub header: Header,
    /// Length in bytes, header included.
    pub len: usize,
    id_or_share: ReplyIdOrShare,
}

/// What the reader knows of a message beside its header: of a reply, the id of the request that it
/// answers; of any other message, whether the limits of its client let it run. The kind of the
/// message says which. Both in a word, since each request copies an [`Arrived`] some times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ReplyIdOrShare(u32);

impl ReplyIdOrShare {
    /// Of a message that no limit was asked about, and of a reply that no call of a connection
    /// awaits.
    const UNCLAIMED: ReplyIdOrShare = ReplyIdOrShare::of_share(PeerShare::Unclaimed);

    const fn of_reply(id: u32) -> ReplyIdOrShare {
        ReplyIdOrShare(id)
    }

    const fn of_share(share: PeerShare) -> ReplyIdOrShare {
        ReplyIdOrShare(share as u32)
    }

    /// Of a message that lies in a block.
    #[inline]
    fn of(header: &Header, message: &[u8]) -> ReplyIdOrShare {
        match header.kind {
            MessageKind::Reply | MessageKind::LocateReply => {
                ReplyIdOrShare::of_reply(reply_id(header, message))
            }
            _ => ReplyIdOrShare::UNCLAIMED,
        }
    }
}

impl Arrived {
    /// A message that was made in this process.
    pub fn of_local(message: &[u8]) -> Result<Arrived, isorb_cdr::Error> {
        let truncated = isorb_cdr::Error::new(isorb_cdr::ErrorKind::Truncated, 0);
        let header = Header::parse(message.first_chunk().ok_or(truncated)?).map_err(|_| truncated)?;
        Ok(Arrived::new(header, message.len(), ReplyIdOrShare::UNCLAIMED))
    }

    #[inline(always)]
    fn new(header: Header, len: usize, id_or_share: ReplyIdOrShare) -> Arrived {
        Arrived { header, len, id_or_share }
    }

    /// Whether the limits of its client let a request run.
    #[inline]
    pub fn share(&self) -> PeerShare {
        debug_assert!(!self.is_reply(), "replies have an id in its place");
        match self.id_or_share.0 {
            1 => PeerShare::Claimed,
            2 => PeerShare::Refused,
            _ => PeerShare::Unclaimed,
        }
    }

    /// Records whether the limits of its client let a request run.
    pub fn set_share(&mut self, share: PeerShare) {
        debug_assert!(!self.is_reply(), "replies have an id in its place");
        self.id_or_share = ReplyIdOrShare::of_share(share);
    }

    /// The id of the request that a reply answers; 0 for a malformed one.
    #[inline]
    pub fn reply_id(&self) -> u32 {
        debug_assert!(self.is_reply(), "requests have their share in its place");
        self.id_or_share.0
    }

    #[inline]
    pub fn is_reply(&self) -> bool {
        matches!(self.header.kind, MessageKind::Reply | MessageKind::LocateReply)
    }

    #[inline]
    pub fn is_reply_to(&self, id: u32) -> bool {
        self.id_or_share == ReplyIdOrShare::of_reply(id) && self.is_reply()
    }
}

/// Octets after which a thread that does not wait leaves a message that is not whole, since other
/// connections wait for the thread.
const TURN_OCTETS: usize = 512 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadError {
    /// The socket is empty, and the caller does not wait.
    WouldBlock,
    /// Nothing is whole after so many octets, and more have arrived. The caller does not wait, and
    /// others wait for it.
    TurnOver,
    /// The deadline passed.
    TimedOut,
    /// The stream ended between messages.
    End,
    /// The peer sent CloseConnection.
    ClosedInOrder,
    /// The stream broke, or ended inside a message.
    Lost,
    /// The peer sent a message that is not GIOP, or exceeds the limit.
    Protocol(ProtocolError),
    /// No block for a message of this size.
    NoMemory,
    /// The caller cannot wait for its reply: as many threads wait for others as may.
    NoSlot,
    /// No block of the lane takes this request: none is long enough, or none free. The reader's
    /// block has its first octets, so that it can be answered; the rest is discarded as it arrives.
    Refused { first: Arrived, too_long: bool },
    /// The messages of the client hold as many octets as they may, and this one cannot be answered.
    OverLimit,
    /// A message did not arrive whole in time.
    Stalled,
}

/// The octets at the start of an inbox.
enum Progress {
    /// Part of a message; more must be received.
    Incomplete,
    /// A fragment of a message that is not whole yet.
    Fragment,
    Message(Arrived),
}

pub(crate) struct Inbox {
    block: Buffer,
    /// The unread octets lie in the block from `start` to `end`; both are 0 when there are none.
    start: usize,
    end: usize,
    /// Least size of a block to receive to.
    block_size: usize,
    /// Whether the last receive got less than there was room for.
    pub emptied: bool,
    /// Made when the first fragment comes.
    assembler: Option<Box<Assembler>>,
    /// The stream's present receive time-out.
    timeout: Timeout,
    limit: usize,
    /// When the partly received message began, in nanoseconds; 0 when there is none.
    begun: u64,
    /// Whether a message has arrived in part that is not in the block: by fragments, or to be
    /// discarded.
    aside: bool,
    /// Octets of a refused request that are still to be discarded.
    unwanted: usize,
    /// Parts of the first message that lie in memory of the peer. Their rooms in the block hold
    /// nothing yet.
    lent: LentParts,
    /// Whether the pool is a lane's own. The inbox then holds a block only while it has unread
    /// octets, and a long one only when so many have arrived.
    lean: bool,
    /// Whether the inbox holds a block while it has no unread octets. In a lane it does not: the
    /// lane's thread receives into a block of its own.
    keeps_block: bool,
    /// Time from the beginning of a message to its end.
    message_timeout: Option<Duration>,
    account: Arc<BufferAccount>,
}

impl Inbox {
    pub fn new(
        pool: &Arc<BufferPool>,
        limit: usize,
        message_timeout: Option<Duration>,
        account: Arc<BufferAccount>,
    ) -> Inbox {
        Inbox {
            block: fresh_block(pool),
            start: 0,
            end: 0,
            block_size: SMALL,
            emptied: false,
            assembler: None,
            timeout: Timeout::NONE,
            limit,
            begun: 0,
            aside: false,
            unwanted: 0,
            lent: LentParts::default(),
            lean: false,
            keeps_block: true,
            message_timeout,
            account,
        }
    }

    /// Takes blocks from a lane's own pool from now on.
    pub fn use_lane(&mut self, pool: Arc<BufferPool>) {
        self.lean = true;
        self.keep_no_block();
        let limits = self.fragment_limits();
        self.assembler.get_or_insert_with(|| Box::new(Assembler::new(pool, limits)));
    }

    /// Holds a block only while there are unread octets.
    pub fn keep_no_block(&mut self) {
        self.keeps_block = false;
        if self.is_empty() {
            self.block = Buffer::unpooled(0);
        }
    }

    /// The next whole message, put at the start of `into`. Into an empty inbox it is received there
    /// directly; one of several that came together is copied there. A partly received message stays
    /// here for the next reader. Parts that the peer lends are copied there as well.
    ///
    /// # Real-time
    /// One system call for a message that arrives whole, none for one that came with another; a
    /// block is taken from the pool when the message outgrows the present one.
    #[inline(always)]
    pub fn next(
        &mut self,
        stream: &dyn Stream,
        pool: &Arc<BufferPool>,
        wait: Wait,
        deadline: Deadline,
        timeout: Timeout,
        into: &mut Buffer,
    ) -> Result<Arrived, ReadError> {
        self.next_with_lent(stream, pool, (wait, deadline, timeout), into, None)
    }

    /// As [`Inbox::next`], with the parts that the peer lends: put into `lent`, with rooms in
    /// `into` that hold nothing.
    #[inline(always)]
    pub fn next_with_lent(
        &mut self,
        stream: &dyn Stream,
        pool: &Arc<BufferPool>,
        (wait, deadline, timeout): (Wait, Deadline, Timeout),
        into: &mut Buffer,
        lent: Option<&mut LentParts>,
    ) -> Result<Arrived, ReadError> {
        let room = into.capacity();
        let mut got = None;
        if self.is_empty()
            && !self.aside
            && (self.block_size..=MAX_RETAINED_BLOCK).contains(&room)
            && (wait == Wait::No || self.timeout == timeout)
        {
            let received = stream.recv(into.bytes_mut(), wait);
            if let Ok(n) = received
                && let Some(arrived) = self.ordinary(into.bytes(), n)
            {
                self.emptied = n < room;
                return Ok(arrived);
            }
            cold_path();
            self.put_aside(pool, into, &received);
            got = Some(received);
        }
        let read = self.next_any(stream, pool, (wait, deadline, timeout), got, into);
        if !self.lent.is_empty() {
            cold_path();
            match &read {
                Ok(arrived) => self.hand_lent(stream, &mut into.bytes_mut()[..arrived.len], lent),
                // They are parts of this request alone, and its header may lie in one.
                Err(ReadError::Refused { first, .. }) => {
                    self.hand_lent(stream, &mut into.bytes_mut()[..first.len], None);
                }
                Err(_) => {}
            }
        }
        read
    }

    /// Hands the lent parts of a whole message to its reader, or fills their rooms.
    #[cold]
    fn hand_lent(&mut self, stream: &dyn Stream, message: &mut [u8], lent: Option<&mut LentParts>) {
        let parts = std::mem::take(&mut self.lent);
        match lent {
            Some(lent) => *lent = parts,
            None => parts.fill(message, stream),
        }
    }

    /// If the first `n` octets are one whole ordinary message and no more.
    #[inline(always)]
    fn ordinary(&self, bytes: &[u8], n: usize) -> Option<Arrived> {
        let message = hot(bytes.get(..n))?;
        let header = hot(Header::ordinary(hot(message.first_chunk())?))?;
        if header.total() != n || n > self.limit {
            cold_path();
            return None;
        }
        // A request's id is read with the rest of its header.
        let id_or_share = match header.kind {
            MessageKind::Reply => ReplyIdOrShare::of_reply(hot(number(&header, message, HEADER))?),
            _ => ReplyIdOrShare::UNCLAIMED,
        };
        Some(Arrived::new(header, n, id_or_share))
    }

    /// Takes over the octets that a reader received into its own block: with the block, or, in a
    /// lane, a few of them by a copy.
    #[cold]
    fn put_aside(&mut self, pool: &Arc<BufferPool>, into: &mut Buffer, received: &io::Result<usize>) {
        let octets = *received.as_ref().unwrap_or(&0);
        if !self.keeps_block && octets < LANE_SMALL {
            if octets == 0 {
                return;
            }
            if let Some(mut small) = pool.take(LANE_SMALL) {
                small.bytes_mut()[..octets].copy_from_slice(&into.bytes()[..octets]);
                self.block = small;
                return;
            }
        }
        std::mem::swap(&mut self.block, into);
    }

    /// As [`Inbox::next`], in all cases; `got` is the result of a receive into an empty block.
    #[inline(never)]
    fn next_any(
        &mut self,
        stream: &dyn Stream,
        pool: &Arc<BufferPool>,
        (wait, deadline, timeout): (Wait, Deadline, Timeout),
        mut got: Option<io::Result<usize>>,
        into: &mut Buffer,
    ) -> Result<Arrived, ReadError> {
        if wait == Wait::Block && self.timeout != timeout {
            stream.set_recv_timeout(timeout.duration()).map_err(|_| ReadError::Lost)?;
            self.timeout = timeout;
        }
        // The rest of a partly received message must arrive in time.
        let mut begun = got.is_some() || self.aside || !self.is_empty();
        // Whether the rest was looked for without waiting: mostly it is there.
        let mut looked = false;
        let mut octets = 0;
        loop {
            if let Some(got) = got.take() {
                octets += *got.as_ref().unwrap_or(&0);
                self.record(got, wait)?;
            }
            // A fragment leaves room for the next, which may be here already.
            while self.end - self.start >= HEADER {
                match self.complete(pool, wait, into)? {
                    Progress::Message(arrived) => return Ok(arrived),
                    Progress::Fragment => {}
                    Progress::Incomplete => break,
                }
            }
            if cfg!(feature = "segments") && self.take_lent(stream, wait)? {
                continue;
            }
            let wait_now =
                if begun { self.wait_for_rest(stream, wait, deadline, &mut looked)? } else { wait };
            begun = true;
            if wait == Wait::No && octets >= TURN_OCTETS {
                return Err(ReadError::TurnOver);
            }
            if self.unwanted > 0 {
                let before = self.unwanted;
                self.drop_unwanted(stream, pool, wait_now, into)?;
                octets += before - self.unwanted;
                continue;
            }
            self.make_room(pool)?;
            got = Some(stream.recv(&mut self.block.bytes_mut()[self.end..], wait_now));
        }
    }

    /// Takes the next part of the first message, if the peer lends it, and leaves room for it.
    fn take_lent(&mut self, stream: &dyn Stream, wait: Wait) -> Result<bool, ReadError> {
        let head = self.block.bytes()[self.start..self.end].first_chunk::<HEADER>();
        let Some(Ok(header)) = head.map(Header::parse) else { return Ok(false) };
        let whole = matches!(header.kind, MessageKind::Request | MessageKind::Reply);
        if !whole || header.more_fragments || self.unwanted > 0 || self.lent.is_full() {
            return Ok(false);
        }
        let (len, here) = (header.total(), self.end - self.start);
        let Some(octets) = stream.lent_ahead().map_err(|_| ReadError::Lost)? else { return Ok(false) };
        // Without room the part is received as any other octets, and refused as these.
        if octets > len.saturating_sub(here) || !self.room_for_lent(len, here + octets, wait) {
            return Ok(false);
        }
        let Some(part) = stream.take_lent().map_err(|_| ReadError::Lost)? else { return Ok(false) };
        self.end += part.octets();
        self.lent.push(here, part);
        Ok(true)
    }

    /// Makes room for the first `room` octets of the first message, which has `len`. They have
    /// arrived, though not here.
    fn room_for_lent(&mut self, len: usize, room: usize, wait: Wait) -> bool {
        if self.start > 0 {
            // The message begins the block from now on, as its reader gets it.
            self.block.bytes_mut().copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if room <= self.block.capacity() {
            return true;
        }
        if !self.lean {
            return self.grow_to(len, room, wait, true) == Growth::Grown;
        }
        self.take_lane_block(len, true) == Growth::Grown
    }

    /// Moves the first message, which has `len` octets, to a declared block of the lane.
    fn take_lane_block(&mut self, len: usize, limited: bool) -> Growth {
        let more = len.saturating_sub(self.block.capacity());
        let mut larger = None;
        let grown = self.account.arriving.growing(more, limited, || {
            larger = self.account.take(len, Wait::No);
            larger.is_some()
        });
        if let Some(larger) = larger {
            self.move_to(larger);
        }
        grown
    }

    /// Moves the unread octets to another block.
    fn move_to(&mut self, mut block: Buffer) {
        let here = self.start..self.end;
        block.bytes_mut()[..here.len()].copy_from_slice(&self.block.bytes()[here.clone()]);
        (self.block, self.start, self.end) = (block, 0, here.len());
    }

    /// Receives octets of a refused request, and no more than these, into the reader's block.
    #[cold]
    fn drop_unwanted(
        &mut self,
        stream: &dyn Stream,
        pool: &Arc<BufferPool>,
        wait: Wait,
        into: &mut Buffer,
    ) -> Result<(), ReadError> {
        if into.capacity() == 0 {
            *into = pool.take(SMALL).ok_or(ReadError::NoMemory)?;
        }
        let most = into.capacity().min(self.unwanted);
        match stream.recv(&mut into.bytes_mut()[..most], wait) {
            Ok(0) => return Err(ReadError::Lost),
            Ok(n) => self.unwanted -= n,
            failed => self.record(failed, wait)?,
        }
        if self.unwanted == 0 {
            self.arrived();
            self.update_account(now_ns());
        }
        Ok(())
    }

    /// Records the result of a receive behind the unread octets.
    fn record(&mut self, got: io::Result<usize>, wait: Wait) -> Result<(), ReadError> {
        match got {
            Ok(0) => Err(if self.is_empty() { ReadError::End } else { ReadError::Lost }),
            Ok(n) => {
                self.end += n;
                self.emptied = self.end < self.block.capacity();
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && wait == Wait::No => {
                Err(ReadError::WouldBlock)
            }
            // The next receive has the time that is left, so signals give a peer no more time.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
                ) =>
            {
                Ok(())
            }
            Err(_) => Err(ReadError::Lost),
        }
    }

    /// Moves the unread octets to the start of the block, so that as many as possible are received
    /// behind them. If several messages filled a block, the next block is larger.
    ///
    /// # Errors
    /// NoMemory when there is no block at all.
    fn make_room(&mut self, pool: &Arc<BufferPool>) -> Result<(), ReadError> {
        let kept = self.start..self.end;
        let needed = if self.lean { SMALL } else { self.block_size };
        if self.block.capacity() < needed
            && let Some(mut larger) = pool.take(needed)
        {
            larger.bytes_mut()[..kept.len()].copy_from_slice(&self.block.bytes()[kept.clone()]);
            self.block = larger;
        } else if self.start > 0 {
            self.block.bytes_mut().copy_within(kept.clone(), 0);
        }
        (self.start, self.end) = (0, kept.len());
        if self.block.capacity() == 0 {
            self.block = self.account.take(SMALL, Wait::No).ok_or(ReadError::NoMemory)?;
        }
        Ok(())
    }

    /// The receive time-out for the time until `deadline`: the present one if it is about right,
    /// since setting another costs a system call.
    pub fn timeout_for(&self, deadline: Deadline) -> Timeout {
        let left = deadline.remaining();
        match (self.timeout.duration(), left) {
            (Some(set), Some(left)) if set <= left + slack(left) && left <= set + slack(set) => self.timeout,
            _ => left.into(),
        }
    }

    /// How to receive more of a partly received message. A peer that sends piece by piece has no
    /// more time than one that sends nothing, and each message must end in time.
    #[cold]
    fn wait_for_rest(
        &mut self,
        stream: &dyn Stream,
        wait: Wait,
        deadline: Deadline,
        looked: &mut bool,
    ) -> Result<Wait, ReadError> {
        let now = now_ns();
        let since = self.update_account(now);
        if wait == Wait::No {
            return Ok(Wait::No);
        }
        let mut left = deadline.remaining();
        if left == Some(Duration::ZERO) {
            return Err(ReadError::TimedOut);
        }
        if let (Some(since), Some(limit)) = (since, self.message_timeout) {
            let limit = limit.saturating_sub(Duration::from_nanos(now.saturating_sub(since)));
            if limit.is_zero() {
                return Err(ReadError::Stalled);
            }
            left = Some(left.map_or(limit, |left| left.min(limit)));
        }
        let Some(left) = left else { return Ok(Wait::Block) };
        if self.timeout.duration().is_some_and(|set| set <= left + slack(left)) {
            return Ok(Wait::Block);
        }
        if !*looked {
            *looked = true;
            return Ok(Wait::No);
        }
        stream.set_recv_timeout(Some(left)).map_err(|_| ReadError::Lost)?;
        self.timeout = left.into();
        Ok(Wait::Block)
    }

    /// Updates the account of the blocks that partly received messages hold; returns since when.
    fn update_account(&mut self, now: u64) -> Option<u64> {
        let mut since = None;
        let (mut moved, mut held, mut counted) = (0, 0, 0);
        if !self.is_empty() {
            if self.begun == 0 {
                self.begun = now;
            }
            since = Some(self.begun);
            (moved, held) = (self.end - self.start, self.block.capacity());
            // The block may be longer than the message: it was the reader's.
            let head = self.block.bytes()[self.start..self.end].first_chunk::<HEADER>();
            let header = head.and_then(|head| Header::parse(head).ok());
            counted = header.map_or(moved, |header| header.total().min(held));
        }
        let partial = self.assembler.as_ref().and_then(|assembler| Some((assembler, assembler.oldest()?)));
        self.aside = partial.is_some() || self.unwanted > 0;
        if let Some((assembler, oldest)) = partial {
            since = Some(since.map_or(oldest, |since| since.min(oldest)));
            moved += assembler.arrived();
            held += assembler.held();
            counted += assembler.arrived();
        }
        if self.unwanted > 0 {
            since = Some(since.map_or(self.begun, |since| since.min(self.begun)));
            // Other than before, so that the peer counts as one that sends.
            moved += usize::MAX / 2 - self.unwanted;
        }
        match since {
            Some(since) => self.account.arriving.note_counted(since, now, moved, held, counted),
            None => self.account.arriving.clear(),
        }
        since
    }

    /// Drops the unread octets, and returns their blocks.
    pub fn discard(&mut self, pool: &Arc<BufferPool>) {
        let block = if self.keeps_block { fresh_block(pool) } else { Buffer::unpooled(0) };
        (self.block, self.assembler) = (block, None);
        (self.start, self.end, self.begun, self.aside, self.unwanted) = (0, 0, 0, false, 0);
        self.lent.clear();
        self.account.arriving.clear();
    }

    /// Whether there are no unread octets.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Takes the first message out if it is whole; otherwise makes room for it.
    #[inline]
    fn complete(
        &mut self,
        pool: &Arc<BufferPool>,
        wait: Wait,
        into: &mut Buffer,
    ) -> Result<Progress, ReadError> {
        let here = &self.block.bytes()[self.start..self.end];
        let header = {
            let Some(head) = here.first_chunk::<HEADER>() else { return Ok(Progress::Incomplete) };
            Header::parse(head).map_err(ReadError::Protocol)?
        };
        header.check_limit(self.limit).map_err(ReadError::Protocol)?;
        let len = header.total();
        if len > self.block.capacity() {
            let refused = if self.lean {
                self.grow_in_lane(header, len, into)?
            } else {
                self.grow(header, len, wait, into)?
            };
            if let Some(refused) = refused {
                return Ok(refused);
            }
        }
        let Some(beyond) = (self.end - self.start).checked_sub(len) else { return Ok(Progress::Incomplete) };
        // A lane's thread keeps its long block for the next messages.
        // Rooms of lent parts are not copied; with them the message begins the block.
        let copies = self.lent.is_empty()
            && (self.start > 0 || beyond > len || (self.lean && len <= into.capacity().min(LANE_SMALL)));
        let copied = if copies { len } else { beyond };
        let leaves_nothing = !copies && beyond == 0 && !self.keeps_block;
        if leaves_nothing {
            *into = std::mem::replace(&mut self.block, Buffer::unpooled(0));
            (self.start, self.end) = (0, 0);
        } else if into.capacity() < copied.max(SMALL) || into.capacity() > MAX_RETAINED_BLOCK {
            let block =
                if self.lean { self.account.take(copied, wait) } else { pool.take(copied.max(SMALL)) };
            *into = block.ok_or(ReadError::NoMemory)?;
        }
        if copies {
            let message = self.start..self.start + len;
            into.bytes_mut()[..len].copy_from_slice(&self.block.bytes()[message]);
            self.start += len;
            if !self.emptied {
                self.block_size = LARGE;
            }
        } else if !leaves_nothing {
            std::mem::swap(&mut self.block, into);
            self.block.bytes_mut()[..beyond].copy_from_slice(&into.bytes()[len..len + beyond]);
            (self.start, self.end) = (0, beyond);
        }
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
            if !self.keeps_block {
                self.block = Buffer::unpooled(0);
            }
        }
        if self.begun != 0 {
            self.arrived();
        }
        if header.more_fragments || header.kind == MessageKind::Fragment {
            return self.assemble(header, len, pool, into);
        }
        if header.kind == MessageKind::CancelRequest
            && let Some(assembler) = &mut self.assembler
            && let Some(id) = number(&header, into.bytes(), HEADER)
        {
            assembler.cancel(id);
            self.update_account(now_ns());
        }
        let id_or_share = ReplyIdOrShare::of(&header, &into.bytes()[..len]);
        Ok(Progress::Message(Arrived::new(header, len, id_or_share)))
    }

    /// Records that the partly received message is whole.
    #[cold]
    fn arrived(&mut self) {
        self.begun = 0;
        if self.aside {
            self.update_account(now_ns());
        } else {
            self.account.arriving.clear();
        }
    }

    /// Makes room for more of the first message, which has `len` octets. A long one gets addresses
    /// for all of it at once, so that it is not copied as it grows. The peer has to send octets
    /// before memory is committed for more of them. A message that may not grow is refused once the
    /// present block is full of it.
    fn grow(
        &mut self,
        header: Header,
        len: usize,
        wait: Wait,
        into: &mut Buffer,
    ) -> Result<Option<Progress>, ReadError> {
        let here = self.start..self.end;
        let full = here.len() == self.block.capacity();
        if !full && self.block.capacity() >= len.min(COMMITTED_AT_ONCE) {
            return Ok(None);
        }
        let room = len.min(COMMITTED_AT_ONCE.max(2 * here.len()));
        let limited = self.is_limited(&header, &self.block.bytes()[here]);
        match self.grow_to(len, room, wait, limited) {
            Growth::Grown => Ok(None),
            Growth::NoMemory => Err(ReadError::NoMemory),
            Growth::OverLimit if full => self.refuse_rest(header, len, into).map(Some),
            Growth::OverLimit => Ok(None),
        }
    }

    /// Makes `room` in a block with addresses for `len` octets.
    fn grow_to(&mut self, len: usize, room: usize, wait: Wait, limited: bool) -> Growth {
        let more = room.saturating_sub(self.block.capacity());
        if self.start == 0 && len <= self.block.capacity_in_place() {
            let grow = || self.account.grow(&mut self.block, room, wait);
            return self.account.arriving.growing(more, limited, grow);
        }
        let mut larger = None;
        let grown = self.account.arriving.growing(more, limited, || {
            larger = self.account.take_growing(len, room, wait);
            larger.is_some()
        });
        if let Some(larger) = larger {
            self.move_to(larger);
        }
        grown
    }

    /// Whether a message may not grow beyond its client's limit. Replies may: this side called.
    fn is_limited(&self, header: &Header, message: &[u8]) -> bool {
        let kind = match header.kind {
            MessageKind::Fragment => {
                self.assembler.as_ref().and_then(|assembler| assembler.kind(header, message))
            }
            kind => Some(kind),
        };
        !matches!(kind, Some(MessageKind::Reply | MessageKind::LocateReply))
    }

    /// The client's messages hold as many octets as they may: hands what is here of a request to
    /// the reader, which answers it. The block is full of it. The rest is discarded as it arrives.
    ///
    /// # Errors
    /// OverLimit for a message that cannot be answered.
    #[cold]
    fn refuse_rest(&mut self, header: Header, len: usize, into: &mut Buffer) -> Result<Progress, ReadError> {
        let here = self.end - self.start;
        // The block is full, so that the message begins at its start.
        std::mem::swap(&mut self.block, into);
        self.block = Buffer::unpooled(0);
        (self.start, self.end) = (0, 0);
        let refused = self.refuse_whole(header, here, into)?;
        if self.begun == 0 {
            self.begun = now_ns();
        }
        (self.unwanted, self.aside) = (len - here, true);
        Ok(refused)
    }

    /// As [`refuse_rest`](Self::refuse_rest), for a message of which `len` octets lie in `into`. Of
    /// a message in fragments, the following ones are ignored.
    fn refuse_whole(&mut self, header: Header, len: usize, into: &mut Buffer) -> Result<Progress, ReadError> {
        let by_id = header.version == Version::V1_2;
        let (header, len) = match header.kind {
            MessageKind::Request if by_id || !header.more_fragments => (header, len),
            MessageKind::Fragment if by_id => {
                let message = &into.bytes()[..len];
                match &mut self.assembler {
                    Some(assembler) if assembler.kind(&header, message).is_some() => {
                        let request = assembler.take_request(&header, message);
                        let (header, block, len) = request.ok_or(ReadError::OverLimit)?;
                        *into = block;
                        (header, len)
                    }
                    // Of a message that was refused or cancelled before.
                    _ => return Ok(Progress::Fragment),
                }
            }
            _ => return Err(ReadError::OverLimit),
        };
        let header = Header { more_fragments: false, ..header };
        let refused = ReplyIdOrShare::of_share(PeerShare::Refused);
        Ok(Progress::Message(Arrived::new(header, len, refused)))
    }

    /// Makes room for more of the first message in a declared block of the lane, once the present
    /// block is full: a client that only announces a long message holds a short block.
    ///
    /// # Errors
    /// Refused when there is no such block; the request is discarded from now on. NoMemory when the
    /// message is no request that could be answered.
    fn grow_in_lane(
        &mut self,
        header: Header,
        len: usize,
        into: &mut Buffer,
    ) -> Result<Option<Progress>, ReadError> {
        let here = self.start..self.end;
        if here.len() < self.block.capacity() {
            return Ok(None);
        }
        let limited = self.is_limited(&header, &self.block.bytes()[here.clone()]);
        match self.take_lane_block(len, limited) {
            Growth::Grown => return Ok(None),
            Growth::OverLimit => return self.refuse_rest(header, len, into).map(Some),
            Growth::NoMemory => {}
        }
        if header.kind != MessageKind::Request || header.more_fragments {
            return Err(ReadError::NoMemory);
        }
        let too_long = len > self.account.pool().largest();
        // The block is full of this message, so that it begins at its start.
        std::mem::swap(&mut self.block, into);
        self.block = Buffer::unpooled(0);
        (self.start, self.end) = (0, 0);
        if self.begun == 0 {
            self.begun = now_ns();
        }
        (self.unwanted, self.aside) = (len - here.len(), true);
        let first = Arrived::new(header, here.len(), ReplyIdOrShare::UNCLAIMED);
        Err(ReadError::Refused { first, too_long })
    }

    fn fragment_limits(&self) -> fragment::Limits {
        fragment::Limits { message: self.limit, bytes: 2 * self.limit, messages: PARTIAL }
    }

    #[cold]
    fn assemble(
        &mut self,
        header: Header,
        len: usize,
        pool: &Arc<BufferPool>,
        into: &mut Buffer,
    ) -> Result<Progress, ReadError> {
        let limits = self.fragment_limits();
        // The assembler takes blocks of its own.
        self.account.evict();
        let now = now_ns();
        // Until the account is updated.
        let limited = self.is_limited(&header, &into.bytes()[..len]);
        if self.account.arriving.growing(len, limited, || true) == Growth::OverLimit {
            let refused = self.refuse_whole(header, len, into);
            self.update_account(now);
            return refused;
        }
        let assembler = self.assembler.get_or_insert_with(|| Box::new(Assembler::new(pool.clone(), limits)));
        assembler.set_time(now);
        let pushed = assembler.push(&header, &into.bytes()[..len]).map_err(ReadError::Protocol)?;
        let (header, block, len) = match pushed {
            Assembled::Complete(header, buffer) => (header, buffer, header.total()),
            Assembled::Whole | Assembled::Pending | Assembled::Ignored => {
                self.update_account(now);
                return Ok(Progress::Fragment);
            }
        };
        self.update_account(now);
        *into = block;
        let id_or_share = ReplyIdOrShare::of(&header, &into.bytes()[..len]);
        Ok(Progress::Message(Arrived::new(header, len, id_or_share)))
    }
}

#[inline(always)]
fn number(header: &Header, message: &[u8], at: usize) -> Option<u32> {
    let bytes = *message.get(at..)?.first_chunk::<4>()?;
    Some(if header.order == Order::Little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
}

/// How much longer than necessary a receive may wait.
fn slack(left: Duration) -> Duration {
    left / 64 + Duration::from_millis(1)
}

/// The id of the request that a reply answers; 0 for a malformed one, which the reader detects.
fn reply_id(header: &Header, message: &[u8]) -> u32 {
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

/// A small block; if the pool has none, one from the heap, or none of a lane's own pool.
pub(crate) fn fresh_block(pool: &Arc<BufferPool>) -> Buffer {
    pool.take(SMALL).unwrap_or_else(|| Buffer::unpooled(if pool.is_reserved() { 0 } else { SMALL }))
}

#[cfg(test)]
mod tests;
