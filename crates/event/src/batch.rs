//! The events of one push.

use crate::event::{CurrentEvent, Event, EventCopy, Header, NoCopy};
use crate::filter::MAX_TERMS;
use isorb_rt::counted::{CountedPool, Unique};

/// An event that is kept after the push that brought it.
#[derive(Clone)]
pub(crate) enum StoredEvent {
    Copy(EventCopy),
    Timer(Header),
}

impl StoredEvent {
    fn event(&self) -> Event<'_> {
        match self {
            StoredEvent::Copy(kept) => kept.event(),
            StoredEvent::Timer(header) => Event { header: *header, ..Event::default() },
        }
    }

    fn expires(&self) -> u64 {
        match self {
            StoredEvent::Copy(kept) => kept.expires(),
            StoredEvent::Timer(_) => 0,
        }
    }

    pub(crate) fn is(&self, other: &StoredEvent) -> bool {
        matches!((self, other), (StoredEvent::Copy(a), StoredEvent::Copy(b)) if EventCopy::same(a, b))
    }
}

/// The newest event, which completed the batch.
#[derive(Clone, Copy)]
pub(crate) enum LastEvent<'c, 'e> {
    Event(&'c CurrentEvent<'e>),
    Timer(Header),
}

/// The events that satisfied a registration, in order of arrival.
pub(crate) struct Batch<'c, 'e> {
    /// The earlier events, filled from the front.
    pub held: [Option<StoredEvent>; MAX_TERMS],
    pub last: Option<LastEvent<'c, 'e>>,
}

impl<'c, 'e> Batch<'c, 'e> {
    pub(crate) fn of(last: LastEvent<'c, 'e>) -> Self {
        Batch { held: [const { None }; MAX_TERMS], last: Some(last) }
    }

    /// Calls `f` with the events in a slice on the stack.
    pub(crate) fn with_events<R>(&self, f: impl FnOnce(&[Event<'_>]) -> R) -> R {
        let held = self.held.iter().map_while(Option::as_ref).map(StoredEvent::event);
        let last = self.last.iter().map(|last| match last {
            LastEvent::Event(current) => *current.event,
            LastEvent::Timer(header) => Event { header: *header, ..Event::default() },
        });
        lend(held.chain(last), f)
    }

    /// Returns true unless a time-out completed it.
    pub(crate) fn is_event(&self) -> bool {
        matches!(self.last, Some(LastEvent::Event(_)))
    }

    /// Makes a queue entry: a copy of the last event, and a list if there are several.
    pub(crate) fn into_queued(self, event_lists: &EventListPool) -> Result<QueuedEvents, NoCopy> {
        let last = match self.last {
            None => None,
            Some(LastEvent::Event(current)) => Some(StoredEvent::Copy(current.keep()?)),
            Some(LastEvent::Timer(header)) => Some(StoredEvent::Timer(header)),
        };
        let mut items = self.held.into_iter().flatten().chain(last);
        let (Some(first), second) = (items.next(), items.next()) else {
            return Err(NoCopy::Exhausted);
        };
        let Some(second) = second else {
            return Ok(QueuedEvents::One(first));
        };
        let mut set = EventList(event_lists.take().ok_or(NoCopy::Exhausted)?);
        set.0.extend([first, second].into_iter().chain(items));
        Ok(QueuedEvents::Many(set))
    }
}

/// A queued push.
pub(crate) enum QueuedEvents {
    One(StoredEvent),
    Many(EventList),
}

impl QueuedEvents {
    /// When the first of its events expires; 0 for never.
    pub(crate) fn expires(&self) -> u64 {
        match self {
            QueuedEvents::One(item) => item.expires(),
            QueuedEvents::Many(set) => {
                let all = set.0.iter().map(StoredEvent::expires);
                all.filter(|expires| *expires != 0).min().unwrap_or(0)
            }
        }
    }

    pub(crate) fn with_events<R>(&self, f: impl FnOnce(&[Event<'_>]) -> R) -> R {
        match self {
            QueuedEvents::One(item) => f(&[item.event()]),
            QueuedEvents::Many(set) => lend(set.0.iter().map(StoredEvent::event), f),
        }
    }
}

/// Preallocated lists for pushes of several events, each with room for the most events of a push.
pub(crate) type EventListPool = CountedPool<Vec<StoredEvent>>;

pub(crate) fn event_lists(count: usize) -> EventListPool {
    CountedPool::new(count, |_| Vec::with_capacity(MAX_TERMS + 1))
}

/// A list of the pool. It is returned empty, so that a free list holds no events.
pub(crate) struct EventList(Unique<Vec<StoredEvent>>);

impl Drop for EventList {
    fn drop(&mut self) {
        self.0.clear();
    }
}

/// Collects the events on the stack. Most pushes have few, so a small array comes first.
fn lend<'a, R>(events: impl Iterator<Item = Event<'a>>, f: impl FnOnce(&[Event<'_>]) -> R) -> R {
    const FEW: usize = 4;
    let mut events = events.peekable();
    let mut few = [Event::default(); FEW];
    let mut n = 0;
    while n < FEW
        && let Some(event) = events.next()
    {
        few[n] = event;
        n += 1;
    }
    if events.peek().is_none() {
        return f(&few[..n]);
    }
    let mut all = [Event::default(); MAX_TERMS + 1];
    all[..FEW].copy_from_slice(&few);
    for (slot, event) in all[FEW..].iter_mut().zip(events) {
        *slot = event;
        n += 1;
    }
    f(&all[..n])
}
