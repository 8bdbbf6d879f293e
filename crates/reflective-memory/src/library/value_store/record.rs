//! The form of a stored value.
//!
//! | octets | field, little-endian |
//! |---|---|
//! | 8 | when it was written, ns since 1970 by the clock of the day |
//! | 4 | octets of the area's largest value |
//! | 4 | histories of the area |
//! | 4 | octets of the type's text |
//! | | the type's text |
//! | | the value |

use super::VALUES;
use crate::idl::{Area, DataType};
use isorb_store::redb::{self, ReadTransaction, ReadableTable, TableHandle, WriteTransaction};
use isorb_store::{OpenError, Schema, copy_table, missing_table};
use std::borrow::{Borrow, Cow};

/// The tables of the file.
pub(super) struct Values;

/// A value with its area, which is borrowed when it is written.
pub(super) struct Record<'a, A: Borrow<Area> = &'a Area> {
    pub written: u64,
    pub what: A,
    pub value: Cow<'a, [u8]>,
}

impl<A: Borrow<Area>> Record<'_, A> {
    pub fn write(&self) -> Vec<u8> {
        let Area { size, histories, data, .. } = self.what.borrow();
        let text = data.to_text();
        let mut out = Vec::with_capacity(20 + text.len() + self.value.len());
        out.extend(self.written.to_le_bytes());
        for number in [*size, *histories, text.len() as u32] {
            out.extend(number.to_le_bytes());
        }
        out.extend(text.as_bytes());
        out.extend(&*self.value);
        out
    }
}

impl<'a> Record<'a, Area> {
    /// None for octets that [`write`](Self::write) does not give. The area has no name.
    pub fn read(octets: &'a [u8]) -> Option<Record<'a, Area>> {
        let (written, rest) = octets.split_first_chunk()?;
        let (size, rest) = rest.split_first_chunk()?;
        let (histories, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (text, value) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let data = DataType::from_text(std::str::from_utf8(text).ok()?)?;
        let (size, histories) = (u32::from_le_bytes(*size), u32::from_le_bytes(*histories));
        let what = Area { name: String::new(), size, histories, data };
        let is_one = value.len() <= size as usize;
        is_one.then(|| Record { written: u64::from_le_bytes(*written), what, value: value.into() })
    }
}

impl Schema for Values {
    fn create(&self, transaction: &WriteTransaction) -> Result<(), redb::Error> {
        transaction.open_table(VALUES)?;
        Ok(())
    }

    fn verify(&self, transaction: &ReadTransaction) -> Result<(), OpenError> {
        let values = transaction.open_table(VALUES).map_err(|_| missing_table(transaction, VALUES.name()))?;
        for entry in values.iter().map_err(|_| OpenError::Corrupt)? {
            let (_, record) = entry.map_err(|_| OpenError::Corrupt)?;
            Record::read(record.value()).ok_or(OpenError::Corrupt)?;
        }
        Ok(())
    }

    fn copy(&self, from: &ReadTransaction, into: &WriteTransaction) -> Result<(), redb::Error> {
        copy_table(from, into, VALUES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_written_is_read_and_a_cut_record_is_refused() {
        let what = Area::new("", 8, 3).typed(DataType::of::<f64>());
        let record = Record { written: 7, what: &what, value: vec![1, 2, 3].into() }.write();
        let read = Record::read(&record).unwrap();
        assert_eq!((read.written, &read.what, &*read.value), (7, &what, &[1, 2, 3][..]));
        for len in 0..record.len() - 3 {
            assert!(Record::read(&record[..len]).is_none(), "{len}");
        }
        let large = Record { written: 7, what: &what, value: vec![0; 9].into() }.write();
        assert!(Record::read(&large).is_none(), "larger than its area");
    }

    proptest! {
        #[test]
        fn any_octets_are_read_or_refused(octets in any::<Vec<u8>>()) {
            let _ = Record::read(&octets);
        }
    }
}
