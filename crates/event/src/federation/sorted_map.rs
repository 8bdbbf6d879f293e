//! A map in one sorted vector.
//!
//! A member knows the neighbours of each link for each source, and in most federations that is one.
//! A `BTreeMap` reserves room for eleven entries; with a thousand channels these are gigabytes.

/// A map of few entries, sorted by key. To insert and remove takes time that grows with their
/// number, which the callers limit.
#[derive(Debug)]
pub(super) struct SortedMap<K, V>(Vec<(K, V)>);

impl<K, V> Default for SortedMap<K, V> {
    fn default() -> SortedMap<K, V> {
        SortedMap(Vec::new())
    }
}

impl<K: Ord, V> SortedMap<K, V> {
    fn find(&self, key: &K) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| known.cmp(key))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        self.find(key).ok().map(|at| &self.0[at].1)
    }

    pub fn contains_key(&self, key: &K) -> bool {
        self.find(key).is_ok()
    }

    /// The value of this key, which is `new` if there was none.
    pub fn or_insert(&mut self, key: K, new: V) -> &mut V {
        let at = match self.find(&key) {
            Ok(at) => at,
            Err(at) => {
                if self.0.len() == self.0.capacity() {
                    // Not the four that a vector begins with.
                    self.0.reserve_exact((self.0.len() / 2).max(1));
                }
                self.0.insert(at, (key, new));
                at
            }
        };
        &mut self.0[at].1
    }

    pub fn insert(&mut self, key: K, value: V) {
        match self.find(&key) {
            Ok(at) => self.0[at].1 = value,
            Err(_) => {
                self.or_insert(key, value);
            }
        }
    }

    pub fn remove(&mut self, key: &K) {
        if let Ok(at) = self.find(key) {
            self.0.remove(at);
        }
    }

    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        self.0.retain_mut(|(key, value)| keep(key, value));
    }

    /// All entries, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.iter().map(|(key, _)| key)
    }

    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.0.iter_mut().map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn it_holds_what_a_map_holds() {
        let (mut sorted, mut map) = (SortedMap::default(), BTreeMap::new());
        for n in 0..3_000_u64 {
            let key = n * 7 % 31;
            match n % 5 {
                0 => {
                    sorted.remove(&key);
                    map.remove(&key);
                }
                1 => {
                    sorted.insert(key, n);
                    map.insert(key, n);
                }
                2 if n % 3 == 0 => {
                    sorted.retain(|key, value| (*key + *value) % 4 != 0);
                    map.retain(|key, value| (*key + *value) % 4 != 0);
                }
                _ => {
                    *sorted.or_insert(key, n) += 1;
                    *map.entry(key).or_insert(n) += 1;
                }
            }
            assert!(sorted.iter().eq(map.iter()) && sorted.keys().eq(map.keys()), "{n}");
            assert_eq!((sorted.len(), sorted.is_empty()), (map.len(), map.is_empty()));
            assert_eq!(
                (sorted.get(&key), sorted.contains_key(&key)),
                (map.get(&key), map.contains_key(&key))
            );
        }
        sorted.values_mut().for_each(|value| *value += 1);
        assert!(sorted.values().eq(map.values().map(|value| value + 1).collect::<Vec<_>>().iter()));
    }

    #[test]
    fn one_entry_takes_the_room_of_one() {
        let mut sorted = SortedMap::default();
        sorted.insert(1_u64, [0_u64; 8]);
        assert_eq!(sorted.0.capacity(), 1);
    }
}
