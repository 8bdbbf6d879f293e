//! Values of `idl/values.idl`, with the programs `values` of omniORB and JacORB.

mod cases;
pub mod graph;
mod servant;

pub use cases::{CASES, Cases, run};
pub use servant::Server;

use crate::generated::interop_values::*;
use crate::servants::internal;
use isorb::{Orb, Result, Value};
use std::collections::HashSet;
use std::sync::Arc;

/// An ORB that knows the types that arrive as values of their bases.
///
/// # Errors
/// Those of [`isorb::OrbBuilder::build`].
pub fn orb() -> Result<Orb> {
    let builder = Orb::builder().register(|info| {
        for known in [Node::value_type(), Text::value_type(), Money::value_type(), NamedValue::value_type()] {
            info.add_value_type(known);
        }
        Ok(())
    });
    builder.build()
}

/// Serves both interfaces by the root POA.
///
/// # Errors
/// Those of the root POA.
pub fn serve(orb: &Orb) -> Result<(BoxesRef, ValuesRef)> {
    let root = orb.root_poa()?;
    root.manager().activate()?;
    let boxes = root.activate(Arc::new(Server)).map_err(internal)?;
    Ok((boxes, root.activate(Arc::new(Server)).map_err(internal)?))
}

fn money(currency: &str, cents: i64) -> MoneyState {
    MoneyState { currency: currency.into(), cents }
}

fn priced(currency: &str, cents: i64, item: &str) -> Priced {
    PricedState { base: money(currency, cents), item: item.into() }.into()
}

/// How many nodes a list or a ring has.
fn length_of(head: Option<&Node>) -> u32 {
    let mut seen = HashSet::new();
    let mut at = head.cloned();
    while let Some(node) = at.filter(|node| seen.insert(node.value)) {
        at = node.next.get();
    }
    seen.len() as u32
}
