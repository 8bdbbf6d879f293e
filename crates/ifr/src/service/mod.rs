//! The repository as CORBA objects.
//!
//! One servant of each interface serves all objects of a kind. The object id is the repository id,
//! so that references hold over restarts, as long as host, port and definition stay.

mod answer;
mod describe;
mod ids;
mod locator;
mod search;
mod view;

use crate::contents::{Contents, Item};
use crate::corba::RepositoryRef;
use crate::operations::operations;
use crate::type_codes::TypeCodes;
use answer::Items;
use isorb::poa::policies::{IdAssignment, IdUniqueness, Lifespan, RequestProcessing, ServantRetention};
use isorb::poa::{CreateError, PoaPolicies, PolicyError, ServantManager};
use isorb::{DynamicInterface, Kind, Object, Orb, Poa, Reference, Result, Servant, SystemException};
use isorb_idl::{MemoryLoader, Options, compile_with};
use locator::Locator;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// The key in `corbaloc::host:port/InterfaceRepository`, and the name of the initial reference
/// (part 1, clause 8.5.2).
const INTERFACE_REPOSITORY: &str = "InterfaceRepository";

/// The POA of all objects. Its name is a part of their references, which must not change.
const POA: &str = "interface-repository";

/// The interfaces of the objects, in module CORBA.
const INTERFACES: &[&str] = &[
    "Repository",
    "ModuleDef",
    "ConstantDef",
    "StructDef",
    "UnionDef",
    "EnumDef",
    "AliasDef",
    "NativeDef",
    "ExceptionDef",
    "ExtAttributeDef",
    "OperationDef",
    "ExtInterfaceDef",
    "ExtAbstractInterfaceDef",
    "ExtLocalInterfaceDef",
    "ExtValueDef",
    "ValueBoxDef",
    "ValueMemberDef",
    "PrimitiveDef",
    "StringDef",
    "WstringDef",
    "FixedDef",
    "SequenceDef",
    "ArrayDef",
];

/// A repository in an ORB.
#[derive(Clone, Debug)]
pub struct RepositoryService {
    repository: RepositoryRef,
}

impl RepositoryService {
    /// Starts a repository in an ORB: makes its POA below the root POA, with the root POA's
    /// manager, and offers it as `corbaloc::host:port/InterfaceRepository` and as the initial
    /// reference `InterfaceRepository`. Objects of the same ORB then answer `_get_interface`.
    ///
    /// The contents cannot be changed: operations and attributes of clause 14's write interface are
    /// NO_PERMISSION with [`NO_PERMISSION_READ_ONLY`](isorb::minor::NO_PERMISSION_READ_ONLY).
    ///
    /// # Errors
    /// BAD_INV_ORDER if the ORB has a repository already; errors of opening the endpoints or of
    /// making the POA.
    ///
    /// # Real-time
    /// A service for tools: each request allocates. Give it an ORB of its own, or an endpoint
    /// without a real-time priority.
    pub fn start(orb: &Orb, contents: Arc<Contents>) -> Result<RepositoryService> {
        let poa = make_poa(orb)?;
        let servants = servants(&contents)?;
        let locator = ServantManager::locator(Locator { contents, servants });
        poa.set_servant_manager(locator).map_err(|error| match error {
            PolicyError::System(exception) => exception,
            _ => Kind::Internal.into(),
        })?;
        let id = ids::of_item(None, Item::Repository);
        let object = poa.create_reference_with_id(id, RepositoryRef::INTERFACE.id)?;
        orb.register_corbaloc_key(INTERFACE_REPOSITORY, &object);
        orb.register_initial_reference(INTERFACE_REPOSITORY, &object);
        Ok(RepositoryService { repository: RepositoryRef::from_object(object) })
    }

    /// The repository.
    pub fn repository(&self) -> &RepositoryRef {
        &self.repository
    }

    /// The repository as an object; its `Display` is the stringified reference.
    pub fn object(&self) -> &Object {
        self.repository.object()
    }
}

/// A servant of each interface.
fn servants(contents: &Arc<Contents>) -> Result<HashMap<&'static str, Servant>> {
    let wrong = |why: String| SystemException::from(Kind::Internal).detail(why);
    let options = Options { embedded: Some(isorb_idl::standard::file), ..Options::default() };
    let loader = MemoryLoader::new().with("main.idl", "#include <InterfaceRepository.idl>\n");
    let outcome = compile_with(&options, &loader, Path::new("main.idl"));
    let spec = outcome.spec.as_ref().ok_or_else(|| wrong(outcome.render(false)))?;
    let mut codes = TypeCodes::new(spec);
    let items = Arc::new(Items { contents: contents.clone() });
    let servant = |name: &&'static str| -> Result<(&'static str, Servant)> {
        let id = spec.find(&format!("CORBA::{name}")).ok_or_else(|| wrong(format!("no interface {name}")))?;
        let bases = spec.all_bases(id);
        let bases: Vec<&str> = bases.iter().map(|base| &*spec[*base].repository_id).collect();
        let operations = operations(&mut codes, id).map_err(wrong)?;
        let interface = DynamicInterface::new(&spec[id].repository_id, &bases, operations)?;
        Ok((name, Arc::new(interface).servant(items.clone())))
    };
    INTERFACES.iter().map(servant).collect()
}

fn make_poa(orb: &Orb) -> Result<Poa> {
    let policies = PoaPolicies::new()
        .lifespan(Lifespan::Persistent)
        .id_assignment(IdAssignment::User)
        .id_uniqueness(IdUniqueness::Multiple)
        .servant_retention(ServantRetention::NonRetain)
        .request_processing(RequestProcessing::ServantManager);
    let root = orb.root_poa()?;
    root.create_poa(POA, Some(&root.manager()), policies).map_err(|error| match error {
        CreateError::System(exception) => exception,
        CreateError::AdapterAlreadyExists => {
            SystemException::from(Kind::BadInvOrder).detail("the ORB has an interface repository already")
        }
        _ => Kind::Internal.into(),
    })
}
