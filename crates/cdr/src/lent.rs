//! Sequences that lie in memory of the peer, and are read where they lie.
//!
//! A transport over shared memory may deliver a message of which long parts are still the peer's.
//! The message has room for such a part, which holds no octets of it yet. A decoder with [lent
//! octets](Decoder::with_lent) ends before the part. What reads on, other than a [`Lent`] of
//! exactly these octets, has them copied into their room first. So only a `Lent` sees memory that
//! the peer may write, and it copies what it reads.
//!
//! ```text
//!   message    head  count │ room of the part            │ further arguments
//!   decoder    rest ───────┘
//!              Lent: claims the part, the room stays empty; anything else: fills the room
//! ```

use crate::{Decode, Decoder, ErrorKind, LentOctets, Plain, Result};
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;
use zerocopy::IntoBytes;

/// A sequence that is read where it lies: in memory of the peer where the peer lent it, else in the
/// message.
///
/// The peer can change its memory while it is read. So there is no slice of the elements: each read
/// copies them out once, and two reads of one element may differ. Check a copy, then use that copy.
/// The bits of an element may come from two writes of the peer; every bit pattern is a value of the
/// type.
///
/// It ends with the upcall or the scope of the call. The peer cannot use the memory again before.
#[derive(Clone, Copy)]
pub struct Lent<'m, T> {
    elements: Elements<'m, T>,
}

#[derive(Clone, Copy)]
enum Elements<'m, T> {
    Message(&'m [T]),
    Peer { octets: &'m dyn LentOctets, part: usize, n: usize, of: PhantomData<T> },
}

impl<'m, T: Plain> Lent<'m, T> {
    /// The number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        match self.elements {
            Elements::Message(elements) => elements.len(),
            Elements::Peer { n, .. } => n,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements as a slice, where they lie in the message: the peer did not lend them, or has
    /// another byte order.
    pub fn in_message(&self) -> Option<&'m [T]> {
        match self.elements {
            Elements::Message(elements) => Some(elements),
            Elements::Peer { .. } => None,
        }
    }

    /// Copies the elements from `from` on into `into`.
    ///
    /// # Panics
    /// If there are not so many, as slices do.
    ///
    /// # Real-time
    /// The time of a copy; allocates nothing.
    pub fn read(&self, from: usize, into: &mut [T]) {
        match self.elements {
            Elements::Message(elements) => into.copy_from_slice(&elements[from..][..into.len()]),
            Elements::Peer { octets, part, n, .. } => {
                assert!(from <= n && into.len() <= n - from, "elements of a sequence of {n}");
                octets.read(part, from * size_of::<T>(), into.as_mut_bytes());
            }
        }
    }

    /// A copy of one element; `None` behind the last.
    ///
    /// # Real-time
    /// The time of a copy. To look at many elements, [`iter`](Self::iter) takes less.
    pub fn get(&self, i: usize) -> Option<T> {
        if i >= self.len() {
            return None;
        }
        let mut one = T::new_zeroed();
        self.read(i, core::slice::from_mut(&mut one));
        Some(one)
    }

    /// Copies of the elements, each read once.
    pub fn iter(&self) -> LentIter<'m, T> {
        LentIter { lent: *self, next: 0, block: [T::new_zeroed(); BLOCK] }
    }

    /// A copy of all elements.
    ///
    /// # Real-time
    /// Allocates.
    pub fn to_vec(&self) -> Vec<T> {
        let mut all = alloc::vec![T::new_zeroed(); self.len()];
        self.read(0, &mut all);
        all
    }
}

/// Elements that are copied at a time.
const BLOCK: usize = 64;

/// Copies of the elements of a [`Lent`].
pub struct LentIter<'m, T> {
    lent: Lent<'m, T>,
    next: usize,
    block: [T; BLOCK],
}

impl<T: Plain> Iterator for LentIter<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        let left = self.lent.len() - self.next;
        if left == 0 {
            return None;
        }
        let i = self.next % BLOCK;
        if i == 0 {
            self.lent.read(self.next, &mut self.block[..left.min(BLOCK)]);
        }
        self.next += 1;
        Some(self.block[i])
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.lent.len() - self.next;
        (left, Some(left))
    }
}

impl<T: Plain> ExactSizeIterator for LentIter<'_, T> {}

impl<'m, T: Plain> From<&'m [T]> for Lent<'m, T> {
    fn from(elements: &'m [T]) -> Lent<'m, T> {
        Lent { elements: Elements::Message(elements) }
    }
}

impl<T: Plain> fmt::Debug for Lent<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.in_message().is_some() { "in the message" } else { "in the peer's memory" };
        write!(f, "Lent({} elements, {place})", self.len())
    }
}

impl<'m, T: Plain> Decode<'m> for Lent<'m, T> {
    const MIN_WIRE: usize = 4;

    fn decode(d: &mut Decoder<'m>) -> Result<Self> {
        let n = d.count(size_of::<T>())?;
        if n > 0 && d.is_native::<T>() {
            d.align(T::ALIGN)?;
            let Some(octets) = n.checked_mul(size_of::<T>()) else { return Err(d.error(ErrorKind::Length)) };
            if let Some((octets, part)) = d.claim_lent(octets) {
                return Ok(Lent { elements: Elements::Peer { octets, part, n, of: PhantomData } });
            }
        }
        Ok(Lent::from(d.plain_array(n)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Encoder, Order, Text};
    use alloc::vec;
    use core::cell::RefCell;
    use isorb_scope::Region;

    /// Parts of a message that were taken out of it, and what became of them.
    struct Elsewhere {
        parts: Vec<(usize, Vec<u8>)>,
        log: RefCell<Vec<(&'static str, usize)>>,
    }

    impl LentOctets for Elsewhere {
        fn part(&self, i: usize) -> Option<(usize, usize)> {
            self.parts.get(i).map(|(at, octets)| (*at, octets.len()))
        }
        fn fill(&self, i: usize, into: &mut [u8]) {
            into.copy_from_slice(&self.parts[i].1[..into.len()]);
            self.log.borrow_mut().push(("filled", i));
        }
        fn claim(&self, i: usize) {
            self.log.borrow_mut().push(("claimed", i));
        }
        fn read(&self, i: usize, from: usize, into: &mut [u8]) {
            into.copy_from_slice(&self.parts[i].1[from..][..into.len()]);
        }
    }

    /// A message with an octet, doubles, text, shorts, and a last number, in `order`. The octets of
    /// the ranges lie elsewhere.
    fn read<T>(
        order: Order,
        ranges: &[core::ops::Range<usize>],
        read: impl FnOnce(&mut Decoder<'_>) -> T,
    ) -> (T, Vec<(&'static str, usize)>) {
        let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
        e.put(7u8);
        e.count(3);
        for x in [1.0f64, 2.0, 3.0] {
            e.put(x);
        }
        e.string("middle");
        e.count(4);
        for x in [10u16, 20, 30, 40] {
            e.put(x);
        }
        e.put(9u32);
        let mut bytes = e.flatten().unwrap();
        let parts = ranges.iter().map(|range| (range.start, bytes[range.clone()].to_vec())).collect();
        ranges.iter().for_each(|range| bytes[range.clone()].fill(0xee));
        let elsewhere = Elsewhere { parts, log: RefCell::default() };
        let mut region = Region::new(256);
        let scope = region.enter();
        let value = read(&mut Decoder::new(&mut bytes, order, Text::DEFAULT, &scope).with_lent(&elsewhere));
        (value, elsewhere.log.into_inner())
    }

    // The doubles are at 8, the shorts behind the text of 4 + 7 octets and their count.
    const DOUBLES: core::ops::Range<usize> = 8..32;
    const SHORTS: core::ops::Range<usize> = 48..56;

    fn in_place(d: &mut Decoder<'_>) {
        assert_eq!(d.get(), Ok(7u8));
        let doubles: Lent<'_, f64> = d.read().unwrap();
        assert_eq!(d.string(), Ok("middle"));
        let shorts: Lent<'_, u16> = d.read().unwrap();
        assert_eq!((d.get(), d.remaining()), (Ok(9u32), 0));
        assert_eq!(
            (doubles.to_vec(), doubles.get(2), doubles.get(3)),
            (vec![1.0, 2.0, 3.0], Some(3.0), None)
        );
        assert!(shorts.iter().eq([10, 20, 30, 40]));
        let mut two = [0; 2];
        shorts.read(2, &mut two);
        assert_eq!(two, [30, 40]);
    }

    fn as_slices(d: &mut Decoder<'_>) {
        assert_eq!(d.get(), Ok(7u8));
        assert_eq!(d.plain_seq::<f64>(), Ok(&[1.0, 2.0, 3.0][..]));
        assert_eq!(d.string(), Ok("middle"));
        assert_eq!(d.plain_seq::<u16>(), Ok(&[10, 20, 30, 40][..]));
        assert_eq!((d.get(), d.remaining()), (Ok(9u32), 0));
    }

    #[test]
    fn a_part_is_claimed_by_the_sequence_that_it_is() {
        let native = |ranges: &[_]| read(Order::NATIVE, ranges, in_place).1;
        assert_eq!(native(&[DOUBLES, SHORTS]), [("claimed", 0), ("claimed", 1)]);
        assert_eq!(native(&[SHORTS]), [("claimed", 0)]);
        assert_eq!(native(&[]), []);
    }

    #[test]
    fn whatever_else_reads_a_part_finds_its_octets() {
        let native = |ranges: &[_]| read(Order::NATIVE, ranges, as_slices).1;
        assert_eq!(native(&[DOUBLES, SHORTS]), [("filled", 0), ("filled", 1)]);
        assert_eq!(native(&[SHORTS]), [("filled", 0)]);
    }

    #[test]
    fn a_part_that_is_no_whole_sequence_is_filled_wherever_it_lies() {
        for start in 0..59 {
            for end in start + 1..60 {
                let (_, log) = read(Order::NATIVE, core::slice::from_ref(&(start..end)), in_place);
                let whole = [DOUBLES, SHORTS].contains(&(start..end));
                assert_eq!(log.contains(&("claimed", 0)), whole, "{start}..{end}");
            }
        }
    }

    #[test]
    fn no_read_sees_the_room_of_a_part() {
        // Every octet one by one, past every boundary.
        for (start, end) in [(0, 1), (3, 9), (8, 32), (59, 60)] {
            let (all, _) = read(Order::NATIVE, core::slice::from_ref(&(start..end)), |d| {
                (0..d.remaining()).map(|_| d.get::<u8>().unwrap()).collect::<Vec<_>>()
            });
            let (same, _) = read(Order::NATIVE, &[], |d| d.take(d.remaining()).unwrap().to_vec());
            assert_eq!(all, same);
        }
    }

    #[test]
    fn a_foreign_byte_order_is_read_in_the_message() {
        let foreign = if Order::NATIVE == Order::Little { Order::Big } else { Order::Little };
        let (doubles, log) = read(foreign, core::slice::from_ref(&(8..16)), |d| {
            d.take(8).unwrap();
            d.plain_array::<f64>(1).unwrap()[0]
        });
        assert_eq!((doubles, log), (f64::from_bits(1.0f64.to_bits().swap_bytes()), vec![("filled", 0)]));
    }

    #[test]
    #[should_panic(expected = "elements of a sequence of 3")]
    fn more_elements_than_there_are_are_not_read() {
        read(Order::NATIVE, &[DOUBLES], |d| {
            d.get::<u8>().unwrap();
            d.read::<Lent<'_, f64>>().unwrap().read(1, &mut [0.0; 3]);
        });
    }
}
