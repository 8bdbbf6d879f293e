//! Values of IDL types as the octets of an event.

use isorb::generated::{Decode, Encode, Idl, call_scope};
use isorb::{Kind, Result, SystemException};
use isorb_cdr::{Decoder, Encoder, Order, Text};

/// The octets of a value: a CDR encapsulation (the byte order, then the value), as in an `any`
/// without its type.
///
/// ```
/// let octets = isorb_event::remote::encode(&48.2f64)?;
/// assert_eq!(isorb_event::remote::decode::<f64>(&octets)?, 48.2);
/// # Ok::<(), isorb::SystemException>(())
/// ```
///
/// # Errors
/// MARSHAL for a value that its type does not allow, such as text beyond its bound; IMP_LIMIT or
/// NO_MEMORY for one that is too large.
///
/// # Real-time
/// Allocates.
pub fn encode<T: Idl>(value: &T) -> Result<Vec<u8>> {
    call_scope(|scope| {
        let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
        e.put(u8::from(cfg!(target_endian = "little")));
        value.view_in(scope).map_err(SystemException::from)?.encode(&mut e);
        e.flatten().map_err(SystemException::from)
    })
}

/// The value of octets that [`encode`] made.
///
/// # Errors
/// MARSHAL for octets that are no such value.
///
/// # Real-time
/// Allocates.
pub fn decode<T: Idl>(octets: &[u8]) -> Result<T> {
    let Some(flag) = octets.first() else {
        return Err(SystemException::from(Kind::Marshal).detail("the event has no octets"));
    };
    let order = if flag & 1 == 1 { Order::Little } else { Order::Big };
    call_scope(|scope| {
        let octets = scope.slice(octets).map_err(SystemException::from)?;
        let mut d = Decoder::new(octets, order, Text::DEFAULT, scope);
        d.skip(1);
        Ok(T::from_view(T::View::decode(&mut d)?))
    })
}
