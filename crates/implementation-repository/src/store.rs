//! Registrations, and where servers run, in a file or in memory.

use crate::refusal::Refusal;
use crate::registration::Registration;
use crate::server::Instance;
use isorb_store::redb::{
    self, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction,
};
use isorb_store::{Database, Fault, OpenError, Schema, copy_table, missing_table};
use std::fmt;
use std::path::Path;

const NAME: &str = "isorb-implementation-repository-1";
/// Name to [`Registration`], as JSON.
const REGISTRATIONS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new(NAME);
/// Name to [`Instance`], as JSON.
const INSTANCES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("instances");

struct Tables;

impl Schema for Tables {
    fn create(&self, transaction: &WriteTransaction) -> Result<(), redb::Error> {
        transaction.open_table(REGISTRATIONS)?;
        transaction.open_table(INSTANCES)?;
        Ok(())
    }

    fn verify(&self, transaction: &ReadTransaction) -> Result<(), OpenError> {
        let registrations =
            transaction.open_table(REGISTRATIONS).map_err(|_| missing_table(transaction, NAME))?;
        let instances = transaction.open_table(INSTANCES).map_err(|_| OpenError::Corrupt)?;
        for record in registrations.iter().map_err(Fault::from)? {
            let (name, octets) = record.map_err(Fault::from)?;
            let read: Result<Registration, _> = serde_json::from_slice(octets.value());
            if !read.is_ok_and(|registration| registration.name == name.value()) {
                return Err(OpenError::Corrupt);
            }
        }
        for record in instances.iter().map_err(Fault::from)? {
            let (name, octets) = record.map_err(Fault::from)?;
            let known = registrations.get(name.value()).map_err(Fault::from)?.is_some();
            if !known || serde_json::from_slice::<Instance>(octets.value()).is_err() {
                return Err(OpenError::Corrupt);
            }
        }
        Ok(())
    }

    fn copy(&self, from: &ReadTransaction, into: &WriteTransaction) -> Result<(), redb::Error> {
        copy_table(from, into, REGISTRATIONS)?;
        copy_table(from, into, INSTANCES)
    }
}

/// The registrations of a repository.
///
/// # Real-time
/// Not for real-time lanes: it allocates, takes locks, and waits for its disk.
pub struct RegistrationStore(Backing);

enum Backing {
    File(Database<Tables>),
    Memory(redb::Database),
}

impl RegistrationStore {
    /// Opens a store, or creates one if there is no file.
    ///
    /// # Errors
    /// Those of [`Database::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<RegistrationStore, OpenError> {
        Ok(RegistrationStore(Backing::File(Database::open(path, Tables)?)))
    }

    /// A store in memory.
    ///
    /// # Errors
    /// None is known.
    pub fn memory() -> Result<RegistrationStore, OpenError> {
        let backend = redb::backends::InMemoryBackend::new();
        let database = redb::Builder::new().create_with_backend(backend)?;
        let transaction = database.begin_write().map_err(Fault::from)?;
        Tables.create(&transaction)?;
        transaction.commit().map_err(Fault::from)?;
        Ok(RegistrationStore(Backing::Memory(database)))
    }

    /// All registrations, with what ran.
    pub(crate) fn load(&self) -> Result<Vec<(Registration, Option<Instance>)>, Refusal> {
        self.read(|transaction| {
            let registrations = transaction.open_table(REGISTRATIONS)?;
            let instances = transaction.open_table(INSTANCES)?;
            let mut all = Vec::new();
            for record in registrations.iter()? {
                let (name, octets) = record?;
                let registration = parse(octets.value())?;
                let instance = instances.get(name.value())?;
                all.push((registration, instance.map(|octets| parse(octets.value())).transpose()?));
            }
            Ok(all)
        })
    }

    pub(crate) fn put(&self, registration: &Registration) -> Result<(), Refusal> {
        let octets = octets(registration)?;
        self.write(|transaction| {
            transaction.open_table(REGISTRATIONS)?.insert(&*registration.name, &*octets)?;
            Ok(())
        })
    }

    pub(crate) fn remove(&self, name: &str) -> Result<(), Refusal> {
        self.write(|transaction| {
            transaction.open_table(INSTANCES)?.remove(name)?;
            transaction.open_table(REGISTRATIONS)?.remove(name)?;
            Ok(())
        })
    }

    pub(crate) fn set_instance(&self, name: &str, instance: Option<&Instance>) -> Result<(), Refusal> {
        let octets = instance.map(octets).transpose()?;
        self.write(|transaction| {
            let mut instances = transaction.open_table(INSTANCES)?;
            match &octets {
                Some(octets) => drop(instances.insert(name, &**octets)?),
                None => drop(instances.remove(name)?),
            }
            Ok(())
        })
    }

    fn read<T>(&self, run: impl Fn(&ReadTransaction) -> Result<T, Refusal>) -> Result<T, Refusal> {
        match &self.0 {
            Backing::File(database) => database.read(run),
            Backing::Memory(database) => run(&database.begin_read()?),
        }
    }

    fn write<T>(&self, run: impl FnOnce(&WriteTransaction) -> Result<T, Refusal>) -> Result<T, Refusal> {
        match &self.0 {
            Backing::File(database) => database.write(run),
            Backing::Memory(database) => {
                let transaction = database.begin_write()?;
                let value = run(&transaction)?;
                transaction.commit()?;
                Ok(value)
            }
        }
    }
}

fn parse<T: serde::de::DeserializeOwned>(octets: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(octets).map_err(|_| Refusal::Failed(Fault::Corrupt))
}

fn octets<T: serde::Serialize>(value: &T) -> Result<Vec<u8>, Refusal> {
    serde_json::to_vec(value).map_err(|_| Refusal::Failed(Fault::Corrupt))
}

impl fmt::Debug for RegistrationStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RegistrationStore")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registration::tests::sample;
    use isorb_testkit::TempFolder;

    #[test]
    fn registrations_survive() {
        let folder = TempFolder::new();
        let file = folder.file("r.redb");
        let instance = Instance { token: "t".into(), reference: "IOR:1".into(), process: None };
        {
            let store = RegistrationStore::open(&file).unwrap();
            store.put(&sample("a")).unwrap();
            store.put(&sample("b")).unwrap();
            store.put(&sample("c")).unwrap();
            store.set_instance("a", Some(&instance)).unwrap();
            store.set_instance("b", Some(&instance)).unwrap();
            store.set_instance("b", None).unwrap();
            store.remove("c").unwrap();
        }
        let store = RegistrationStore::open(&file).unwrap();
        assert_eq!(store.load().unwrap(), [(sample("a"), Some(instance)), (sample("b"), None)]);
        drop(store);
        std::fs::write(&file, "something else").unwrap();
        assert!(RegistrationStore::open(&file).is_err());
    }
}
