//! Contracts that a program has fetched, by repository id.

use crate::contract::Contract;
use crate::corba::RepositoryRef;
use isorb::{Kind, Object, Reference, Result, SystemException};
use isorb_rt::sync::PiMutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Most contracts that are kept, if the program sets no other limit.
const CONTRACTS: usize = 256;

/// Finds the contracts of objects, and keeps them: in a repository that the program names, or in
/// the one that the object's server answers `_get_interface` from.
#[derive(Debug)]
pub struct InterfaceCache {
    repository: Option<RepositoryRef>,
    known: PiMutex<Known>,
    most: usize,
}

#[derive(Debug, Default)]
struct Known {
    contracts: HashMap<String, Arc<Contract>>,
    /// The oldest first.
    order: VecDeque<String>,
}

impl Known {
    fn add(&mut self, id: &str, contract: &Arc<Contract>, most: usize) {
        if self.contracts.insert(id.to_owned(), contract.clone()).is_none() {
            self.order.push_back(id.to_owned());
        }
        while self.contracts.len() > most {
            let Some(oldest) = self.order.pop_front() else { return };
            self.contracts.remove(&oldest);
        }
    }
}

impl InterfaceCache {
    /// Empty. Without a repository each object is asked for its own.
    pub fn new(repository: Option<RepositoryRef>) -> InterfaceCache {
        InterfaceCache { repository, known: PiMutex::new(Known::default()), most: CONTRACTS }
    }

    /// Keeps at most this many contracts, at least one; the oldest one goes. 256 unless it is set.
    #[must_use]
    pub fn with_limit(mut self, contracts: usize) -> InterfaceCache {
        self.most = contracts.max(1);
        self
    }

    /// The contract of an object: that of the interface that its reference names, else that of the
    /// definition that it answers `_get_interface` with.
    ///
    /// # Errors
    /// INTF_REPOS with a sentence where neither the repository nor the object has the interface;
    /// those of the calls, and of [`Contract::of_definition`].
    ///
    /// # Real-time
    /// A PI lock and a look-up for an interface that is known; otherwise calls. Allocates.
    pub fn of_object(&self, object: &Object) -> Result<Arc<Contract>> {
        let id = object.type_id();
        if let Some(known) = self.known(id) {
            return Ok(known);
        }
        let definition = match self.look_up(object)? {
            Some(definition) => definition,
            None => object.get_interface()?.ok_or_else(|| missing(id))?,
        };
        let contract = Arc::new(Contract::of_definition(&definition)?);
        let key = if id.is_empty() { contract.id() } else { id };
        self.known.lock().add(key, &contract, self.most);
        Ok(contract)
    }

    /// The contract of an interface by its repository id.
    ///
    /// # Errors
    /// As [`InterfaceCache::of_object`]; INTF_REPOS also without a repository.
    pub fn of_id(&self, id: &str) -> Result<Arc<Contract>> {
        if let Some(known) = self.known(id) {
            return Ok(known);
        }
        let repository = self.repository.as_ref().ok_or_else(|| {
            SystemException::from(Kind::IntfRepos)
                .minor(isorb::minor::INTF_REPOS_UNAVAILABLE)
                .detail("an interface is looked up by its id in a repository, and this cache has none")
        })?;
        let definition = repository.lookup_id(id)?.ok_or_else(|| missing(id))?;
        let contract = Arc::new(Contract::of_definition(definition.object())?);
        self.known.lock().add(id, &contract, self.most);
        Ok(contract)
    }

    fn known(&self, id: &str) -> Option<Arc<Contract>> {
        self.known.lock().contracts.get(id).cloned()
    }

    /// The definition in the program's repository.
    fn look_up(&self, object: &Object) -> Result<Option<Object>> {
        let Some(repository) = &self.repository else { return Ok(None) };
        let asked;
        let id = match object.type_id() {
            // A corbaloc URL names no interface.
            "" => {
                asked = object.repository_id()?;
                &asked
            }
            id => id,
        };
        Ok(repository.lookup_id(id)?.map(|definition| definition.object().clone()))
    }
}

fn missing(id: &str) -> SystemException {
    let shown = if id.is_empty() { "of the object" } else { id };
    SystemException::from(Kind::IntfRepos)
        .minor(isorb::minor::INTF_REPOS_NO_ENTRY)
        .detail(format!("no interface repository has the interface {shown}"))
}
