//! A client of the naming service: names as text, one kind of error.
//! [`cos_naming`](crate::cos_naming) has the operations of the standard with their own exceptions.

use crate::cos_naming::naming_context::{
    BindError, BindNewContextError, RebindError, ResolveError, UnbindError,
};
use crate::cos_naming::{self, NamingContextRef};
use isorb::{IsA, Kind, Object, Orb, Reference, Result, SystemException};
use isorb_giop::Name;

/// A naming context, with names as text: `lab/t1`, `a/b.kind`, with `\` before `/`, `.` or `\` in a
/// part.
///
/// A refusal of the service is a system exception with a sentence. [`NamingContextRef`] has the
/// service's own exceptions.
///
/// ```no_run
/// # use isorb::{Object, Orb, Result};
/// # fn example(orb: &Orb, probe: &Object) -> Result<()> {
/// isorb_naming::Naming::initial(orb)?.bind("lab/t1", probe)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Naming {
    context: NamingContextRef,
}

impl Naming {
    /// The initial naming context: the initial reference `NameService` of `orb`.
    ///
    /// # Errors
    /// As [`Orb::resolve_initial_references`].
    pub fn initial(orb: &Orb) -> Result<Naming> {
        let context = orb.resolve_initial_references("NameService")?;
        Ok(Naming { context: context.unchecked_narrow() })
    }

    /// The client of another naming context.
    pub fn of(context: NamingContextRef) -> Naming {
        Naming { context }
    }

    /// The context.
    pub fn context(&self) -> &NamingContextRef {
        &self.context
    }

    /// Binds a name anew or over an older binding, and makes the contexts on the way.
    ///
    /// # Errors
    /// BAD_PARAM for a name that is none, INV_OBJREF with the service's reason, and what the calls
    /// end in.
    pub fn bind(&self, name: &str, object: &impl IsA<Object>) -> Result<()> {
        let components = parse(name)?;
        for end in 1..components.len() {
            match self.context.bind_new_context(&components[..end]) {
                Ok(_) | Err(BindNewContextError::AlreadyBound(_)) => {}
                Err(BindNewContextError::System(exception)) => return Err(exception),
                Err(other) => return Err(refused(name, &other)),
            }
        }
        self.context.rebind(&components, object.object()).map_err(|error| match error {
            RebindError::System(exception) => exception,
            other => refused(name, &other),
        })
    }

    /// Binds a name that is not bound yet; its contexts must be there.
    ///
    /// # Errors
    /// As [`Naming::bind`], and INV_OBJREF when the name is bound already.
    pub fn bind_new(&self, name: &str, object: &impl IsA<Object>) -> Result<()> {
        self.context.bind(&parse(name)?, object.object()).map_err(|error| match error {
            BindError::System(exception) => exception,
            other => refused(name, &other),
        })
    }

    /// The object that a name is bound to.
    ///
    /// # Errors
    /// As [`Naming::bind`]; BAD_PARAM when it is not an `R`.
    pub fn resolve<R: Reference>(&self, name: &str) -> Result<R> {
        let object = self.context.resolve(&parse(name)?).map_err(|error| match error {
            ResolveError::System(exception) => exception,
            other => refused(name, &other),
        })?;
        let object = object.ok_or_else(|| refused(name, &"it is bound to nil"))?;
        object.narrow()?.ok_or_else(|| {
            SystemException::from(Kind::BadParam).detail(format!("{name} is no {}", R::INTERFACE.id))
        })
    }

    /// Removes a binding.
    ///
    /// # Errors
    /// As [`Naming::bind`].
    pub fn unbind(&self, name: &str) -> Result<()> {
        self.context.unbind(&parse(name)?).map_err(|error| match error {
            UnbindError::System(exception) => exception,
            other => refused(name, &other),
        })
    }
}

fn parse(name: &str) -> Result<cos_naming::Name> {
    let parsed: Name =
        name.parse().map_err(|error| SystemException::from(Kind::BadParam).detail(format!("{error}")))?;
    let components = parsed.into_components().into_iter();
    Ok(components.map(|part| cos_naming::NameComponent { id: part.id, kind: part.kind }).collect())
}

fn refused(name: &str, why: &dyn std::fmt::Display) -> SystemException {
    SystemException::from(Kind::InvObjref).detail(format!("the name {name}: {why}"))
}
