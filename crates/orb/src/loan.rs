//! Loans: arguments and results that a program fills where the peer reads them.
//!
//! A loan lies in the arena of one connection. The reply to a request goes over the connection of
//! the request. A call that has a loan among its arguments must go over that of the loan. Which one
//! that is shows when the arguments are written: a long slice that they lend lies in a loan. So a
//! call that chose another connection writes its arguments again, and no other call does.
//!
//! ```text
//!   loan ──► connection of the target, its arena          register: loan, connection
//!   call ──► message ──► slice in the register? ──► that connection, or an exception
//! ```

use crate::connection::Connection;
use crate::{Orb, Reference, Result, SystemException, Upcall};
use isorb_cdr::{LEND_FROM, Message, Plain};
use isorb_giop::{Completion, Kind};
use isorb_rt::sync::PiMutex;
use isorb_transport::{ArenaCounts, LoanError};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use zerocopy::FromBytes;

/// Elements in memory that one peer can read, from [`Orb::loan`] or [`Upcall::loan`].
///
/// It derefs to a slice. Where that slice, or a long part of it, is an argument of a call to the
/// peer or the result of its request, this side copies nothing. The peer copies it out of the
/// memory once, into its own message, or reads it there ([`Lent`](crate::Lent)).
pub struct Loan<T> {
    octets: isorb_transport::Loan,
    connection: Arc<Connection>,
    of: PhantomData<T>,
}

/// The loans of the process. Few programs have any, and then each has few.
#[derive(Default)]
struct Register {
    loans: Vec<(Range<usize>, Weak<Connection>)>,
}

static REGISTER: PiMutex<Register> = PiMutex::new(Register { loans: Vec::new() });
/// How many it has, read in each call.
static LOANS: AtomicUsize = AtomicUsize::new(0);

/// Whether the process has loans.
#[inline(always)]
pub(crate) fn any() -> bool {
    LOANS.load(Ordering::Relaxed) != 0
}

/// The connection of the loan in a message; `None` for ordinary messages.
///
/// # Errors
/// BAD_PARAM for loans of two connections.
#[cold]
pub(crate) fn connection_of(message: &Message<'_>) -> Result<Option<Arc<Connection>>> {
    let long = message.pieces().any(|piece| piece.len() >= LEND_FROM);
    if long { find(message.pieces()) } else { Ok(None) }
}

fn find<'p>(pieces: impl Iterator<Item = &'p [u8]>) -> Result<Option<Arc<Connection>>> {
    let mut found: Option<Arc<Connection>> = None;
    let register = REGISTER.lock();
    for piece in pieces.filter(|piece| piece.len() >= LEND_FROM) {
        let at = piece.as_ptr().addr();
        let Some((_, connection)) = register.loans.iter().find(|(range, _)| range.contains(&at)) else {
            continue;
        };
        // The loan keeps its connection.
        let Some(connection) = connection.upgrade() else { continue };
        if found.as_ref().is_some_and(|other| !Arc::ptr_eq(other, &connection)) {
            return Err(elsewhere("the arguments have loans of two connections"));
        }
        found = Some(connection);
    }
    Ok(found)
}

/// The exception of a call that cannot use the loan among its arguments.
#[cold]
pub(crate) fn elsewhere(why: &str) -> SystemException {
    SystemException::from(Kind::BadParam)
        .detail(format!("{why}; make the loan for the reference that is called, or pass a copy"))
        .completed(Completion::No)
}

impl Orb {
    /// Lends memory for `n` elements that the server of `target` can read. The program fills it and
    /// passes it as an argument of calls to `target`, which then do not copy it. The server must be
    /// on this host and be called over segments (`segment:`), with an arena on both sides
    /// (`segment_arena_bytes`).
    ///
    /// A loan never falls back to copying in silence: where it cannot be used, this method or the
    /// call fails.
    ///
    /// ```no_run
    /// # fn call(orb: &isorb::Orb, camera: &isorb::Object, frame_to: impl Fn(&[u8])) -> isorb::Result<()> {
    /// let mut frame = orb.loan::<u8>(camera, 1 << 20)?;
    /// if let Some(octets) = frame.get_mut() {
    ///     octets.fill(7);
    /// }
    /// frame_to(&frame); // a call of the generated reference, such as `camera.feed(&frame)`
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// - BAD_PARAM for less than 4 KiB, which travels in the message itself.
    /// - NO_RESOURCES where the connection has no arena, and where other loans and messages that
    ///   the server has not read yet occupy it.
    /// - IMP_LIMIT for more than the whole arena.
    /// - NO_MEMORY when the system has none.
    /// - What connecting to the server gives.
    ///
    /// # Real-time
    /// Connects to the server if no connection is open. Else PI locks for short sections. Memory of
    /// the arena that is used for the first time costs a system call. Allocates when the process
    /// has more loans than ever before.
    pub fn loan<T: Plain>(&self, target: &impl Reference, n: usize) -> Result<Loan<T>> {
        let octets = octets_of::<T>(n)?;
        match target.object().lease()? {
            Some(lease) => lend(&lease, octets),
            None => Err(no_arena("the object is in this process or is a group")),
        }
    }

    /// The arenas of the open connections together, in which this ORB lends to its peers, and what
    /// it reads in those of the peers.
    ///
    /// # Real-time
    /// Allocates; locks each arena for a short section.
    pub fn arena_counts(&self) -> ArenaCounts {
        let mut sum = ArenaCounts::default();
        let mut add = |connection: &Arc<Connection>| {
            let Some(arena) = connection.stream().arena().filter(|_| connection.is_open()) else { return };
            let counts = arena.counts();
            sum.capacity += counts.capacity;
            sum.committed += counts.committed;
            sum.in_use += counts.in_use;
            sum.sent += counts.sent;
            sum.refused += counts.refused;
            sum.copied += counts.copied;
            sum.read_in_place += counts.read_in_place;
            sum.held += counts.held;
        };
        self.peers().for_each_connection(&mut add);
        self.accepted().all().iter().for_each(&mut add);
        sum
    }
}

impl Upcall<'_> {
    /// Lends memory for `n` elements that the client of this request can read, for a result:
    /// `Ok(cx.keep(loan)?)` sends the loan from where it lies. As with [`Orb::loan`], the request
    /// must have come over segments, with an arena on both sides.
    ///
    /// A lane does not wait for a client that does not read its replies. It copies what it keeps
    /// for such a client, counts that ([`Orb::arena_counts`]) and logs it once.
    ///
    /// # Errors
    /// As [`Orb::loan`]; NO_RESOURCES for a request that came over no connection.
    ///
    /// # Real-time
    /// PI locks for short sections. Memory of the arena that is used for the first time costs a
    /// system call. Allocates when the process has more loans than ever before.
    pub fn loan<T: Plain>(self, n: usize) -> Result<Loan<T>> {
        let octets = octets_of::<T>(n)?;
        match self.connection() {
            Some(connection) => lend(connection, octets),
            None => Err(no_arena("the request came over no connection")),
        }
    }
}

/// The octets of a loan.
fn octets_of<T>(n: usize) -> Result<usize> {
    let octets = n.checked_mul(size_of::<T>()).ok_or(Kind::ImpLimit)?;
    if octets < LEND_FROM {
        return Err(SystemException::from(Kind::BadParam).detail(format!(
            "a loan of {octets} octets: sequences of less than {LEND_FROM} octets travel in the message"
        )));
    }
    Ok(octets)
}

fn lend<T: Plain>(connection: &Arc<Connection>, octets: usize) -> Result<Loan<T>> {
    let Some(arena) = connection.stream().arena() else {
        return Err(no_arena(&format!(
            "the connection to {} has no arena: it takes segments, and segment_arena_bytes on both sides",
            connection.peer()
        )));
    };
    let octets = arena.loan(octets).map_err(refused)?;
    let range = octets.as_ptr_range();
    let entry = (range.start.addr()..range.end.addr(), Arc::downgrade(connection));
    REGISTER.lock().loans.push(entry);
    LOANS.fetch_add(1, Ordering::Relaxed);
    Ok(Loan { octets, connection: connection.clone(), of: PhantomData })
}

fn no_arena(why: &str) -> SystemException {
    SystemException::from(Kind::NoResources).detail(format!("no loan: {why}"))
}

fn refused(error: LoanError) -> SystemException {
    let kind = match error {
        LoanError::TooLong { .. } => Kind::ImpLimit,
        LoanError::Full { .. } => Kind::NoResources,
        LoanError::NoMemory { .. } => Kind::NoMemory,
    };
    SystemException::from(kind).detail(error.to_string())
}

impl<T: Plain> Loan<T> {
    /// The elements, to be filled; `None` while the server may still read them. At first they hold
    /// zeros, or octets of an earlier message to the same server.
    ///
    /// # Real-time
    /// One PI lock for a short section.
    pub fn get_mut(&mut self) -> Option<&mut [T]> {
        // Always: a loan has whole elements, and begins at a cache line.
        <[T]>::mut_from_bytes(self.octets.octets_mut()?).ok()
    }

    /// Whether the server may still read the elements: a oneway call returns before it has.
    ///
    /// # Real-time
    /// One PI lock for a short section.
    pub fn is_sent(&self) -> bool {
        self.octets.is_sent()
    }
}

impl<T: Plain> Deref for Loan<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // Always, as in `get_mut`.
        <[T]>::ref_from_bytes(&self.octets).unwrap_or_default()
    }
}

impl<T> Drop for Loan<T> {
    fn drop(&mut self) {
        let start = self.octets.as_ptr().addr();
        let mut register = REGISTER.lock();
        if let Some(i) = register.loans.iter().position(|(range, _)| range.start == start) {
            register.loans.swap_remove(i);
            LOANS.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl<T> fmt::Debug for Loan<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Loan({} octets, {})", self.octets.len(), self.connection.peer())
    }
}
