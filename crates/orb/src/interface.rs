//! Static descriptions of interfaces and operations.

/// An IDL interface, described once in static memory by generated code.
#[derive(Debug)]
pub struct Interface {
    /// Repository id of the most derived interface.
    pub id: &'static str,
    /// Repository ids of all bases, direct and indirect, without `CORBA::Object`.
    pub bases: &'static [&'static str],
    /// All operations, inherited ones included.
    pub operations: Operations,
}

impl Interface {
    /// Whether an object of this interface is one of the interface with this repository id.
    pub fn is_a(&self, id: &str) -> bool {
        id == self.id || id == Self::OBJECT_ID || self.bases.contains(&id)
    }

    /// Repository id of `CORBA::Object`.
    pub const OBJECT_ID: &'static str = "IDL:omg.org/CORBA/Object:1.0";
}

/// The operations of an interface, found by name through a perfect hash that the IDL compiler
/// computed.
#[derive(Debug)]
pub struct Operations {
    names: &'static [&'static str],
    seed: u32,
    slots: &'static [u16],
    in_place: &'static [u16],
}

impl Operations {
    /// A table as generated: `slots` has a power of two of entries, each an index into `names` or
    /// `0xffff`.
    pub const fn new(names: &'static [&'static str], seed: u32, slots: &'static [u16]) -> Operations {
        assert!(slots.len().is_power_of_two());
        Operations { names, seed, slots, in_place: &[] }
    }

    /// The operations, by index, that read arguments [where the client lent them](crate::Lent).
    pub const fn reading_in_place(self, operations: &'static [u16]) -> Operations {
        Operations { in_place: operations, ..self }
    }

    /// Whether an operation reads arguments where the client lent them.
    #[cold]
    pub(crate) fn reads_in_place(&self, index: u16) -> bool {
        self.in_place.contains(&index)
    }

    /// The index of an operation.
    ///
    /// # Real-time
    /// One multiplication for each octet, one look-up, one comparison, for any number of
    /// operations.
    #[inline]
    pub fn find(&self, name: &str) -> Option<u16> {
        self.look_up(name.as_bytes()).map(|(index, _)| index)
    }

    /// The index and name of an operation, from octets that need not be text.
    #[inline(always)]
    pub(crate) fn look_up(&self, name: &[u8]) -> Option<(u16, &'static str)> {
        let slot = operation_hash(self.seed, name) as usize & (self.slots.len() - 1);
        let index = self.slots[slot];
        let known = self.names.get(usize::from(index)).copied()?;
        (known.as_bytes() == name).then_some((index, known))
    }

    /// The names by index.
    pub fn names(&self) -> &'static [&'static str] {
        self.names
    }
}

/// The hash of [`Operations`]; the IDL compiler computes the same.
#[inline(always)]
pub const fn operation_hash(seed: u32, name: &[u8]) -> u32 {
    let mut hash = seed;
    let mut i = 0;
    while i < name.len() {
        hash = (hash ^ name[i] as u32).wrapping_mul(0x0100_0193);
        i += 1;
    }
    hash ^ (hash >> 15)
}

/// An operation of a stub.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Its name on the wire; attributes are `_get_x` and `_set_x`.
    pub name: &'static str,
    /// Whether there is no reply.
    pub oneway: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_by_name_only() {
        static NAMES: &[&str] = &["a", "bb"];
        let slots = (0..).find_map(|seed| {
            let at = |name: &str| operation_hash(seed, name.as_bytes()) as usize & 1;
            (at("a") != at("bb")).then(|| {
                let mut slots = [0u16; 2];
                slots[at("bb")] = 1;
                (seed, slots)
            })
        });
        let (seed, slots) = slots.unwrap();
        let operations = Operations::new(NAMES, seed, Box::leak(Box::new(slots)));
        assert_eq!(
            [operations.find("a"), operations.find("bb"), operations.find("c")],
            [Some(0), Some(1), None]
        );
    }
}
