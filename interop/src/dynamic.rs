//! The suite through dynamic calls and servants: a bridge that knows `interop.idl` as data only.
//!
//! A relay stands for each object of the suite. It is a dynamic servant, and calls the object with
//! dynamic requests. In front of isorb's own servants it makes a dynamic server of them; in the
//! client's process, in front of a peer's server, it makes the cases a dynamic client.

use crate::servants::internal;
use isorb::{
    Any, DynamicInterface, DynamicOperation, DynamicReply, DynamicRequest, DynamicServant, Kind, Object, Orb,
    Result, Upcall,
};
use isorb_ifr::{Contents, TypeCodes, operations};
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What all relays have in common.
struct Bridge {
    orb: Orb,
    contents: Contents,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Relays by the group that they stand for: the suite promises the same object each time.
    groups: HashMap<String, Object>,
    interfaces: HashMap<String, Arc<DynamicInterface>>,
}

/// Stands for an object of the server.
struct Relay {
    bridge: Arc<Bridge>,
    target: Object,
}

/// A relay of the suite, with relays of its groups behind it.
///
/// # Errors
/// INTERNAL with the compiler's sentence for IDL that does not compile; those of the root POA.
pub fn relay_of(orb: &Orb, suite: Object) -> Result<Object> {
    let idl = Path::new(env!("CARGO_MANIFEST_DIR")).join("idl/interop.idl");
    let contents = Contents::compile(&[idl], &[]).map_err(internal)?;
    let bridge = Bridge { orb: orb.clone(), contents, known: Mutex::default() };
    Arc::new(bridge).relay(suite)
}

impl Bridge {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn relay(self: &Arc<Self>, target: Object) -> Result<Object> {
        let interface = self.interface(target.type_id())?;
        let poa = self.orb.root_poa()?;
        let relay = Arc::new(Relay { bridge: self.clone(), target });
        let active = poa.activate_object(interface.servant(relay)).map_err(internal)?;
        poa.id_to_reference(&active).map_err(internal)
    }

    fn interface(&self, id: &str) -> Result<Arc<DynamicInterface>> {
        if let Some(known) = self.known().interfaces.get(id) {
            return Ok(known.clone());
        }
        let spec = self.contents.spec();
        let definition = self.contents.find(id).ok_or(Kind::IntfRepos)?;
        let operations = operations(&mut TypeCodes::new(spec), definition).map_err(internal)?;
        let bases = spec.all_bases(definition);
        let bases: Vec<&str> = bases.iter().map(|base| &*spec[*base].repository_id).collect();
        let interface = Arc::new(DynamicInterface::new(id, &bases, operations)?);
        self.known().interfaces.insert(id.to_owned(), interface.clone());
        Ok(interface)
    }

    /// The relay of a group. The reply of the server has the object of the group.
    fn group(self: &Arc<Self>, name: &str, reply: DynamicReply) -> Result<DynamicReply> {
        let DynamicReply::Results(results) = &reply else { return Ok(reply) };
        let known = self.known().groups.get(name).cloned();
        let relay = match known {
            Some(relay) => relay,
            None => {
                let found = results.first().and_then(|any| self.orb.extract::<Option<Object>>(any));
                let relay = self.relay(found.flatten().ok_or(Kind::InvObjref)?)?;
                // A second client may have asked at the same time.
                self.known().groups.entry(name.to_owned()).or_insert(relay).clone()
            }
        };
        Ok(DynamicReply::Results(vec![Any::new(&Some(relay))?]))
    }
}

impl DynamicServant for Relay {
    fn invoke(
        &self,
        _: Upcall<'_>,
        operation: &DynamicOperation,
        arguments: Vec<Any>,
    ) -> Result<DynamicReply> {
        let group = match operation.name() {
            "group" => arguments.first().and_then(Any::get::<String>),
            _ => None,
        };
        let mut request = DynamicRequest::new(&self.target, operation);
        for argument in arguments {
            request = request.argument(argument)?;
        }
        let reply = request.invoke()?;
        match group {
            Some(name) => self.bridge.group(&name, reply),
            None => Ok(reply),
        }
    }
}
