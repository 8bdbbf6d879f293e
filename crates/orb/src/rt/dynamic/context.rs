//! A distributable thread on the wire: a service context of our own, an encapsulation of its id,
//! the name and parameters of its segment.

use super::Parameter;
use super::stack::Segment;
use super::threads::Guid;
use crate::{Orb, Result, SystemException};
use isorb_cdr::{Decoder, Encoder, ErrorKind, Order, Text};
use isorb_giop::Kind;
use isorb_giop::context::decoder;
use isorb_rt::priority::Priority;
use isorb_rt::time::now_ns;

/// The context's id.
pub(super) const SCHEDULING: u32 = 0x4953_0110;

const NONE: u32 = 0;
const PRIORITY: u32 = 1;
const DEADLINE: u32 = 2;

/// The octets of the context.
///
/// # Errors
/// MARSHAL for a name with a zero character in it.
pub(super) fn write(id: Guid, segment: &Segment) -> Result<Vec<u8>> {
    let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
    e.raw(&[Order::NATIVE.flag()]);
    e.raw(&id.0);
    e.string(&segment.name);
    for parameter in [Some(segment.parameter), segment.implicit] {
        match parameter {
            None => e.put(NONE),
            Some(Parameter::Priority(priority)) => {
                e.put(PRIORITY);
                e.put(priority.get());
            }
            Some(Parameter::Deadline { at_ns, importance }) => {
                e.put(DEADLINE);
                e.put(at_ns.saturating_sub(now_ns()));
                e.put(importance);
            }
        }
    }
    Ok(e.flatten()?)
}

/// Reads the context.
///
/// # Errors
/// MARSHAL.
pub(super) fn read(orb: &Orb, data: &[u8]) -> Result<(Guid, Segment)> {
    orb.scope(|scope| {
        let mut d = decoder(data, Text::DEFAULT, scope)?;
        let octets: &[u8] = d.take(16)?;
        let id = Guid(*octets.first_chunk().ok_or(SystemException::from(Kind::Marshal))?);
        let name = d.string()?.to_owned();
        let parameter = parameter(&mut d)?.ok_or_else(|| d.error(ErrorKind::Value))?;
        let implicit = self::parameter(&mut d)?;
        Ok((id, Segment { name, parameter, implicit }))
    })
}

fn parameter(d: &mut Decoder<'_>) -> isorb_cdr::Result<Option<Parameter>> {
    Ok(match d.get::<u32>()? {
        NONE => None,
        PRIORITY => {
            let priority = Priority::new(d.get()?).ok_or_else(|| d.error(ErrorKind::Value))?;
            Some(Parameter::Priority(priority))
        }
        DEADLINE => {
            let at_ns = now_ns().saturating_add(d.get()?);
            Some(Parameter::Deadline { at_ns, importance: d.get()? })
        }
        _ => return Err(d.error(ErrorKind::Value)),
    })
}
