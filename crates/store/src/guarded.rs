//! A database that may be dropped whatever its file holds.

use crate::Fault;
use crate::open::guard;
use redb::Database;
use std::ops::{Deref, DerefMut};

/// Closes its database behind a guard: the library writes when a database is dropped, and asserts
/// what a damaged file does not keep.
pub struct Guarded(Option<Database>);

impl From<Database> for Guarded {
    fn from(database: Database) -> Guarded {
        Guarded(Some(database))
    }
}

impl Deref for Guarded {
    type Target = Database;

    fn deref(&self) -> &Database {
        self.0.as_ref().expect("it is there until the drop")
    }
}

impl DerefMut for Guarded {
    fn deref_mut(&mut self) -> &mut Database {
        self.0.as_mut().expect("it is there until the drop")
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let database = self.0.take();
        // What was committed is on disk already.
        let _ = guard(|| {
            drop(database);
            Ok::<_, Fault>(())
        });
    }
}
