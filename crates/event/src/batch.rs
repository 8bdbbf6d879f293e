//! The events of one push.

use crate::event::{Current, Event, Header, Kept, NoCopy};
use crate::filter::MAX_TERMS;
use isorb_rt::counted::{CountedPool, Unique};

/// An event that outlives the push that brought it.
#[derive(Clone)]
pub(crate) enum Item {
    Kept(Kept),
    Timer(Header),
}

impl Item {
    fn event(&self) -> Event<'_> {
        match self {
            Item::Kept(kept) => kept.event(),
            Item::Timer(header) => Event { header: *header, ..Event::default() },
        }
    }

    pub(crate) fn is(&self, other: &Item) -> bool {
        matches!((self, other), (Item::Kept(a), Item::Kept(b)) if Kept::same(a, b))
    }
}

/// The event that came last, and completed the push.
#[derive(Clone, Copy)]
pub(crate) enum Last<'c, 'e> {
    Event(&'c Current<'e>),
    Timer(Header),
}

/// The events that satisfied a registration, in order of arrival.
pub(crate) struct Batch<'c, 'e> {
    /// Those that came before the last; filled from the front.
    pub held: [Option<Item>; MAX_TERMS],
    pub last: Option<Last<'c, 'e>>,
}

impl<'c, 'e> Batch<'c, 'e> {
    pub(crate) fn of(last: Last<'c, 'e>) -> Self {
        Batch { held: [const { None }; MAX_TERMS], last: Some(last) }
    }

    /// Lends the events, in a slice on the stack.
    pub(crate) fn with_events<R>(&self, f: impl FnOnce(&[Event<'_>]) -> R) -> R {
        let held = self.held.iter().map_while(Option::as_ref).map(Item::event);
        let last = self.last.iter().map(|last| match last {
            Last::Event(current) => *current.event,
            Last::Timer(header) => Event { header: *header, ..Event::default() },
        });
        lend(held.chain(last), f)
    }

    /// For a queue: a copy of the last event, and a list where there are several.
    pub(crate) fn into_queued(self, sets: &Sets) -> Result<Queued, NoCopy> {
        let last = match self.last {
            None => None,
            Some(Last::Event(current)) => Some(Item::Kept(current.keep()?)),
            Some(Last::Timer(header)) => Some(Item::Timer(header)),
        };
        let mut items = self.held.into_iter().flatten().chain(last);
        let (Some(first), second) = (items.next(), items.next()) else {
            return Err(NoCopy::Exhausted);
        };
        let Some(second) = second else {
            return Ok(Queued::One(first));
        };
        let mut set = Set(sets.take().ok_or(NoCopy::Exhausted)?);
        set.0.extend([first, second].into_iter().chain(items));
        Ok(Queued::Many(set))
    }
}

/// A push that waits.
pub(crate) enum Queued {
    One(Item),
    Many(Set),
}

impl Queued {
    pub(crate) fn with_events<R>(&self, f: impl FnOnce(&[Event<'_>]) -> R) -> R {
        match self {
            Queued::One(item) => f(&[item.event()]),
            Queued::Many(set) => lend(set.0.iter().map(Item::event), f),
        }
    }
}

/// Lists for pushes of several events, made beforehand with room for the most that there can be.
pub(crate) type Sets = CountedPool<Vec<Item>>;

pub(crate) fn sets(count: usize) -> Sets {
    CountedPool::new(count, |_| Vec::with_capacity(MAX_TERMS + 1))
}

/// One of them; it goes back empty, so that it holds no events while nobody uses it.
pub(crate) struct Set(Unique<Vec<Item>>);

impl Drop for Set {
    fn drop(&mut self) {
        self.0.clear();
    }
}

/// Collects the events on the stack; most pushes have few.
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
    for (place, event) in all[FEW..].iter_mut().zip(events) {
        *place = event;
        n += 1;
    }
    f(&all[..n])
}
