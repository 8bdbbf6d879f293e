//! Registrations: the events that a consumer receives together.
//!
//! Each term of a registration holds the newest event that matched it. When the held events satisfy
//! the registration they are pushed together, and their terms are empty again. Other terms of a
//! disjunction keep their events. Registrations are independent: a push never clears the events of
//! another registration.

use crate::batch::{Batch, LastEvent, StoredEvent};
use crate::connection::Connection;
use crate::event::{Header, NoCopy};
use crate::filter::{Compiled, Filter, Pattern, TimerLeaf};
use isorb_rt::sync::PiMutex;
use isorb_rt::timers::TimerHandle;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

pub(crate) struct Registration {
    connection: Arc<Connection>,
    compiled: Compiled,
    state: PiMutex<State>,
    /// When it was last satisfied, for its deadline timers; 0 if it has none.
    satisfied: AtomicU64,
    has_deadline: bool,
    /// Its timer checks the consumer's instances.
    checks_instances: bool,
    /// Its armed timers, by leaf.
    pub timers: PiMutex<Vec<(usize, TimerHandle)>>,
}

struct State {
    /// The event of each term, and its order of arrival.
    held: Box<[Option<(u64, StoredEvent)>]>,
    /// A bit for each term that holds an event.
    bits: u32,
    order: u64,
}

impl Registration {
    pub(crate) fn new(connection: Arc<Connection>, compiled: Compiled) -> Registration {
        let terms = if compiled.plain { 0 } else { compiled.leaves.len() };
        let has_deadline = compiled.leaves.iter().any(|leaf| leaf.timer.is_some_and(|timer| timer.deadline));
        Registration {
            connection,
            state: PiMutex::new(State { held: (0..terms).map(|_| None).collect(), bits: 0, order: 0 }),
            satisfied: AtomicU64::new(0),
            has_deadline,
            checks_instances: false,
            timers: PiMutex::new(Vec::new()),
            compiled,
        }
    }

    /// A registration without events, of which the timer checks the consumer's instances.
    pub(crate) fn checking(connection: Arc<Connection>, period: Duration) -> Option<Registration> {
        let interval = (period / 4).max(Duration::from_micros(1));
        let compiled = Compiled::new(&Filter::interval(interval)).ok()?;
        Some(Registration { checks_instances: true, ..Registration::new(connection, compiled) })
    }

    pub(crate) fn checks_instances(&self) -> bool {
        self.checks_instances
    }

    #[inline]
    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Returns true if each matching event is a push of its own.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.compiled.plain
    }

    pub(crate) fn patterns(&self) -> impl Iterator<Item = (usize, Pattern)> {
        self.compiled.patterns()
    }

    pub(crate) fn is_certain(&self, leaf: usize) -> bool {
        self.compiled.is_certain(leaf)
    }

    /// See [`Compiled::is_first`].
    pub(crate) fn is_first(&self, leaf: usize, header: &Header) -> bool {
        self.compiled.is_first(leaf, header)
    }

    /// Returns true if this event alone is a push.
    pub(crate) fn is_met_by(&self, header: &Header) -> bool {
        self.compiled.plain && self.compiled.leaves.iter().any(|leaf| leaf.test.matches(header))
    }

    pub(crate) fn timer_leaves(&self) -> impl Iterator<Item = (usize, TimerLeaf)> {
        self.compiled.leaves.iter().enumerate().filter_map(|(i, leaf)| Some((i, leaf.timer?)))
    }

    pub(crate) fn timer(&self, leaf: usize) -> Option<TimerLeaf> {
        self.compiled.leaves.get(leaf)?.timer
    }

    /// Returns true if it has a deadline timer.
    #[inline]
    pub(crate) fn has_deadline(&self) -> bool {
        self.has_deadline
    }

    pub(crate) fn satisfied_at(&self) -> u64 {
        self.satisfied.load(Relaxed)
    }

    #[inline]
    pub(crate) fn set_satisfied(&self, now: u64) {
        self.satisfied.store(now, Relaxed);
    }

    /// Offers an event, or the time-out of a term. Returns the batch if that satisfies the
    /// registration.
    ///
    /// # Errors
    /// [`NoCopy`]: the event had to be kept and could not be copied.
    ///
    /// # Real-time
    /// Does not allocate. Takes the registration's lock; O(terms).
    pub(crate) fn offer<'c, 'e>(
        &self,
        last: LastEvent<'c, 'e>,
        term: Option<usize>,
    ) -> Result<Option<Batch<'c, 'e>>, NoCopy> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let fresh = match (last, term) {
            (LastEvent::Event(current), _) => {
                let leaves = self.compiled.leaves.iter().enumerate();
                let matching = leaves.filter(|(_, leaf)| leaf.test.matches(&current.event.header));
                matching.fold(0, |bits, (i, _)| bits | bit(i))
            }
            (LastEvent::Timer(_), term) => term.map_or(0, bit),
        };
        let bits = state.bits | fresh;
        let held = |leaf: usize| bits & bit(leaf) != 0;
        let mut taken = 0;
        if self.compiled.root.satisfied(&held) {
            self.compiled.root.harvest(&held, &mut |leaf| taken |= bit(leaf));
        }
        let stays = fresh & !taken;
        if stays != 0 {
            let item = match last {
                LastEvent::Event(current) => StoredEvent::Copy(current.keep()?),
                LastEvent::Timer(header) => StoredEvent::Timer(header),
            };
            state.order += 1;
            for leaf in leaves(stays) {
                state.held[leaf] = Some((state.order, item.clone()));
            }
        }
        state.bits = bits & !taken;
        if taken == 0 {
            return Ok(None);
        }
        let mut batch = Batch::of(last);
        if taken & fresh == 0 {
            batch.last = None;
        }
        state.gather(taken, fresh, &mut batch);
        Ok(Some(batch))
    }

    /// Drops the events of all terms.
    pub(crate) fn clear(&self) {
        let mut state = self.state.lock();
        state.bits = 0;
        state.held.iter_mut().for_each(|held| *held = None);
    }
}

impl State {
    /// Moves the events of the taken terms into the batch, in order of arrival, each event once.
    fn gather(&mut self, taken: u32, fresh: u32, batch: &mut Batch<'_, '_>) {
        // The newest event replaces the earlier event of its term.
        leaves(taken & fresh).for_each(|leaf| self.held[leaf] = None);
        let mut left = taken & !fresh;
        let mut count = 0;
        while left != 0 {
            let order = |leaf: &usize| self.held[*leaf].as_ref().map_or(u64::MAX, |(order, _)| *order);
            let Some(oldest) = leaves(left).min_by_key(order) else {
                return;
            };
            left &= !bit(oldest);
            let Some((_, item)) = self.held[oldest].take() else {
                continue;
            };
            let known = count > 0 && batch.held[count - 1].as_ref().is_some_and(|before| before.is(&item));
            if !known {
                batch.held[count] = Some(item);
                count += 1;
            }
        }
    }
}

fn bit(leaf: usize) -> u32 {
    1 << leaf
}

fn leaves(mut bits: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let leaf = bits.trailing_zeros();
        (bits != 0).then(|| {
            bits &= bits - 1;
            leaf as usize
        })
    })
}
