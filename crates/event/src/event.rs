//! Events, and their copies in the channel's pool.

use isorb_rt::counted::{Counted, CountedPool, Unique};
use std::cell::RefCell;

/// The part of an event that the channel reads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Header {
    /// The type. Types from [`designator::USER`](crate::designator::USER) on belong to the
    /// application.
    pub event_type: i32,
    /// The source: a number that suppliers agree on. Several may share one.
    pub source: i32,
    /// The number of channels over which it may still be forwarded.
    pub ttl: i32,
    /// When the supplier made it, in units of 100 ns (`TimeBase::TimeT`). In a filter, the period
    /// of a timer.
    pub creation_time: u64,
}

impl Default for Header {
    /// Type and source 0, one hop, no time.
    fn default() -> Self {
        Header { event_type: 0, source: 0, ttl: 1, creation_time: 0 }
    }
}

/// The identity of an event in a federation. All zero: not stamped yet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Stamp {
    /// The channel where it entered the federation.
    pub channel: u64,
    /// Its number there, from 1.
    pub sequence: u64,
    /// The link over which it came to this channel; 0 for none. It is not forwarded.
    pub link: u32,
}

/// Which remote supplier made an event, and its number among those of the same supplier, type and
/// source, from 1. Consumers notice losses by it; see [`remote`](crate::remote). All zero: none. It
/// does not cross links of a federation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Origin {
    /// The supplier, by a number that it drew at random.
    pub supplier: u64,
    /// The number of the event.
    pub number: u64,
}

/// The part of an event that the channel only carries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Data<'a> {
    /// The padding of TAO's layout before the octets. Applications may use it.
    pub pad1: i32,
    /// The payload as octets.
    pub octets: &'a [u8],
    /// The payload as an `any`: its CDR encapsulation, or empty.
    pub any: &'a [u8],
}

/// An event: a header, and borrowed data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Event<'a> {
    /// Type, source, hops and time.
    pub header: Header,
    /// The payload.
    pub data: Data<'a>,
    /// Set by the channel.
    pub stamp: Stamp,
    /// Set by the supplier, if it numbers its events.
    pub origin: Origin,
}

impl<'a> Event<'a> {
    /// An event of this type and source that is forwarded over one hop, without time or data.
    pub fn new(event_type: i32, source: i32) -> Self {
        Event { header: Header { event_type, source, ..Header::default() }, ..Event::default() }
    }

    /// Sets the octets.
    #[must_use]
    pub fn octets(mut self, octets: &'a [u8]) -> Self {
        self.data.octets = octets;
        self
    }

    /// Sets the creation time, in units of 100 ns.
    #[must_use]
    pub fn created(mut self, time: u64) -> Self {
        self.header.creation_time = time;
        self
    }

    /// Sets the number of channels over which it may be forwarded.
    #[must_use]
    pub fn ttl(mut self, ttl: i32) -> Self {
        self.header.ttl = ttl;
        self
    }
}

/// An event that was copied into the channel's memory.
#[derive(Debug)]
pub(crate) struct Slot {
    header: Header,
    stamp: Stamp,
    origin: Origin,
    pad1: i32,
    /// The end of its lifespan on the channel's clock; 0 for never.
    expires: u64,
    octets: usize,
    any: usize,
    bytes: Box<[u8]>,
}

impl Slot {
    pub(crate) fn event(&self) -> Event<'_> {
        let (octets, rest) = self.bytes.split_at(self.octets);
        Event {
            header: self.header,
            stamp: self.stamp,
            origin: self.origin,
            data: Data { pad1: self.pad1, octets, any: &rest[..self.any] },
        }
    }

    pub(crate) fn expires(&self) -> u64 {
        self.expires
    }
}

/// A reference-counted copy.
pub(crate) type EventCopy = Counted<Slot>;

/// Copies of events of one size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct SizeClass {
    /// The most octets of a copy (payload and any together).
    pub payload: usize,
    /// The number of copies.
    pub events: usize,
}

/// The memory for copies: pools of events of one size each, the smallest first. An event takes a
/// slot of the smallest size that fits, so small events never take the room of large ones.
#[derive(Clone, Debug)]
pub(crate) struct EventPool(Box<[(SizeClass, CountedPool<Slot>)]>);

/// Why an event could not be copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoCopy {
    /// All slots are in use.
    Exhausted,
    /// Its data are larger than a slot.
    TooLarge,
}

impl EventPool {
    /// The pools of these sizes, the smallest first. `None` if their memory cannot be allocated: a
    /// failed allocation would end the process.
    pub(crate) fn new(classes: Vec<SizeClass>) -> Option<EventPool> {
        let octets = |class: &SizeClass| {
            class.payload.checked_add(size_of::<Slot>()).and_then(|slot| slot.checked_mul(class.events))
        };
        let total = classes.iter().try_fold(0, |sum: usize, class| sum.checked_add(octets(class)?))?;
        Vec::<u8>::new().try_reserve_exact(total).ok()?;
        let pool = |class: SizeClass| {
            let slot = |_| Slot {
                header: Header::default(),
                stamp: Stamp::default(),
                origin: Origin::default(),
                pad1: 0,
                expires: 0,
                octets: 0,
                any: 0,
                bytes: vec![0; class.payload].into_boxed_slice(),
            };
            (class, CountedPool::new(class.events, slot))
        };
        Some(EventPool(classes.into_iter().map(pool).collect()))
    }

    /// The free slots of the smallest size.
    pub(crate) fn available(&self) -> usize {
        self.0.first().map_or(0, |(_, slots)| slots.available())
    }

    /// Copies an event that expires at this time.
    ///
    /// # Errors
    /// [`NoCopy`].
    ///
    /// # Real-time
    /// Neither allocates nor blocks.
    pub(crate) fn copy(&self, event: &Event<'_>, expires: u64) -> Result<Unique<Slot>, NoCopy> {
        let (octets, any) = (event.data.octets, event.data.any);
        let length = octets.len() + any.len();
        let slots = self.0.iter().find(|(class, _)| length <= class.payload);
        let (_, slots) = slots.ok_or(NoCopy::TooLarge)?;
        let mut slot = slots.take().ok_or(NoCopy::Exhausted)?;
        slot.header = event.header;
        slot.stamp = event.stamp;
        slot.origin = event.origin;
        slot.pad1 = event.data.pad1;
        slot.expires = expires;
        slot.octets = octets.len();
        slot.any = any.len();
        slot.bytes[..octets.len()].copy_from_slice(octets);
        slot.bytes[octets.len()..][..any.len()].copy_from_slice(any);
        Ok(slot)
    }
}

/// An event during its delivery. It is copied when the first consumer keeps it, and only once.
pub(crate) struct CurrentEvent<'a> {
    pub event: &'a Event<'a>,
    /// The end of its lifespan on the channel's clock; 0 for never.
    pub expires: u64,
    /// The copy, once a consumer has kept it.
    kept: RefCell<Option<EventCopy>>,
    pool: &'a EventPool,
}

impl<'a> CurrentEvent<'a> {
    pub(crate) fn new(event: &'a Event<'a>, pool: &'a EventPool) -> Self {
        CurrentEvent { event, expires: 0, kept: RefCell::new(None), pool }
    }

    /// Copies the event, or returns the copy made before.
    pub(crate) fn keep(&self) -> Result<EventCopy, NoCopy> {
        let mut kept = self.kept.borrow_mut();
        if let Some(kept) = &*kept {
            return Ok(kept.clone());
        }
        let [copy, share] = self.pool.copy(self.event, self.expires)?.share_twice();
        *kept = Some(share);
        Ok(copy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(classes: &[(usize, usize)]) -> EventPool {
        EventPool::new(classes.iter().map(|&(payload, events)| SizeClass { payload, events }).collect())
            .unwrap()
    }

    #[test]
    fn a_copy_is_made_once_and_is_the_event() {
        let pool = pool(&[(8, 2)]);
        let data = Data { pad1: 3, octets: b"abc", any: b"12345" };
        let event = Event { data, origin: Origin { supplier: 5, number: 6 }, ..Event::new(20, 7) };
        let current = CurrentEvent::new(&event, &pool);
        let (a, b) = (current.keep().unwrap(), current.keep().unwrap());
        assert!(EventCopy::same(&a, &b));
        assert_eq!((a.event(), pool.available()), (event, 1));
        drop(current);
        drop((a, b));
        assert_eq!(pool.available(), 2);
    }

    #[test]
    fn a_size_class_has_its_own_room_and_the_largest_is_the_limit() {
        let pool = pool(&[(4, 1), (6, 1), (9, 1)]);
        let keep = |length| {
            let event = Event::new(16, 0).octets(&[7; 10][..length]);
            CurrentEvent::new(&event, &pool).keep()
        };
        assert_eq!(keep(10).unwrap_err(), NoCopy::TooLarge);
        let small = keep(4).unwrap();
        assert_eq!(keep(4).unwrap_err(), NoCopy::Exhausted, "the larger slots are not for it");
        let (middle, large) = (keep(5).unwrap(), keep(9).unwrap());
        assert_eq!(keep(6).unwrap_err(), NoCopy::Exhausted);
        assert_eq!([&small, &middle, &large].map(|copy| copy.event().data.octets.len()), [4, 5, 9]);
    }
}
