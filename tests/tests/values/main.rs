//! Values: octets that TAO recorded, graphs between two ORBs, and hostile messages.

mod idl {
    isorb::include_idl!("values");
}

mod calls;
mod graphs;
mod hostile;
mod recorded;
mod supports;
mod wire;

use isorb::CustomMarshal;
use isorb::generated::{CdrResult, Decoder, Encoder};

/// The members in the other order.
impl CustomMarshal for idl::values::CodeState {
    fn marshal<'v>(&'v self, e: &mut Encoder<'v>) {
        e.string(&self.b);
        e.put(self.a);
    }
    fn unmarshal(d: &mut Decoder<'_>) -> CdrResult<Self> {
        let b = d.string_owned()?;
        Ok(idl::values::CodeState { b, a: d.get()? })
    }
}
