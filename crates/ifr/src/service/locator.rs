//! The servant of an object, by the kind of its definition.

use super::ids;
use crate::contents::Contents;
use isorb::poa::{Cookie, Refusal, ServantLocator};
use isorb::{Kind, Poa, Result, Servant, SystemException};
use std::collections::HashMap;
use std::sync::Arc;

pub struct Locator {
    pub contents: Arc<Contents>,
    pub servants: HashMap<&'static str, Servant>,
}

impl ServantLocator for Locator {
    fn preinvoke(&self, id: &[u8], _: &Poa, _: &str) -> Result<(Servant, Cookie), Refusal> {
        let item = ids::item(&self.contents, id);
        let servant = item.and_then(|item| self.servants.get(self.contents.kind(item).1));
        match servant {
            Some(servant) => Ok((servant.clone(), None)),
            None => Err(SystemException::from(Kind::ObjectNotExist).into()),
        }
    }

    fn postinvoke(&self, _: &[u8], _: &Poa, _: &str, _: Cookie, _: Servant) -> Result<()> {
        Ok(())
    }
}
