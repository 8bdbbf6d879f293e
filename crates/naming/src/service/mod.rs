//! The service as CORBA objects.
//!
//! One servant serves all contexts and another all iterators. The object id identifies the context
//! or iterator. So a million contexts cost the ORB nothing, and a restart activates nothing.

mod contexts;
mod ids;
mod iterating;
mod locator;
mod owners;
mod problem;
mod references;
mod url;

use crate::binding::ContextId;
use crate::cos_naming::{BindingIteratorRef, NamingContextExtRef};
use crate::iterators::Iterators;
use crate::limits::Limits;
use crate::store::Store;
use contexts::Contexts;
use isorb::poa::policies::{IdAssignment, IdUniqueness, Lifespan, RequestProcessing, ServantRetention};
use isorb::poa::{CreateError, PoaPolicies, PolicyError, ServantManager};
use isorb::{Kind, Object, Orb, Poa, Reference, Result, Servant, SystemException};
use isorb_rt::sync::PiMutex;
use iterating::Iterating;
use locator::Locator;
use owners::Owners;
use std::sync::Arc;

/// The key in `corbaloc::host:port/NameService`, and the name of the initial reference.
const NAME_SERVICE: &str = "NameService";

/// The POA of the contexts. Its name is a part of their references, which must not change.
const CONTEXTS: &str = "naming";

/// The POA of the iterators.
const ITERATORS: &str = "naming-iterators";

/// A naming service in an ORB.
#[derive(Clone, Debug)]
pub struct NamingService {
    root: NamingContextExtRef,
}

/// The state that contexts and iterators share.
struct Shared {
    store: Arc<dyn Store>,
    limits: Limits,
    iterators: PiMutex<Iterators>,
    owners: Owners,
}

impl NamingService {
    /// Starts a service in an ORB: makes its POAs below the root POA, with the root POA's manager,
    /// and offers the root context as `corbaloc::host:port/NameService` and as the initial
    /// reference `NameService`.
    ///
    /// It serves as soon as the root POA's manager is active.
    ///
    /// # Errors
    /// BAD_INV_ORDER if the ORB has a naming service already; errors of opening the endpoints or of
    /// making the POAs.
    pub fn start(orb: &Orb, store: Arc<dyn Store>, limits: Limits) -> Result<NamingService> {
        let iterators = PiMutex::new(Iterators::new(limits.iterators, limits.iterator_idle));
        let owners = Owners::new(limits.peer_bindings);
        let shared = Arc::new(Shared { store, limits, iterators, owners });

        let iterators = make_poa(orb, ITERATORS, Lifespan::Transient)?;
        let iterating = Arc::new(Iterating { shared: shared.clone() });
        let servant = Servant::new::<BindingIteratorRef, _>(iterating);
        set_locator(&iterators, Locator::iterators(servant, shared.clone()))?;

        let contexts = make_poa(orb, CONTEXTS, Lifespan::Persistent)?;
        let servant =
            Servant::new::<NamingContextExtRef, _>(Arc::new(Contexts { shared: shared.clone(), iterators }));
        set_locator(&contexts, Locator::contexts(servant, shared.clone()))?;

        let root = references::of_context(&contexts, &*shared.store, ContextId::ROOT)?;
        orb.register_corbaloc_key(NAME_SERVICE, &root);
        orb.register_initial_reference(NAME_SERVICE, &root);
        Ok(NamingService { root: NamingContextExtRef::from_object(root) })
    }

    /// The root context.
    pub fn root(&self) -> &NamingContextExtRef {
        &self.root
    }

    /// The root context as an object; its `Display` is the stringified reference.
    pub fn object(&self) -> &Object {
        self.root.object()
    }
}

fn make_poa(orb: &Orb, name: &str, lifespan: Lifespan) -> Result<Poa> {
    let policies = PoaPolicies::new()
        .lifespan(lifespan)
        .id_assignment(IdAssignment::User)
        .id_uniqueness(IdUniqueness::Multiple)
        .servant_retention(ServantRetention::NonRetain)
        .request_processing(RequestProcessing::ServantManager);
    let root = orb.root_poa()?;
    root.create_poa(name, Some(&root.manager()), policies).map_err(|error| match error {
        CreateError::System(exception) => exception,
        CreateError::AdapterAlreadyExists => {
            SystemException::from(Kind::BadInvOrder).detail("the ORB has a naming service already")
        }
        _ => Kind::Internal.into(),
    })
}

fn set_locator(poa: &Poa, locator: Locator) -> Result<()> {
    poa.set_servant_manager(ServantManager::locator(locator)).map_err(|error| match error {
        PolicyError::System(exception) => exception,
        _ => Kind::Internal.into(),
    })
}
