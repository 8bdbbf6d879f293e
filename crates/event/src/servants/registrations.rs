//! Registrations of remote consumers and suppliers in a file, so that they outlive the process.

use crate::event::Header;
use crate::filter::Dependency;
use isorb::poa::ObjectId;
use isorb::{Completion, Kind, SystemException};
use isorb_store::redb::{self, ReadTransaction, ReadableTable, TableDefinition, WriteTransaction};
use isorb_store::{Database, Fault, OpenError, Schema, copy_table};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// The connected proxies of a service, in a file.
///
/// A registration is on disk before the peer learns that it is connected. After a restart, a
/// `kill -9` or a loss of power, the service serves the proxies of all such peers, under their old
/// references. While the disk takes no writes, peers are not connected (PERSIST_STORE), and events
/// go on.
#[derive(Debug, Clone)]
pub struct RegistrationStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    database: Database<Registrations>,
    /// The first octets of the ids that this process gives: no other process gave them.
    stamp: u64,
    next: AtomicU32,
}

/// A connected proxy.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Registration {
    pub role: Role,
    /// The stringified reference of the peer; empty for none.
    pub reference: String,
    pub gateway: bool,
    pub suspended: bool,
    /// A consumer's dependencies, or a supplier's publications.
    pub dependencies: Vec<Dependency>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Consumer,
    Supplier,
}

/// Flags, the peer's reference, and the list of dependencies.
type Record<'r> = (u8, &'r str, &'r [u8]);

/// Records by the proxy's id.
const TABLE: TableDefinition<'_, &[u8], Record<'static>> = TableDefinition::new("event-registrations-1");

/// Octets of a dependency: type, source, creation time, handle.
const ENTRY: usize = 20;

struct Registrations;

impl Schema for Registrations {
    fn create(&self, transaction: &WriteTransaction) -> Result<(), redb::Error> {
        transaction.open_table(TABLE)?;
        Ok(())
    }

    fn verify(&self, transaction: &ReadTransaction) -> Result<(), OpenError> {
        let table = transaction.open_table(TABLE).map_err(|_| OpenError::Foreign)?;
        for entry in table.iter().map_err(Fault::from)? {
            let (_, record) = entry.map_err(Fault::from)?;
            Registration::read(record.value()).ok_or(OpenError::Corrupt)?;
        }
        Ok(())
    }

    fn copy(&self, from: &ReadTransaction, into: &WriteTransaction) -> Result<(), redb::Error> {
        copy_table(from, into, TABLE)
    }
}

impl RegistrationStore {
    /// Opens the file, or creates it.
    ///
    /// # Errors
    /// Those of [`Database::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<RegistrationStore, OpenError> {
        let database = Database::open(path, Registrations)?;
        let (stamp, next) = (isorb_rt::random_u64(), AtomicU32::new(0));
        Ok(RegistrationStore(Arc::new(Inner { database, stamp, next })))
    }

    /// An id that no proxy had.
    pub(super) fn new_id(&self) -> ObjectId {
        let mut id = self.0.stamp.to_be_bytes().to_vec();
        id.extend(self.0.next.fetch_add(1, Relaxed).to_be_bytes());
        ObjectId::from(&id[..])
    }

    pub(super) fn put(&self, id: &ObjectId, registration: &Registration) -> Result<(), SystemException> {
        let list = registration.list();
        let put = |transaction: &WriteTransaction| -> Result<(), Fault> {
            let record = (registration.flags(), registration.reference.as_str(), &list[..]);
            transaction.open_table(TABLE)?.insert(id.as_bytes(), record)?;
            Ok(())
        };
        self.0.database.write(put).map_err(|fault| failed(&fault))
    }

    /// Forgets a proxy. After a fault it comes back with the next process, where the ping of its
    /// peer removes it.
    pub(super) fn remove(&self, id: &ObjectId) {
        let remove = |transaction: &WriteTransaction| -> Result<(), Fault> {
            transaction.open_table(TABLE)?.remove(id.as_bytes())?;
            Ok(())
        };
        // The store logs the first fault.
        let _ = self.0.database.write(remove);
    }

    /// Forgets all proxies: the channel was destroyed.
    pub(super) fn clear(&self) {
        let clear = |transaction: &WriteTransaction| -> Result<(), Fault> {
            transaction.open_table(TABLE)?.retain(|_, _| false)?;
            Ok(())
        };
        let _ = self.0.database.write(clear);
    }

    pub(super) fn all(&self) -> Result<Vec<(ObjectId, Registration)>, SystemException> {
        let read = |transaction: &ReadTransaction| -> Result<_, Fault> {
            let table = transaction.open_table(TABLE)?;
            let entries = table.iter()?.map(|entry| {
                let (id, record) = entry?;
                let registration = Registration::read(record.value()).ok_or(Fault::Corrupt)?;
                Ok((ObjectId::from(id.value()), registration))
            });
            entries.collect()
        };
        self.0.database.read(read).map_err(|fault| failed(&fault))
    }
}

fn failed(fault: &Fault) -> SystemException {
    SystemException::new(Kind::PersistStore, 0, Completion::No).detail(fault.to_string())
}

impl Registration {
    fn flags(&self) -> u8 {
        u8::from(self.role == Role::Supplier) | u8::from(self.gateway) << 1 | u8::from(self.suspended) << 2
    }

    fn list(&self) -> Vec<u8> {
        let entry = |Dependency { header, rt_info }: &Dependency| {
            let mut octets = [0; ENTRY];
            octets[..4].copy_from_slice(&header.event_type.to_be_bytes());
            octets[4..8].copy_from_slice(&header.source.to_be_bytes());
            octets[8..16].copy_from_slice(&header.creation_time.to_be_bytes());
            octets[16..].copy_from_slice(&rt_info.to_be_bytes());
            octets
        };
        self.dependencies.iter().flat_map(entry).collect()
    }

    /// `None` for a record that no registration makes.
    fn read((flags, reference, list): Record<'_>) -> Option<Registration> {
        let (entries, rest) = list.as_chunks::<ENTRY>();
        if flags > 7 || !rest.is_empty() {
            return None;
        }
        let number = |octets: &[u8]| octets.try_into().map_or(0, i32::from_be_bytes);
        let entry = |octets: &[u8; ENTRY]| Dependency {
            header: Header {
                event_type: number(&octets[..4]),
                source: number(&octets[4..8]),
                creation_time: octets[8..16].try_into().map_or(0, u64::from_be_bytes),
                ..Header::default()
            },
            rt_info: number(&octets[16..]),
        };
        Some(Registration {
            role: if flags & 1 == 0 { Role::Consumer } else { Role::Supplier },
            gateway: flags & 2 != 0,
            suspended: flags & 4 != 0,
            reference: reference.to_owned(),
            dependencies: entries.iter().map(entry).collect(),
        })
    }
}
