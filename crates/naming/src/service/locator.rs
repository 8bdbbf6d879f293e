//! One servant for all objects of a POA, and an answer for those that do not exist.

use super::{Shared, ids};
use isorb::poa::{Cookie, Refusal, ServantLocator};
use isorb::{Kind, Poa, Result, Servant, SystemException};
use std::sync::Arc;

/// Returns the same servant for every object that exists. It looks it up before each request, so
/// that `_non_existent` is correct for destroyed contexts.
pub struct Locator {
    servant: Servant,
    shared: Arc<Shared>,
    exists: fn(&Shared, &[u8]) -> Result<bool>,
}

impl Locator {
    /// For contexts.
    pub fn contexts(servant: Servant, shared: Arc<Shared>) -> Locator {
        let exists = |shared: &Shared, id: &[u8]| match ids::context(shared.store.stamp(), id) {
            Some(context) => shared.store.contains(context).map_err(super::problem::system),
            None => Ok(false),
        };
        Locator { servant, shared, exists }
    }

    /// For iterators. A lookup counts as a use.
    pub fn iterators(servant: Servant, shared: Arc<Shared>) -> Locator {
        let exists = |shared: &Shared, id: &[u8]| {
            let now = isorb_rt::time::now_ns();
            Ok(ids::iterator(id).is_some_and(|number| shared.iterators.lock().at(now, number).is_some()))
        };
        Locator { servant, shared, exists }
    }
}

impl ServantLocator for Locator {
    fn preinvoke(&self, id: &[u8], _: &Poa, _: &str) -> Result<(Servant, Cookie), Refusal> {
        match (self.exists)(&self.shared, id)? {
            true => Ok((self.servant.clone(), None)),
            false => Err(SystemException::from(Kind::ObjectNotExist).into()),
        }
    }

    fn postinvoke(&self, _: &[u8], _: &Poa, _: &str, _: Cookie, _: Servant) -> Result<()> {
        Ok(())
    }
}
