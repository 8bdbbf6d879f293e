//! Stores for the coordinator's directory.

use super::{AreaLocation, NodeEntry};
use crate::idl::{Area, DataType};
use isorb_rt::sync::PiMutex;
use isorb_store::redb::{
    self, ReadTransaction, ReadableTable, TableDefinition, TableHandle, WriteTransaction,
};
use isorb_store::{Database, Fault, OpenError, Schema, copy_table, missing_table};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// A store of nodes and areas. After a crash, each call's change is there completely or not at all.
pub trait CoordinatorStore: Send + Sync {
    /// All nodes.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn nodes(&self) -> Result<Vec<NodeEntry>, StoreError>;
    /// All areas.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn areas(&self) -> Result<Vec<AreaLocation>, StoreError>;
    /// One area.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn area(&self, name: &str) -> Result<Option<AreaLocation>, StoreError>;
    /// Stores a node with its areas; `forgotten` are areas that it no longer has.
    ///
    /// # Errors
    /// When the store cannot be written; nothing has changed then.
    fn set_node(&self, node: &NodeEntry, held: &[Area], forgotten: &[String]) -> Result<(), StoreError>;
    /// Removes a node and its areas.
    ///
    /// # Errors
    /// As [`set_node`](Self::set_node).
    fn remove_node(&self, name: &str) -> Result<(), StoreError>;
    /// Stores an area.
    ///
    /// # Errors
    /// As [`set_node`](Self::set_node).
    fn set_area(&self, location: &AreaLocation) -> Result<(), StoreError>;
    /// Removes an area.
    ///
    /// # Errors
    /// As [`set_node`](Self::set_node).
    fn remove_area(&self, name: &str) -> Result<(), StoreError>;
}

/// The store failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreError {
    /// The file cannot be opened.
    Open(OpenError),
    /// Reading or writing failed. After a fault of the disk, reads go on and writes resume.
    Fault(Fault),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the coordinator's store: ")?;
        match self {
            StoreError::Open(error) => write!(f, "{error}"),
            StoreError::Fault(fault) => write!(f, "{fault}"),
        }
    }
}

impl std::error::Error for StoreError {}

/// A store in memory, which is lost with the process.
#[derive(Debug, Default)]
pub struct MemoryStore(PiMutex<Contents>);

#[derive(Debug, Default)]
struct Contents {
    nodes: BTreeMap<String, NodeEntry>,
    areas: BTreeMap<String, AreaLocation>,
}

impl CoordinatorStore for MemoryStore {
    fn nodes(&self) -> Result<Vec<NodeEntry>, StoreError> {
        Ok(self.0.lock().nodes.values().cloned().collect())
    }

    fn areas(&self) -> Result<Vec<AreaLocation>, StoreError> {
        Ok(self.0.lock().areas.values().cloned().collect())
    }

    fn area(&self, name: &str) -> Result<Option<AreaLocation>, StoreError> {
        Ok(self.0.lock().areas.get(name).cloned())
    }

    fn set_node(&self, node: &NodeEntry, held: &[Area], forgotten: &[String]) -> Result<(), StoreError> {
        let mut contents = self.0.lock();
        contents.nodes.insert(node.name.clone(), node.clone());
        contents.areas.retain(|name, _| !forgotten.contains(name));
        for area in held {
            contents
                .areas
                .insert(area.name.clone(), AreaLocation { area: area.clone(), node: node.name.clone() });
        }
        Ok(())
    }

    fn remove_node(&self, name: &str) -> Result<(), StoreError> {
        let mut contents = self.0.lock();
        contents.nodes.remove(name);
        contents.areas.retain(|_, location| location.node != name);
        Ok(())
    }

    fn set_area(&self, location: &AreaLocation) -> Result<(), StoreError> {
        self.0.lock().areas.insert(location.area.name.clone(), location.clone());
        Ok(())
    }

    fn remove_area(&self, name: &str) -> Result<(), StoreError> {
        self.0.lock().areas.remove(name);
        Ok(())
    }
}

/// A store in a file.
#[derive(Debug)]
pub struct FileStore(Database<Register>);

/// The tables of the file.
struct Register;

impl Schema for Register {
    fn create(&self, transaction: &WriteTransaction) -> Result<(), redb::Error> {
        transaction.open_table(NODES)?;
        transaction.open_table(AREAS)?;
        Ok(())
    }

    fn verify(&self, transaction: &ReadTransaction) -> Result<(), OpenError> {
        transaction.open_table(NODES).map_err(|_| missing_table(transaction, NODES.name()))?;
        transaction.open_table(AREAS).map(drop).map_err(|_| OpenError::Corrupt)
    }

    fn copy(&self, from: &ReadTransaction, into: &WriteTransaction) -> Result<(), redb::Error> {
        copy_table(from, into, NODES)?;
        copy_table(from, into, AREAS)
    }
}

const NODES: TableDefinition<'_, &str, (u64, &str)> = TableDefinition::new("nodes-1");
const AREAS: TableDefinition<'_, &str, (&str, u32, u32)> = TableDefinition::new("areas-1");

impl FileStore {
    /// Opens the file, or makes it.
    ///
    /// # Errors
    /// [`StoreError::Open`].
    pub fn open(path: impl AsRef<Path>) -> Result<FileStore, StoreError> {
        Database::open(path, Register).map(FileStore).map_err(StoreError::Open)
    }

    fn change(
        &self,
        what: impl FnOnce(&mut Nodes<'_>, &mut Areas<'_>) -> Result<(), Fault>,
    ) -> Result<(), StoreError> {
        let change = self.0.write(|transaction| {
            let mut nodes = transaction.open_table(NODES)?;
            let mut areas = transaction.open_table(AREAS)?;
            what(&mut nodes, &mut areas)
        });
        change.map_err(StoreError::Fault)
    }

    fn read<T>(&self, run: impl Fn(&ReadTransaction) -> Result<T, Fault>) -> Result<T, StoreError> {
        self.0.read(run).map_err(StoreError::Fault)
    }
}

type Nodes<'t> = redb::Table<'t, &'static str, (u64, &'static str)>;
type Areas<'t> = redb::Table<'t, &'static str, (&'static str, u32, u32)>;

fn put_area(areas: &mut Areas<'_>, location: &AreaLocation) -> Result<(), Fault> {
    let AreaLocation { area, node } = location;
    // A node's name has no zero octet. Registers without types were written by earlier versions.
    let node_and_type = match area.data.is_octets() {
        true => node.clone(),
        false => format!("{node}\0{}", area.data.to_text()),
    };
    areas.insert(&*area.name, (&*node_and_type, area.size, area.histories))?;
    Ok(())
}

fn location(name: &str, (node_and_type, size, histories): (&str, u32, u32)) -> AreaLocation {
    let (node, data) = node_and_type.split_once('\0').unwrap_or((node_and_type, ""));
    let area = Area::new(name, size, histories).typed(DataType::from_text(data).unwrap_or_default());
    AreaLocation { area, node: node.into() }
}

impl CoordinatorStore for FileStore {
    fn nodes(&self) -> Result<Vec<NodeEntry>, StoreError> {
        self.read(|transaction| {
            let nodes = transaction.open_table(NODES)?;
            let entries = nodes.iter()?.map(|entry| {
                let (name, value) = entry?;
                let (incarnation, server) = value.value();
                Ok(NodeEntry { name: name.value().into(), incarnation, server: server.into() })
            });
            entries.collect()
        })
    }

    fn areas(&self) -> Result<Vec<AreaLocation>, StoreError> {
        self.read(|transaction| {
            let areas = transaction.open_table(AREAS)?;
            let entries = areas.iter()?.map(|entry| {
                let (name, value) = entry?;
                Ok(location(name.value(), value.value()))
            });
            entries.collect()
        })
    }

    fn area(&self, name: &str) -> Result<Option<AreaLocation>, StoreError> {
        self.read(|transaction| {
            let areas = transaction.open_table(AREAS)?;
            Ok(areas.get(name)?.map(|value| location(name, value.value())))
        })
    }

    fn set_node(&self, node: &NodeEntry, held: &[Area], forgotten: &[String]) -> Result<(), StoreError> {
        self.change(|nodes, areas| {
            nodes.insert(&*node.name, (node.incarnation, &*node.server))?;
            for name in forgotten {
                areas.remove(&**name)?;
            }
            for area in held {
                put_area(areas, &AreaLocation { area: area.clone(), node: node.name.clone() })?;
            }
            Ok(())
        })
    }

    fn remove_node(&self, name: &str) -> Result<(), StoreError> {
        self.change(|nodes, areas| {
            nodes.remove(name)?;
            areas.retain(|area, value| location(area, value).node != name)?;
            Ok(())
        })
    }

    fn set_area(&self, location: &AreaLocation) -> Result<(), StoreError> {
        self.change(|_, areas| put_area(areas, location))
    }

    fn remove_area(&self, name: &str) -> Result<(), StoreError> {
        self.change(|_, areas| {
            areas.remove(name)?;
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(name: &str) -> Area {
        Area::new(name, 10, 2)
    }

    fn node(name: &str, incarnation: u64) -> NodeEntry {
        NodeEntry { name: name.into(), incarnation, server: format!("IOR:{incarnation}") }
    }

    /// The rules for every store.
    fn conform(store: &dyn CoordinatorStore) {
        store.set_node(&node("a", 1), &[area("x"), area("y")], &[]).unwrap();
        store.set_node(&node("b", 1), &[], &[]).unwrap();
        store.set_area(&AreaLocation { area: area("z"), node: "b".into() }).unwrap();
        assert_eq!(store.area("z").unwrap().unwrap().node, "b");
        assert_eq!(store.areas().unwrap().len(), 3);
        store.set_node(&node("a", 2), &[area("x")], &["y".into()]).unwrap();
        assert!(store.area("y").unwrap().is_none());
        assert_eq!(store.nodes().unwrap(), [node("a", 2), node("b", 1)]);
        store.remove_area("z").unwrap();
        store.remove_node("a").unwrap();
        assert!(store.areas().unwrap().is_empty());
        assert_eq!(store.nodes().unwrap(), [node("b", 1)]);
    }

    #[test]
    fn stores_keep_nodes_and_areas() {
        conform(&MemoryStore::default());
        let folder = isorb_testkit::TempFolder::new();
        let path = folder.file("store.redb");
        conform(&FileStore::open(&path).unwrap());
        let again = FileStore::open(&path).unwrap();
        assert_eq!(again.nodes().unwrap(), [node("b", 1)]);
        let typed = AreaLocation { area: area("typed").typed(DataType::of::<f64>()), node: "b".into() };
        again.set_area(&typed).unwrap();
        drop(again);
        let again = FileStore::open(&path).unwrap();
        assert_eq!(again.area("typed").unwrap(), Some(typed));
        again.remove_node("b").unwrap();
        assert!(again.areas().unwrap().is_empty());
        drop(again);
        std::fs::remove_file(&path).unwrap();
    }
}
