//! The tables of a store.

use crate::binding::{Binding, ContextId};
use crate::store::{Fault, OpenError, new_stamp};
use isorb_store::redb::{self, ReadTransaction, ReadableTable, TableDefinition, WriteTransaction};
use isorb_store::{Schema, copy_table};

/// Numbers by name: [`FORMAT_KEY`], [`STAMP_KEY`], [`LAST_KEY`].
pub const META: TableDefinition<'_, &str, u64> = TableDefinition::new("isorb-naming");
/// The contexts that exist.
pub const CONTEXTS: TableDefinition<'_, u64, ()> = TableDefinition::new("contexts");
/// Context, id, kind to [`Binding::to_octets`]. The order of the keys is the order of listings.
pub const BINDINGS: TableDefinition<'_, (u64, &str, &str), &[u8]> = TableDefinition::new("bindings");

const FORMAT_KEY: &str = "format";
pub const STAMP_KEY: &str = "stamp";
/// The number of the newest context.
pub const LAST_KEY: &str = "last";

/// The layout of the tables above.
const FORMAT: u64 = 1;

/// Contexts and bindings.
pub struct Names;

impl Schema for Names {
    fn create(&self, transaction: &WriteTransaction) -> Result<(), redb::Error> {
        let mut meta = transaction.open_table(META)?;
        meta.insert(FORMAT_KEY, FORMAT)?;
        meta.insert(STAMP_KEY, new_stamp())?;
        meta.insert(LAST_KEY, ContextId::ROOT.0)?;
        transaction.open_table(CONTEXTS)?.insert(ContextId::ROOT.0, ())?;
        transaction.open_table(BINDINGS)?;
        Ok(())
    }

    fn verify(&self, transaction: &ReadTransaction) -> Result<(), OpenError> {
        transaction.open_table(META).map_err(|_| OpenError::Foreign)?;
        match number(transaction, FORMAT_KEY)? {
            FORMAT => {}
            other => return Err(OpenError::Version(other)),
        }
        number(transaction, STAMP_KEY)?;
        let last = number(transaction, LAST_KEY)?;
        let contexts = transaction.open_table(CONTEXTS).map_err(|_| OpenError::Corrupt)?;
        let bindings = transaction.open_table(BINDINGS).map_err(|_| OpenError::Corrupt)?;
        let exists = |id: u64| Ok::<_, Fault>(contexts.get(id)?.is_some());
        if !exists(ContextId::ROOT.0)? {
            return Err(OpenError::Corrupt);
        }
        for context in contexts.iter().map_err(Fault::from)? {
            if context.map_err(Fault::from)?.0.value() > last {
                return Err(OpenError::Corrupt);
            }
        }
        for binding in bindings.iter().map_err(Fault::from)? {
            let (key, value) = binding.map_err(Fault::from)?;
            if !exists(key.value().0)? || Binding::from_octets(value.value()).is_none() {
                return Err(OpenError::Corrupt);
            }
        }
        Ok(())
    }

    fn copy(&self, from: &ReadTransaction, into: &WriteTransaction) -> Result<(), redb::Error> {
        copy_table(from, into, META)?;
        copy_table(from, into, CONTEXTS)?;
        copy_table(from, into, BINDINGS)
    }
}

/// A number of [`META`].
pub fn number(transaction: &ReadTransaction, key: &str) -> Result<u64, Fault> {
    let value = transaction.open_table(META)?.get(key)?;
    value.map(|value| value.value()).ok_or(Fault::Corrupt)
}
