//! Service contexts in a message.

use crate::cursor::Cursor;
use crate::octets::put_octets;
use isorb_cdr::{Decoder, Encoder, Order, Result};

/// One service context: its id, and its octets, which are an encapsulation by rule (clause 7.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceContext<'a> {
    /// Service id; see [`context`](crate::context).
    pub id: u32,
    /// The octets, byte-order octet included.
    pub data: &'a [u8],
}

/// The service contexts of a message. They are checked when the header is read, and decoded when a
/// caller asks for one.
#[derive(Clone, Copy)]
pub struct ServiceContexts<'m> {
    bytes: &'m [u8],
    base: usize,
    order: Order,
    count: usize,
}

impl<'m> ServiceContexts<'m> {
    /// None.
    pub const EMPTY: ServiceContexts<'static> =
        ServiceContexts { bytes: &[], base: 0, order: Order::NATIVE, count: 0 };

    /// Measures and takes the contexts.
    #[inline(always)]
    pub(super) fn read(d: &mut Decoder<'m>) -> Result<ServiceContexts<'m>> {
        match d.count(8)? {
            0 => Ok(ServiceContexts::EMPTY),
            count => ServiceContexts::measure(d, count),
        }
    }

    #[cold]
    fn measure(d: &mut Decoder<'m>, count: usize) -> Result<ServiceContexts<'m>> {
        let (base, order) = (d.position(), d.order());
        let mut cursor = Cursor::at_offset(d.rest(), base, order);
        for _ in 0..count {
            cursor.u32()?;
            cursor.octets()?;
        }
        let length = cursor.position();
        Ok(ServiceContexts { bytes: d.take(length)?, base, order, count })
    }

    /// The end of `count` contexts that begin at an offset of a whole message. `None` if they are
    /// malformed or `passes` rejects one of their ids.
    #[inline(never)]
    pub(super) fn end(
        message: &[u8],
        (base, order): (usize, Order),
        count: usize,
        passes: impl Fn(u32) -> bool,
    ) -> Option<usize> {
        let rest = message.get(base..)?;
        // Each takes eight octets at least.
        if count > rest.len() / 8 {
            return None;
        }
        let mut cursor = Cursor::at_offset(rest, base, order);
        for _ in 0..count {
            let id = cursor.u32().ok()?;
            cursor.octets().ok()?;
            if !passes(id) {
                return None;
            }
        }
        Some(base + cursor.position())
    }

    /// Contexts with a known end.
    #[inline(always)]
    pub(super) fn measured(bytes: &'m [u8], base: usize, order: Order, count: usize) -> ServiceContexts<'m> {
        ServiceContexts { bytes, base, order, count }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// All of them in order.
    pub fn iter(&self) -> ServiceContextIter<'m> {
        ServiceContextIter { cursor: Cursor::at_offset(self.bytes, self.base, self.order), left: self.count }
    }

    /// The octets of the first context with this id.
    ///
    /// # Real-time
    /// Linear in the number of contexts; allocates nothing.
    pub fn get(&self, id: u32) -> Option<&'m [u8]> {
        self.iter().find(|context| context.id == id).map(|context| context.data)
    }
}

impl<'m> IntoIterator for ServiceContexts<'m> {
    type Item = ServiceContext<'m>;
    type IntoIter = ServiceContextIter<'m>;
    fn into_iter(self) -> ServiceContextIter<'m> {
        self.iter()
    }
}

impl<'m> IntoIterator for &ServiceContexts<'m> {
    type Item = ServiceContext<'m>;
    type IntoIter = ServiceContextIter<'m>;
    fn into_iter(self) -> ServiceContextIter<'m> {
        self.iter()
    }
}

impl core::fmt::Debug for ServiceContexts<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Walks the contexts of a message.
#[derive(Clone, Debug)]
pub struct ServiceContextIter<'m> {
    cursor: Cursor<'m>,
    left: usize,
}

impl<'m> Iterator for ServiceContextIter<'m> {
    type Item = ServiceContext<'m>;

    fn next(&mut self) -> Option<ServiceContext<'m>> {
        self.left = self.left.checked_sub(1)?;
        let id = self.cursor.u32().ok()?;
        let data = self.cursor.octets().ok()?;
        Some(ServiceContext { id, data })
    }
}

/// Writes a list of contexts.
#[inline(always)]
pub(super) fn write(e: &mut Encoder<'_>, contexts: &[ServiceContext<'_>]) {
    e.count(contexts.len());
    if !contexts.is_empty() {
        write_each(e, contexts);
    }
}

#[cold]
pub(super) fn write_each(e: &mut Encoder<'_>, contexts: &[ServiceContext<'_>]) {
    for context in contexts {
        e.put(context.id);
        put_octets(e, context.data);
    }
}
