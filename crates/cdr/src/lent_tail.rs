//! The parts of a message that lie elsewhere, as its decoder sees them.

/// The parts of one message that lie in memory of its sender, in their order. The sender may write
/// them at any time, so no method gives a reference to them.
pub trait LentOctets {
    /// Where part `i` begins in the message, and its length; `None` behind the last.
    fn part(&self, i: usize) -> Option<(usize, usize)>;

    /// Copies part `i` into its room in the message, `into`. It is not read again.
    fn fill(&self, i: usize, into: &mut [u8]);

    /// Part `i` is read where it lies.
    fn claim(&self, i: usize);

    /// Copies octets of part `i` from offset `from` on. Each octet is read once.
    ///
    /// # Panics
    /// If they do not lie within the part.
    fn read(&self, i: usize, from: usize, into: &mut [u8]);
}

/// A decoder's place in the lent octets of its message.
#[derive(Clone, Copy)]
pub(crate) struct LentTail<'m> {
    pub octets: &'m dyn LentOctets,
    /// The next part.
    pub next: usize,
    /// Where the decoder's tail begins in the message.
    pub at: usize,
}
