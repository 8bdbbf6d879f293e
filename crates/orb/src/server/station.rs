//! What makes a lane one of a thread pool: its own door, its threads, their priority, and what happens when all are busy.
//!
//! ```text
//!   poller ─► a thread reads the request, lets others read on ─► threads: a place? ─► runs it, then what was kept meanwhile
//!                                                                  └ none: grow, borrow, keep, refuse or wait
//! ```
//!
//! Requests to groups come in from whoever hears the group ([`Station::post`]), and go the same way from there.

use super::endpoint::{came_in, is_of_peer};
use super::lane::{Lane, Member};
use super::parcel::{Caller, Parcel};
use super::posted::Posted;
use super::thread_lane::{Admission, Buffering, ThreadLane};
use super::{Next, guarded, on_message};
use crate::connection::Arrived;
use crate::rt::{Setup, ThreadPlan, prepare, thread};
use crate::workspace::{Memory, Work};
use crate::{Orb, Result, SystemException};
use isorb_giop::{Completion, Kind, minor};
use isorb_rt::sched::SpawnError;
use isorb_rt::sync::{PiMutex, Turn};
use isorb_rt::time::Deadline;
use isorb_scope::{Buffer, BufferPool};
use isorb_transport::{Listener, Wait};
use std::cell::Cell;
use std::io::ErrorKind;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The pool's side of a lane.
pub(crate) struct Station {
    pub threads: ThreadLane<Parcel>,
    /// Where its clients connect.
    doors: Vec<Door>,
    accepting: Turn,
    /// Less urgent lanes that lend to this one, the nearest first.
    lenders: Vec<Arc<Lane>>,
    plan: ThreadPlan,
    memory: Memory,
    idle_timeout: Duration,
    max_connections: usize,
    /// What the sockets of its clients are told, where a POA's server protocol policy says anything.
    setup: OnceLock<Setup>,
    /// Blocks for requests to be kept in.
    spare: PiMutex<Vec<Buffer>>,
    posted: Posted<Parcel>,
}

/// Where clients connect by one transport.
pub(crate) struct Door {
    pub listener: Box<dyn Listener>,
    /// The transport's profile tag.
    pub tag: u32,
}

/// What a station is made of.
pub(crate) struct Blueprint {
    pub threads: ThreadLane<Parcel>,
    pub doors: Vec<Door>,
    pub lenders: Vec<Arc<Lane>>,
    pub plan: ThreadPlan,
    pub memory: Memory,
    pub idle_timeout: Duration,
    pub max_connections: usize,
}

/// Blocks that are made beforehand for a lane that keeps requests, at most.
const MOST_SPARE: usize = 64;
const SPARE_BYTES: usize = 4096;

/// Requests to groups that a lane has waiting, at most.
const MOST_POSTED: usize = if cfg!(feature = "miop") { 64 } else { 0 };

/// A request's place in the threads; given back also when the request ends in a panic.
struct Place<'s> {
    station: &'s Station,
    held: Cell<bool>,
}

impl<'s> Place<'s> {
    fn of(station: &'s Station) -> Place<'s> {
        Place { station, held: Cell::new(true) }
    }

    /// The upcall is over and its reply is about to be sent. Its client may call again before this thread is back, and must not find
    /// the lane busy with a request that was answered.
    fn answering(&self) {
        if self.held.get() && self.station.threads.release_unless_buffered() {
            self.held.set(false);
        }
    }

    /// The next of those that were kept, in the same place.
    fn next(&self) -> Option<Parcel> {
        if !self.held.get() {
            return None;
        }
        let next = self.station.threads.next();
        self.held.set(next.is_some());
        next
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.held.get() {
            self.station.threads.release();
        }
    }
}

impl Station {
    pub fn new(blueprint: Blueprint) -> Station {
        let Blueprint { threads, doors, lenders, plan, memory, idle_timeout, max_connections } = blueprint;
        let spare = threads.config().buffer.map_or(0, |limits| limits.requests.min(MOST_SPARE));
        let spare = (0..spare).map(|_| Buffer::unpooled(SPARE_BYTES)).collect();
        let (accepting, spare) = (Turn::new(), PiMutex::new(spare));
        let (setup, posted) = (OnceLock::new(), Posted::new(MOST_POSTED));
        Station {
            threads,
            doors,
            accepting,
            lenders,
            plan,
            memory,
            idle_timeout,
            max_connections,
            setup,
            spare,
            posted,
        }
    }

    pub fn doors(&self) -> &[Door] {
        &self.doors
    }

    /// What the sockets of those who connect from now on are told. The first POA that says anything is heard.
    pub fn set_up(&self, setup: Setup) {
        let _ = self.setup.set(setup);
    }

    /// The memory of a thread of the lane, made before its first request.
    pub fn work(&self, pool: &Arc<BufferPool>) -> Work {
        crate::poa::warm_up();
        crate::workspace::warm_up(pool);
        Work::with_memory(pool, self.memory)
    }

    /// Whether several threads may be busy with one connection, so that a request is not run before others can read on.
    pub fn shares(&self) -> bool {
        let rules = self.threads.config();
        rules.counts_permits() || rules.static_threads > 1
    }

    /// How long an idle thread waits.
    pub fn patience(&self) -> Deadline {
        match self.threads.config().dynamic_threads {
            0 => Deadline::NONE,
            _ => Deadline::after(self.idle_timeout),
        }
    }

    /// Starts a thread of the lane.
    pub fn staff(&self, lane: &Arc<Lane>, orb: &Orb) -> Result<(), SpawnError> {
        let (lane, orb, plan) = (lane.clone(), orb.clone(), self.plan.clone());
        self.plan.spec().spawn(move || {
            thread::started_at(plan.pool, plan.priority, plan.class);
            lane.run(&orb);
        })?;
        Ok(())
    }

    /// Takes in those who connect; one thread at a time, others leave it to that one.
    pub fn accept(&self, lane: &Lane, orb: &Orb) {
        if !self.accepting.take() {
            return;
        }
        loop {
            // All of them are tried: each that comes is an event, and says not where.
            let all = self.doors.iter().map(|door| self.accept_at(door, lane, orb));
            let failed = all.fold(false, |failed, fails| failed | fails);
            if failed {
                // A connection of the lane that ends, the next to connect, or the time brings a thread here again.
                while !self.accepting.pass() {}
                if !self.threads.is_closed() {
                    lane.leave_waiting();
                }
                return;
            }
            if self.accepting.pass() {
                return;
            }
        }
    }

    /// Takes in those who wait at a door; whether it was left before they were all in.
    fn accept_at(&self, door: &Door, lane: &Lane, orb: &Orb) -> bool {
        loop {
            match door.listener.accept(Wait::No) {
                Ok(stream) => {
                    if let Some(setup) = self.setup.get()
                        && let Err(exception) = prepare(&*stream, door.tag, setup)
                    {
                        crate::log::note(format_args!(
                            "{}: turned away by a lane: {exception}",
                            stream.peer()
                        ));
                        continue;
                    }
                    let connection = Arc::new(came_in(orb, door.tag, stream));
                    let full = !lane.has_room(orb, self.max_connections)
                        || !orb.accepted().admit(&connection, usize::MAX);
                    if full || self.threads.is_closed() || lane.add(connection.clone()).is_err() {
                        crate::log::note(format_args!("{}: turned away by a lane", connection.peer()));
                        connection.close();
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                // What is closed may go on to say that whoever comes is turned away.
                Err(error) if is_of_peer(&error) && !self.threads.is_closed() => {
                    crate::log::note(format_args!("accept: {error}"));
                }
                Err(error) => {
                    if !self.threads.is_closed() {
                        crate::log::note(format_args!("accept: {error}"));
                    }
                    return true;
                }
            }
        }
    }

    /// Runs a request that lies in `work.block`, or sees to it that another thread does, or refuses it.
    pub fn serve(&self, lane: &Arc<Lane>, orb: &Orb, caller: Caller<'_>, arrived: Arrived, work: &mut Work) {
        if !self.threads.config().counts_permits() {
            run(orb, caller, arrived, work, None);
            return;
        }
        let admitted = match self.threads.admit() {
            Admission::Run => true,
            Admission::RunAndGrow => self.grow(lane, orb),
            Admission::Full => false,
            Admission::Closed => return,
        };
        if !admitted {
            if self.borrow(orb, caller, arrived, work) {
                return;
            }
            // Before the lock of the threads is taken, since locks of POAs are.
            let urgency = match self.threads.config().buffer {
                Some(_) => super::dispatch::urgency_of(orb, arrived, work),
                None => None,
            };
            let parcel = |block: &mut Buffer| self.parcel(orb, caller, arrived, block, None);
            match self.threads.buffer(arrived.len, urgency, || parcel(&mut work.block)) {
                Buffering::Buffered => return,
                Buffering::Overflow => {
                    refuse(orb, caller, arrived, work);
                    return;
                }
                Buffering::Run => {}
                Buffering::NoBuffer => {
                    if !self.threads.wait_for_permit() {
                        return;
                    }
                }
            }
        }
        let place = Place::of(self);
        run(orb, caller, arrived, work, Some(&place));
        while let Some(parcel) = place.next() {
            self.unpack(orb, parcel, work, &place);
        }
    }

    fn grow(&self, lane: &Arc<Lane>, orb: &Orb) -> bool {
        match self.staff(lane, orb) {
            Ok(()) => true,
            Err(error) => {
                crate::log::note(format_args!("no dynamic thread: {error}"));
                self.threads.abandon_growth();
                false
            }
        }
    }

    /// Has a thread of a less urgent lane run the request.
    fn borrow(&self, orb: &Orb, caller: Caller<'_>, arrived: Arrived, work: &mut Work) -> bool {
        self.lenders.iter().any(|lender| {
            let Some(station) = lender.station() else { return false };
            let plan = Some(self.plan.clone());
            let lent = station.threads.borrow_thread(
                || self.parcel(orb, caller, arrived, &mut work.block, plan),
                |thread| {
                    // Refused means that the thread comes later, at its own priority, and raises itself.
                    let _ = thread.set_class(self.plan.class);
                },
            );
            if lent {
                lender.wake();
            }
            lent
        })
    }

    /// Has a thread of the lane run a request to a group that lies in `block`, which is another one then. `false` where too many wait
    /// already: it is lost.
    ///
    /// # Real-time
    /// Two PI locks and a system call; a block from the pool.
    #[cfg(feature = "miop")]
    pub fn post(
        &self,
        lane: &Lane,
        orb: &Orb,
        (text, urgency): (isorb_cdr::Text, Option<isorb_rt::priority::Priority>),
        arrived: Arrived,
        block: &mut Buffer,
    ) -> bool {
        let kept = self.posted.put(urgency, || self.parcel(orb, Caller::Group(text), arrived, block, None));
        if kept {
            lane.wake();
        }
        kept
    }

    /// Something to do for a more urgent lane, or for a group.
    pub fn errand(&self, lane: &Arc<Lane>, orb: &Orb, work: &mut Work, raised: bool) {
        let (errand, more) = self.threads.borrowed_request();
        let Some(parcel) = errand else {
            if raised {
                self.back_to_own_priority();
            }
            let posted = self.posted.take();
            if !self.posted.is_empty() {
                lane.wake();
            }
            if let Some(Parcel { sender, arrived, block, .. }) = posted {
                self.take_block(block, work);
                self.serve(lane, orb, sender.as_caller(), arrived, work);
            }
            return;
        };
        if more || !self.posted.is_empty() {
            lane.wake();
        }
        if let Some(plan) = &parcel.plan {
            thread::become_of(plan.priority, plan.class);
        }
        let place = Place::of(self);
        self.unpack(orb, parcel, work, &place);
        self.back_to_own_priority();
        // In the lent place, those that this lane kept meanwhile.
        while let Some(parcel) = place.next() {
            self.unpack(orb, parcel, work, &place);
        }
    }

    /// After the thread was raised by a lane that borrows.
    pub fn back_to_own_priority(&self) {
        thread::become_of(self.plan.priority, self.plan.class);
    }

    /// Takes a request out of a thread's block, which gets an empty one instead.
    fn parcel(
        &self,
        orb: &Orb,
        caller: Caller<'_>,
        arrived: Arrived,
        block: &mut Buffer,
        plan: Option<ThreadPlan>,
    ) -> Parcel {
        let spare = self.spare.lock().pop();
        let empty =
            spare.or_else(|| orb.pool().take(SPARE_BYTES)).unwrap_or_else(|| Buffer::unpooled(SPARE_BYTES));
        let block = std::mem::replace(block, empty);
        Parcel { sender: caller.keep(), arrived, block, plan }
    }

    fn unpack(&self, orb: &Orb, parcel: Parcel, work: &mut Work, place: &Place<'_>) {
        let Parcel { sender, arrived, block, .. } = parcel;
        self.take_block(block, work);
        run(orb, sender.as_caller(), arrived, work, Some(place));
    }

    /// Makes a block the thread's own; the one that it had may serve another request.
    fn take_block(&self, block: Buffer, work: &mut Work) {
        let empty = std::mem::replace(&mut work.block, block);
        let mut spare = self.spare.lock();
        if spare.len() < spare.capacity() {
            spare.push(empty);
        }
    }
}

/// Runs a request and sends its reply. What goes wrong ends the connection, whose event then ends its membership.
fn run(orb: &Orb, caller: Caller<'_>, arrived: Arrived, work: &mut Work, place: Option<&Place<'_>>) {
    match caller {
        Caller::Member(member) => run_of(member, orb, arrived, work, place),
        #[cfg(feature = "miop")]
        Caller::Group(text) => super::group::run(orb, text, arrived, work),
    }
}

#[inline(always)]
fn run_of(member: &Member, orb: &Orb, arrived: Arrived, work: &mut Work, place: Option<&Place<'_>>) {
    let connection = member.connection();
    let mut send = |message: &isorb_cdr::Message<'_>| {
        if let Some(place) = place {
            place.answering();
        }
        member.send(message);
    };
    let next = guarded(|| on_message(orb, connection, arrived, work, &mut send));
    if next == Next::Close {
        connection.break_off();
    }
    work.trim();
}

/// The buffer is full.
#[cold]
fn refuse(orb: &Orb, caller: Caller<'_>, arrived: Arrived, work: &mut Work) {
    match caller {
        Caller::Member(member) => refuse_of(member, orb, arrived, work),
        #[cfg(feature = "miop")]
        Caller::Group(_) => orb.transports().groups().counts.overrun(),
    }
}

fn refuse_of(member: &Member, orb: &Orb, arrived: Arrived, work: &mut Work) {
    let full = SystemException::new(Kind::Transient, minor::TRANSIENT_DISCARDED, Completion::No)
        .detail("the lane's threads are busy and its request buffer is full");
    let connection = member.connection();
    let mut send = |message: &isorb_cdr::Message<'_>| member.send(message);
    if super::dispatch::turn_away(orb, connection, arrived, work, &full, &mut send).is_err() {
        connection.break_off();
    }
}
