//! The types of values that an ORB can make.

use isorb_cdr::{Decoder, Result, ValueObject};
use std::any::Any;
use std::sync::Arc;

/// Makes a value from its state on the wire.
pub type ReadState = fn(&mut Decoder<'_>) -> Result<Arc<dyn ValueObject>>;

/// A valuetype, as the IDL compiler describes it: the factory of its values.
#[derive(Clone, Copy, Debug)]
pub struct ValueType {
    /// The repository id, then those of the bases to which a value of the type may be truncated.
    pub ids: &'static [&'static str],
    /// The state has a form of its own ([`CustomMarshal`](crate::CustomMarshal)).
    pub custom: bool,
    /// Reads the state; `None` for a type without values of its own.
    pub read: Option<ReadState>,
    /// The types of the same IDL file that derive from it, by repository id.
    pub derived: fn(&str) -> Option<&'static ValueType>,
}

impl ValueType {
    /// The repository id.
    pub fn id(&self) -> &'static str {
        self.ids.first().copied().unwrap_or_default()
    }

    /// The type with this repository id: itself, or one that derives from it.
    ///
    /// # Real-time
    /// Compares texts; allocates nothing.
    pub fn find(&'static self, id: &str) -> Option<&'static ValueType> {
        if self.id() == id { Some(self) } else { (self.derived)(id) }
    }
}

/// The types that a program registered with its ORB.
#[derive(Debug, Default)]
pub(crate) struct ValueTypes {
    known: Vec<&'static ValueType>,
    /// What makes servants of values, as the layer of values knows it.
    servants: Vec<Box<dyn Any + Send + Sync>>,
}

impl ValueTypes {
    pub fn add(&mut self, value_type: &'static ValueType) {
        self.known.push(value_type);
    }

    pub fn add_servants(&mut self, make: Box<dyn Any + Send + Sync>) {
        self.servants.push(make);
    }

    /// The newest first.
    pub fn servants(&self) -> impl Iterator<Item = &(dyn Any + Send + Sync)> {
        self.servants.iter().rev().map(|make| &**make)
    }

    /// The type with this repository id. A type that was registered by itself is preferred to one
    /// that came with its base.
    pub fn find(&self, id: &str) -> Option<&'static ValueType> {
        let itself = self.known.iter().rev().find(|known| known.id() == id).copied();
        itself.or_else(|| self.known.iter().find_map(|known| known.find(id)))
    }
}
