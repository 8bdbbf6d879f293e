//! Instances: the events of one type from one source, in memory of a fixed size.
//!
//! DDS keys instances by fields of the data. Here type and source are the key: the channel knows
//! them without reading payloads, and consumers filter by them.

/// Places of a bucket: an instance is looked for among so many.
const WAYS: usize = 8;

/// What is known of each instance. A full bucket replaces what its user gives up.
#[derive(Debug)]
pub(crate) struct Instances<T> {
    buckets: Box<[[Option<Instance<T>>; WAYS]]>,
}

/// An instance, by its key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instance<T> {
    pub event_type: i32,
    pub source: i32,
    pub value: T,
}

impl<T: Copy> Instances<T> {
    /// Room for about so many. Buckets fill unevenly, so there are four times as many places.
    pub fn new(instances: usize) -> Instances<T> {
        let buckets = (instances.max(1).saturating_mul(4) / WAYS).next_power_of_two();
        Instances { buckets: vec![[None; WAYS]; buckets].into_boxed_slice() }
    }

    /// The instance of this key. A new one has `new`, in a free place or in that of an instance
    /// that `is_over`. `None` without such a place.
    ///
    /// # Real-time
    /// Does not allocate; at most eight comparisons.
    pub fn entry(
        &mut self,
        (event_type, source): (i32, i32),
        new: T,
        is_over: impl Fn(&T) -> bool,
    ) -> Option<&mut T> {
        let at = hash(event_type, source) as usize & (self.buckets.len() - 1);
        let bucket = &mut self.buckets[at];
        let is_it = |place: &Option<Instance<T>>| {
            place.as_ref().is_some_and(|of| (of.event_type, of.source) == (event_type, source))
        };
        let known = bucket.iter().position(is_it);
        let free = || bucket.iter().position(Option::is_none);
        let over = || bucket.iter().position(|place| place.as_ref().is_some_and(|of| is_over(&of.value)));
        let place = known.or_else(free).or_else(over)?;
        if known.is_none() {
            bucket[place] = Some(Instance { event_type, source, value: new });
        }
        bucket[place].as_mut().map(|of| &mut of.value)
    }

    /// All instances.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Instance<T>> {
        self.buckets.iter_mut().flatten().flatten()
    }

    /// The place of the first instance from `from` on that `is` accepts, which may change it.
    pub fn find_from(
        &mut self,
        from: usize,
        mut is: impl FnMut(&mut T) -> bool,
    ) -> Option<(usize, Instance<T>)> {
        let places = self.buckets.iter_mut().flatten().enumerate().skip(from);
        for (at, place) in places {
            if let Some(instance) = place
                && is(&mut instance.value)
            {
                return Some((at, *instance));
            }
        }
        None
    }
}

/// Types and sources are often small and close to each other.
fn hash(event_type: i32, source: i32) -> u64 {
    let key = u64::from(event_type as u32) << 32 | u64::from(source as u32);
    let mixed = (key ^ key >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed >> 32 ^ mixed >> 48
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn it_holds_what_a_map_holds() {
        let mut instances = Instances::new(4096);
        let mut map = BTreeMap::new();
        for n in 0..20_000_u64 {
            let key = ((n % 23) as i32, (n * 7 % 17) as i32);
            let value = instances.entry(key, 0, |_| false).expect("there is room");
            *value += n;
            *map.entry(key).or_insert(0) += n;
        }
        let mut all: Vec<_> = instances.iter_mut().map(|of| ((of.event_type, of.source), of.value)).collect();
        all.sort_unstable();
        assert_eq!(all, map.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn a_full_bucket_gives_up_what_is_over() {
        let mut instances = Instances::new(1);
        for source in 0..8 {
            assert!(instances.entry((20, source), source, |_| false).is_some());
        }
        assert_eq!(instances.entry((20, 8), 8, |_| false), None);
        assert_eq!(instances.entry((20, 8), 8, |value| *value == 5), Some(&mut 8));
        assert_eq!(instances.entry((20, 3), 0, |_| true), Some(&mut 3), "a known one stays");
        let mut found = Vec::new();
        let mut from = 0;
        while let Some((at, instance)) = instances.find_from(from, |value| *value % 2 == 0) {
            found.push(instance.source);
            from = at + 1;
        }
        assert_eq!(found, [0, 2, 4, 8, 6]);
    }
}
