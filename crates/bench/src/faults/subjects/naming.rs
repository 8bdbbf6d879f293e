//! Names that are bound and resolved.

use isorb::{Kind, Object, Orb, Reference};
use isorb_naming::Naming;
use isorb_naming::cos_naming::NamingContextRef;

use super::{Client, Connected, text};

struct Names {
    naming: Naming,
    /// What names are bound to.
    bound: Object,
}

pub(super) fn connect(orb: &Orb, url: &str) -> Connected {
    let context: NamingContextRef = orb.resolve(url).map_err(text)?;
    let bound = context.object().clone();
    Ok(Box::new(Names { naming: Naming::of(context), bound }))
}

impl Client for Names {
    fn write(&mut self, number: u32) -> Result<(), String> {
        self.naming.bind(&format!("n{number}"), &self.bound).map_err(text)
    }

    fn read(&mut self, number: u32) -> Result<bool, String> {
        match self.naming.resolve::<NamingContextRef>(&format!("n{number}")) {
            Ok(_) => Ok(true),
            // What the service answers for a name that is not bound.
            Err(error) if error.kind == Kind::InvObjref => Ok(false),
            Err(error) => Err(text(error)),
        }
    }

    fn remove(&mut self, number: u32) -> Result<(), String> {
        self.naming.unbind(&format!("n{number}")).map_err(text)
    }
}
