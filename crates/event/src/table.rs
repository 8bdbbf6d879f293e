//! Subscription tables: read by all events, copied in part for a change.

use crate::connection::Connection;
use crate::correlation::Registration;
use crate::event::Header;
use crate::filter::Pattern;
use std::sync::Arc;

/// A registration under a pattern.
#[derive(Clone)]
pub(crate) struct TableEntry {
    pub connection: Arc<Connection>,
    pub registration: Arc<Registration>,
    pub leaf: u16,
    /// Each matching event is a push of its own, without further checks.
    pub simple: bool,
    /// A match is not sufficient: the registration must be asked.
    pub ask: bool,
}

/// The subscriptions by pattern. Each class of patterns, which fix the same bits, has a table:
/// sources, types, both, and each mask. Finding an event's consumers takes one look-up for each
/// class, whatever the number of subscriptions.
#[derive(Clone, Default)]
pub(crate) struct Tables {
    classes: Vec<Class>,
    everyone: AllConsumers,
}

#[derive(Clone)]
struct Class {
    source_mask: u32,
    type_mask: u32,
    /// The number of keys in all shards.
    keys: usize,
    shards: Arc<[Arc<Shard>]>,
}

/// A part of a class, copied when one of its keys changes. Open addressing, at most half full.
#[derive(Default)]
struct Shard {
    slots: Box<[Slot]>,
    used: usize,
}

#[derive(Clone, Default)]
struct Slot {
    key: u64,
    /// `None` in a free slot.
    hits: Option<Arc<[TableEntry]>>,
}

/// All consumers, in parts of which a change copies one.
#[derive(Clone, Default)]
struct AllConsumers {
    parts: Arc<[Arc<[Arc<Connection>]>]>,
}

const PART: usize = 64;

impl Tables {
    /// Calls `f` for the entries of each pattern that matches. The caller ensures that a
    /// registration is served once.
    ///
    /// # Real-time
    /// Neither allocates nor blocks; one look-up for each class.
    #[inline]
    pub(crate) fn find(&self, header: &Header, mut f: impl FnMut(&[TableEntry])) {
        for class in &self.classes {
            if let Some(hits) = class.get(class.key(header.source as u32, header.event_type as u32)) {
                f(hits);
            }
        }
    }

    /// Calls `f` for all consumers, in parts.
    #[inline]
    pub(crate) fn everyone(&self, mut f: impl FnMut(&[Arc<Connection>])) {
        self.everyone.parts.iter().for_each(|part| f(part));
    }

    /// The number of look-ups for an event.
    pub(crate) fn classes(&self) -> usize {
        self.classes.len()
    }

    /// Returns true if these patterns would need more classes than `limit`.
    pub(crate) fn exceeds(&self, patterns: &[Pattern], limit: usize) -> bool {
        let mut new: Vec<(u32, u32)> = patterns
            .iter()
            .map(|p| (p.source_mask, p.type_mask))
            .filter(|masks| !self.classes.iter().any(|c| (c.source_mask, c.type_mask) == *masks))
            .collect();
        new.sort_unstable();
        new.dedup();
        self.classes.len() + new.len() > limit
    }

    /// Adds an entry. `shards` is the number of parts of a new class.
    pub(crate) fn insert(&mut self, pattern: Pattern, hit: TableEntry, shards: usize) {
        let masks = (pattern.source_mask, pattern.type_mask);
        let found = self.classes.iter().position(|c| (c.source_mask, c.type_mask) == masks);
        let place = found.unwrap_or_else(|| {
            self.classes.push(Class {
                source_mask: masks.0,
                type_mask: masks.1,
                keys: 0,
                shards: (0..shards.next_power_of_two()).map(|_| Arc::default()).collect(),
            });
            self.classes.len() - 1
        });
        let class = &mut self.classes[place];
        let key = class.key(pattern.source, pattern.event_type);
        let mut hits: Vec<TableEntry> = class.get(key).map_or(Vec::new(), |hits| hits.to_vec());
        class.keys += usize::from(hits.is_empty());
        hits.push(hit);
        // The most urgent first; equals in order of subscription.
        hits.sort_by_key(|hit| std::cmp::Reverse(hit.registration.connection().priority()));
        class.set(key, Some(hits.into()));
    }

    /// Removes the entries of a registration under this pattern.
    pub(crate) fn remove(&mut self, pattern: Pattern, registration: &Arc<Registration>) {
        let masks = (pattern.source_mask, pattern.type_mask);
        let Some(place) = self.classes.iter().position(|c| (c.source_mask, c.type_mask) == masks) else {
            return;
        };
        let class = &mut self.classes[place];
        let key = class.key(pattern.source, pattern.event_type);
        let Some(hits) = class.get(key) else {
            return;
        };
        let rest: Vec<TableEntry> =
            hits.iter().filter(|hit| !Arc::ptr_eq(&hit.registration, registration)).cloned().collect();
        if rest.is_empty() {
            class.set(key, None);
            class.keys -= 1;
            if class.keys == 0 {
                self.classes.remove(place);
            }
        } else {
            class.set(key, Some(rest.into()));
        }
    }

    /// Adds a consumer to the list of all.
    pub(crate) fn join(&mut self, connection: &Arc<Connection>) {
        let parts = &self.everyone.parts;
        let mut parts: Vec<_> = parts.iter().cloned().collect();
        match parts.last_mut().filter(|part| part.len() < PART) {
            Some(last) => *last = last.iter().cloned().chain([connection.clone()]).collect(),
            None => parts.push(Arc::from([connection.clone()])),
        }
        self.everyone.parts = parts.into();
    }

    /// Removes a consumer from the list of all.
    pub(crate) fn leave(&mut self, connection: &Arc<Connection>) {
        let without = |part: &Arc<[Arc<Connection>]>| -> Arc<[Arc<Connection>]> {
            if part.iter().any(|c| Arc::ptr_eq(c, connection)) {
                part.iter().filter(|c| !Arc::ptr_eq(c, connection)).cloned().collect()
            } else {
                part.clone()
            }
        };
        self.everyone.parts =
            self.everyone.parts.iter().map(without).filter(|part| !part.is_empty()).collect();
    }
}

impl Class {
    #[inline]
    fn key(&self, source: u32, event_type: u32) -> u64 {
        u64::from(source & self.source_mask) << 32 | u64::from(event_type & self.type_mask)
    }

    #[inline]
    fn get(&self, key: u64) -> Option<&Arc<[TableEntry]>> {
        #[cfg(test)]
        tests::looked_up();
        let hash = hash(key);
        let shard = &self.shards[self.shard(hash)];
        let mask = shard.slots.len().wrapping_sub(1);
        let mut at = hash as usize;
        loop {
            // A shard is at most half full, so the search ends at a free slot.
            let slot = shard.slots.get(at & mask)?;
            match &slot.hits {
                None => return None,
                hits if slot.key == key => return hits.as_ref(),
                _ => at = at.wrapping_add(1),
            }
        }
    }

    /// The shard of a key, by the upper bits of the hash; the lower bits find the slot.
    #[inline]
    fn shard(&self, hash: u64) -> usize {
        (hash >> 40) as usize & (self.shards.len() - 1)
    }

    fn set(&mut self, key: u64, hits: Option<Arc<[TableEntry]>>) {
        let number = self.shard(hash(key));
        let changed = Arc::new(self.shards[number].with(key, hits));
        let mut shards: Vec<_> = self.shards.iter().cloned().collect();
        shards[number] = changed;
        self.shards = shards.into();
    }
}

impl Shard {
    /// A copy in which this key has these entries, or none.
    fn with(&self, key: u64, hits: Option<Arc<[TableEntry]>>) -> Shard {
        let others = self.slots.iter().filter(|slot| slot.hits.is_some() && slot.key != key);
        let used = others.clone().count() + usize::from(hits.is_some());
        let size = if used == 0 { 0 } else { (2 * used).next_power_of_two() };
        let mut shard = Shard { slots: vec![Slot::default(); size].into(), used };
        others
            .cloned()
            .chain(hits.map(|hits| Slot { key, hits: Some(hits) }))
            .for_each(|slot| shard.put(slot));
        debug_assert!(2 * shard.used <= shard.slots.len());
        shard
    }

    fn put(&mut self, slot: Slot) {
        let mask = self.slots.len() - 1;
        let mut at = hash(slot.key) as usize;
        while self.slots[at & mask].hits.is_some() {
            at = at.wrapping_add(1);
        }
        self.slots[at & mask] = slot;
    }
}

/// Spreads similar keys (a multiplication and two shifts). A program that chooses colliding keys
/// slows down only its own shard.
#[inline]
fn hash(key: u64) -> u64 {
    let h = (key ^ (key >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    h ^ (h >> 29)
}

#[cfg(test)]
mod tests {
    use crate::{Channel, ConsumerQos, Event, Filter, Limits, ProxyPushSupplier};
    use std::cell::Cell;
    use std::sync::Arc;

    thread_local! {
        static LOOKED_UP: Cell<usize> = const { Cell::new(0) };
    }

    /// A table was asked for a key on this thread.
    pub(super) fn looked_up() {
        LOOKED_UP.set(LOOKED_UP.get() + 1);
    }

    /// Connects `count` consumers for each filter. Returns the number of look-ups for an event that
    /// one of each receives.
    fn look_ups(filters: &[&dyn Fn(i32) -> Filter], consumers: i32) -> (usize, u32, usize) {
        let limits = Limits { consumers: 10_000, ..Limits::default() };
        let channel = Channel::builder().limits(limits).own_threads(false).build().unwrap();
        let connect = |filter| {
            let nothing = Arc::new(|_: &[Event<'_>]| ());
            channel.for_consumers().connect(nothing, ConsumerQos::new("test", filter)).unwrap()
        };
        let all: Vec<ProxyPushSupplier> =
            filters.iter().flat_map(|of| (0..consumers).map(|n| connect(of(n)))).collect();
        let supplier = channel.for_suppliers().connect().unwrap();
        let push = || {
            let before = LOOKED_UP.get();
            let taken = supplier.push(&Event::new(0x500, 0x700)).taken;
            (LOOKED_UP.get() - before, taken)
        };
        let (requested, taken) = push();
        assert_eq!(requested, channel.lookups(), "the channel says what it does");
        // Suspended consumers are in no table.
        all.iter().for_each(|proxy| proxy.suspend().unwrap());
        let (suspended, none) = push();
        assert_eq!(none, 0);
        (requested, taken, suspended)
    }

    #[test]
    #[cfg(not(loom))]
    fn an_event_costs_one_look_up_a_kind_of_subscription_however_many_subscribe() {
        let by_type = |n| Filter::of_type(0x500 + n);
        let by_source = |n| Filter::from_source(0x700 + n);
        let masked = |type_mask: u32| {
            move |n: i32| Filter::Masked {
                source_mask: 0,
                type_mask,
                source: 0,
                event_type: (0x500 & type_mask) ^ ((n as u32) << 12 & type_mask),
            }
        };
        for consumers in [1, 100, 2_000] {
            assert_eq!(look_ups(&[&by_type, &by_source], consumers), (2, 2, 0), "{consumers}");
        }
        let (one, two, three) = (masked(0xfff0_0f00), masked(0xfff0_f000), masked(0xffff_0000));
        for consumers in [1, 10] {
            let (requested, _, suspended) = look_ups(&[&one, &two, &three], consumers);
            assert_eq!((requested, suspended), (3, 0), "one a distinct mask, {consumers} consumers each");
        }
    }
}
