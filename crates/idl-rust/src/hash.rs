//! The perfect hash for operation names.

/// A table for `isorb::generated::Operations`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub seed: u32,
    /// Index of the name, or [`EMPTY`]; the length is a power of two.
    pub slots: Vec<u16>,
}

/// A slot without a name.
pub(crate) const EMPTY: u16 = 0xffff;

/// The number of seeds that are tried for each table size.
const SEEDS: u32 = 1 << 16;

/// The same function as `operation_hash` of the run-time.
fn operation_hash(seed: u32, name: &[u8]) -> u32 {
    let hash = name.iter().fold(seed, |hash, octet| (hash ^ u32::from(*octet)).wrapping_mul(0x0100_0193));
    hash ^ (hash >> 15)
}

/// The smallest table in which each name has a slot of its own.
///
/// Names must differ. With n names and 2n to 4n slots, one seed in some hundreds fits for tens of
/// names. For hundreds of names the table grows instead, so the search ends soon.
pub(crate) fn table(names: &[String]) -> Table {
    let mut size = names.len().max(1).next_power_of_two();
    loop {
        // A full table of many names would exhaust the seeds.
        let seeds = if names.len() > 8 && size < 2 * names.len() { SEEDS >> 4 } else { SEEDS };
        for seed in 0..seeds {
            if let Some(slots) = fill(names, seed, size) {
                return Table { seed, slots };
            }
        }
        size *= 2;
    }
}

fn fill(names: &[String], seed: u32, size: usize) -> Option<Vec<u16>> {
    let mut slots = vec![EMPTY; size];
    for (index, name) in names.iter().enumerate() {
        let slot = &mut slots[operation_hash(seed, name.as_bytes()) as usize & (size - 1)];
        if *slot != EMPTY {
            return None;
        }
        *slot = index as u16;
    }
    Some(slots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_its_slot() {
        for n in [0, 1, 2, 3, 7, 8, 16, 33, 100, 300] {
            let names: Vec<String> = (0..n).map(|i| format!("_get_operation_{i}")).collect();
            let table = table(&names);
            assert!(table.slots.len().is_power_of_two());
            for (i, name) in names.iter().enumerate() {
                let slot = operation_hash(table.seed, name.as_bytes()) as usize & (table.slots.len() - 1);
                assert_eq!(usize::from(table.slots[slot]), i);
            }
            assert_eq!(table.slots.iter().filter(|slot| **slot != EMPTY).count(), n);
        }
    }

    #[test]
    fn the_hash_is_fixed() {
        // Values computed by hand from the definition; the run-time must compute the same.
        assert_eq!(operation_hash(0, b""), 0);
        let one = (u32::from(b'a') ^ 7).wrapping_mul(0x0100_0193);
        assert_eq!(operation_hash(7, b"a"), one ^ (one >> 15));
    }
}
