//! Naming as a program uses it: names as text, one error. The whole service is [`cos_naming`](crate::cos_naming).

use crate::cos_naming::naming_context::{
    BindError, BindNewContextError, RebindError, ResolveError, UnbindError,
};
use crate::cos_naming::{self, NamingContextRef};
use crate::invoke::call_scope;
use crate::{IsA, Object, Operation, Orb, Reference, Result, SystemException};
use isorb_cdr::Handle;
use isorb_giop::{Kind, Name};

/// A naming context, with names as text: `lab/t1`, `a/b.kind`, with `\` before `/`, `.` or `\` in a part.
///
/// What the service refuses is a system exception with a sentence; who wants its own exceptions uses
/// [`NamingContextRef`].
#[derive(Clone, Debug)]
pub struct Naming {
    context: NamingContextRef,
}

impl Naming {
    /// The initial naming context (`NameService`).
    pub(crate) fn initial(orb: &Orb) -> Result<Naming> {
        let context = orb.resolve_initial_references("NameService")?;
        Ok(Naming { context: context.unchecked_narrow() })
    }

    /// A context of one's own choice.
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
    /// BAD_PARAM for a name that is none, INV_OBJREF with the service's reason, and what the calls end in.
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

static RESOLVE: Operation = Operation { name: "resolve", oneway: false };

/// Resolves a name in a naming context; every exception of the service becomes a sentence.
pub(crate) fn resolve(context: &Object, name: &Name) -> Result<Object> {
    call_scope(|scope| {
        let components = name.components();
        let reply = context.invoke(&RESOLVE, scope, &|e| {
            e.count(components.len());
            for component in components {
                e.string(&component.id);
                e.string(&component.kind);
            }
        })?;
        let found = reply.raises(Object::decode_handle, |id, _| {
            let why = match id {
                "IDL:omg.org/CosNaming/NamingContext/NotFound:1.0" => "is not bound",
                "IDL:omg.org/CosNaming/NamingContext/CannotProceed:1.0" => {
                    "leads through a context that cannot be used"
                }
                "IDL:omg.org/CosNaming/NamingContext/InvalidName:1.0" => "is not a valid name",
                _ => return Ok(None),
            };
            Ok(Some(SystemException::from(Kind::InvObjref).detail(format!("the name {name} {why}"))))
        })?;
        found.ok_or_else(|| {
            SystemException::from(Kind::InvObjref).detail(format!("the name {name} is bound to nil"))
        })
    })
}
