//! stand-in until giop has it
use isorb_cdr::Message;
use isorb_giop::{Header, ProtocolError};
use isorb_scope::{Buffer, BufferPool};
use std::io::IoSlice;
use std::sync::Arc;
pub struct Assembler;
impl Assembler {
    pub fn new(_: usize) -> Assembler {
        Assembler
    }
    pub fn push(
        &mut self,
        _: &Header,
        _: &[u8],
        _: &Arc<BufferPool>,
    ) -> Result<Option<(Header, Buffer, usize)>, ProtocolError> {
        Err(ProtocolError::FragmentLimit)
    }
}
pub fn fragments<E>(
    _m: &Message<'_>,
    _id: u32,
    _max: usize,
    _f: impl FnMut(&[IoSlice<'_>]) -> Result<(), E>,
) -> Result<(), E> {
    Ok(())
}
