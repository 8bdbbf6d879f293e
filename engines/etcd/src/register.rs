//! The register of the memory coordinator: a key for each node and each area.

use crate::cluster::Cluster;
use etcd_client::{Compare, CompareOp, GetOptions, KeyValue, Txn, TxnOp};
use isorb_any::{Any, AnyValue};
use isorb_reflective_memory::coordinator::{AreaLocation, CoordinatorStore, NodeEntry, StoreError};
use isorb_reflective_memory::idl::Area;
use isorb_rt::sync::PiMutex;
use isorb_store::Fault;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::sync::Arc;

/// Octets of an area as JSON, at most; names are shorter.
const LONGEST: usize = 64 << 10;
/// Areas that were looked at and not set yet, at most.
const MOST_SEEN: usize = 10_000;

/// A register that several coordinators share. One that decided on what another has changed since
/// gets an error, and its client tries again.
#[derive(Debug)]
pub struct EtcdRegister {
    cluster: Arc<Cluster>,
    /// The revision of areas when they were looked at last, 0 where there was none.
    seen: PiMutex<HashMap<String, i64>>,
}

impl EtcdRegister {
    /// The register in this cluster.
    pub fn new(cluster: Arc<Cluster>) -> EtcdRegister {
        EtcdRegister { cluster, seen: PiMutex::default() }
    }

    fn node_key(&self, name: &str) -> Vec<u8> {
        self.cluster.key(&[b"memory", b"node", name.as_bytes()])
    }

    fn area_key(&self, name: &str) -> Vec<u8> {
        self.cluster.key(&[b"memory", b"area", name.as_bytes()])
    }

    /// Changes with each change of the register.
    fn changes_key(&self) -> Vec<u8> {
        self.cluster.key(&[b"memory", b"changes"])
    }

    fn write(&self, compares: Vec<Compare>, mut changes: Vec<TxnOp>) -> Result<bool, Fault> {
        changes.push(TxnOp::put(self.changes_key(), "", None));
        Ok(self.cluster.txn(Txn::new().when(compares).and_then(changes))?.succeeded)
    }

    fn all(&self, key: Vec<u8>) -> Result<Vec<KeyValue>, Fault> {
        let read = self.cluster.read([TxnOp::get(key, Some(GetOptions::new().with_prefix()))])?;
        Ok(read.into_iter().flat_map(|mut read| read.take_kvs()).collect())
    }
}

/// Node and area as `node NUL area as JSON`. A node's name has no zero octet.
fn encode(location: &AreaLocation) -> Result<Vec<u8>, Fault> {
    let any = Any::new(&location.area).map_err(|_| Fault::Corrupt)?;
    let area = any.to_json(LONGEST).map_err(|_| Fault::Corrupt)?;
    Ok([location.node.as_bytes(), &[0], area.as_bytes()].concat())
}

fn decode(value: &[u8]) -> Result<AreaLocation, Fault> {
    let text = std::str::from_utf8(value).map_err(|_| Fault::Corrupt)?;
    let (node, area) = text.split_once('\0').ok_or(Fault::Corrupt)?;
    let any = Any::from_json(Area::type_code(), area).map_err(|_| Fault::Corrupt)?;
    Ok(AreaLocation { area: any.get().ok_or(Fault::Corrupt)?, node: node.into() })
}

fn node(entry: &KeyValue, prefix: usize) -> Result<NodeEntry, Fault> {
    let name = std::str::from_utf8(&entry.key()[prefix..]).map_err(|_| Fault::Corrupt)?;
    let (incarnation, server) = entry.value().split_first_chunk().ok_or(Fault::Corrupt)?;
    let server = std::str::from_utf8(server).map_err(|_| Fault::Corrupt)?;
    Ok(NodeEntry { name: name.into(), incarnation: u64::from_be_bytes(*incarnation), server: server.into() })
}

impl CoordinatorStore for EtcdRegister {
    fn nodes(&self) -> Result<Vec<NodeEntry>, StoreError> {
        let key = self.node_key("");
        let prefix = key.len();
        let read = self.all(key).map_err(StoreError::Fault)?;
        read.iter().map(|entry| node(entry, prefix).map_err(StoreError::Fault)).collect()
    }

    fn areas(&self) -> Result<Vec<AreaLocation>, StoreError> {
        let read = self.all(self.area_key("")).map_err(StoreError::Fault)?;
        read.iter().map(|entry| decode(entry.value()).map_err(StoreError::Fault)).collect()
    }

    fn area(&self, name: &str) -> Result<Option<AreaLocation>, StoreError> {
        let read = self.cluster.read([TxnOp::get(self.area_key(name), None)]).map_err(StoreError::Fault)?;
        let entry = read.first().and_then(|read| read.kvs().first());
        let mut seen = self.seen.lock();
        if seen.len() >= MOST_SEEN {
            seen.clear();
        }
        seen.insert(name.into(), entry.map_or(0, KeyValue::mod_revision));
        drop(seen);
        entry.map(|entry| decode(entry.value()).map_err(StoreError::Fault)).transpose()
    }

    fn set_node(&self, node: &NodeEntry, held: &[Area], forgotten: &[String]) -> Result<(), StoreError> {
        let change = || {
            let value = [&node.incarnation.to_be_bytes(), node.server.as_bytes()].concat();
            let mut changes = vec![TxnOp::put(self.node_key(&node.name), value, None)];
            let kept = |name: &&String| !held.iter().any(|area| area.name == **name);
            changes
                .extend(forgotten.iter().filter(kept).map(|name| TxnOp::delete(self.area_key(name), None)));
            for area in held {
                let location = AreaLocation { area: area.clone(), node: node.name.clone() };
                changes.push(TxnOp::put(self.area_key(&area.name), encode(&location)?, None));
            }
            self.write(Vec::new(), changes)
        };
        change().map(drop).map_err(StoreError::Fault)
    }

    fn remove_node(&self, name: &str) -> Result<(), StoreError> {
        let remove = || loop {
            let areas = GetOptions::new().with_prefix();
            let read = self
                .cluster
                .read([TxnOp::get(self.changes_key(), None), TxnOp::get(self.area_key(""), Some(areas))])?;
            let [changes, areas] = &read[..] else { return Err(Fault::Corrupt) };
            let revision = changes.kvs().first().map_or(0, KeyValue::mod_revision);
            let unchanged = Compare::mod_revision(self.changes_key(), CompareOp::Equal, revision);
            let mut removed = vec![TxnOp::delete(self.node_key(name), None)];
            for entry in areas.kvs() {
                if decode(entry.value())?.node == name {
                    removed.push(TxnOp::delete(entry.key(), None));
                }
            }
            // Again where the register has changed meanwhile.
            if self.write(vec![unchanged], removed)? {
                return Ok(());
            }
        };
        remove().map_err(StoreError::Fault)
    }

    fn set_area(&self, location: &AreaLocation) -> Result<(), StoreError> {
        let set = || {
            let key = self.area_key(&location.area.name);
            let value = encode(location)?;
            let seen = self.seen.lock().remove(&location.area.name);
            let unchanged =
                seen.map(|revision| Compare::mod_revision(key.clone(), CompareOp::Equal, revision));
            let unchanged: Vec<Compare> = unchanged.into_iter().collect();
            if self.write(unchanged, vec![TxnOp::put(key.clone(), value.clone(), None)])? {
                return Ok(());
            }
            // An earlier attempt may have been carried out without an answer.
            let read = self.cluster.read([TxnOp::get(key, None)])?;
            let now = read.first().and_then(|read| read.kvs().first());
            if now.is_some_and(|now| now.value() == value) {
                Ok(())
            } else {
                Err(Fault::Io(ErrorKind::ResourceBusy))
            }
        };
        set().map_err(StoreError::Fault)
    }

    fn remove_area(&self, name: &str) -> Result<(), StoreError> {
        let removed = self.write(Vec::new(), vec![TxnOp::delete(self.area_key(name), None)]);
        removed.map(drop).map_err(StoreError::Fault)
    }
}
