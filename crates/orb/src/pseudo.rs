//! Operations that every object has.

use crate::invoke::call_scope;
use crate::{Interface, Object, Operation, Operations, Reference, Result};
use isorb_cdr::Handle;
use isorb_giop::Kind;

static OBJECT: Interface =
    Interface { id: Interface::OBJECT_ID, bases: &[], operations: Operations::new(&[], 0, &[0xffff]) };

static IS_A: Operation = Operation { name: "_is_a", oneway: false };
static NON_EXISTENT: Operation = Operation { name: "_non_existent", oneway: false };
static INTERFACE: Operation = Operation { name: "_interface", oneway: false };
static REPOSITORY_ID: Operation = Operation { name: "_repository_id", oneway: false };

fn is_a(object: &Object, id: &str) -> Result<bool> {
    call_scope(|scope| object.invoke(&IS_A, scope, &|e| e.string(id))?.results(|d| d.boolean()))
}

fn non_existent(object: &Object) -> Result<bool> {
    call_scope(|scope| object.invoke(&NON_EXISTENT, scope, &|_| ())?.results(|d| d.boolean()))
}

impl Object {
    /// A typed reference, if the object is of interface `R`; else `None`. Calls the object only if
    /// its reference does not contain it.
    ///
    /// # Errors
    /// The exception of the call `_is_a`.
    ///
    /// # Real-time
    /// May call the object once; allocates.
    pub fn narrow<R: Reference>(&self) -> Result<Option<R>> {
        let known = self.type_id() == R::INTERFACE.id || R::INTERFACE.id == Interface::OBJECT_ID;
        Ok((known || self.is_a(R::INTERFACE.id)?).then(|| R::from_object(self.clone())))
    }

    /// A typed reference to interface `R`, without a check.
    pub fn unchecked_narrow<R: Reference>(&self) -> R {
        R::from_object(self.clone())
    }

    /// Whether the object supports an interface (`_is_a`).
    ///
    /// # Errors
    /// The exception of the call.
    pub fn is_a(&self, repository_id: &str) -> Result<bool> {
        if repository_id == Interface::OBJECT_ID || repository_id == self.type_id() {
            return Ok(true);
        }
        is_a(self, repository_id)
    }

    /// The definition of the object's interface in an interface repository (`_get_interface`), a
    /// `CORBA::InterfaceDef` as `isorb_ifr` has it; `None` for nil.
    ///
    /// # Errors
    /// The exception of the call: INTF_REPOS from a server that knows no repository. A server of
    /// isorb knows the one that is its initial reference `InterfaceRepository`.
    ///
    /// # Real-time
    /// Calls the object; allocates. The server may have to call the repository first, for which it
    /// waits 1 s at most, in one of its threads.
    pub fn get_interface(&self) -> Result<Option<Object>> {
        call_scope(|scope| self.invoke(&INTERFACE, scope, &|_| ())?.results(Object::decode_handle))
    }

    /// The repository id of the object's most derived interface, by a call (`_repository_id`).
    /// [`Object::type_id`] is what the reference says, which may be nothing.
    ///
    /// # Errors
    /// The exception of the call: BAD_OPERATION from servers of some other ORBs.
    ///
    /// # Real-time
    /// Calls the object; allocates.
    pub fn repository_id(&self) -> Result<String> {
        call_scope(|scope| {
            self.invoke(&REPOSITORY_ID, scope, &|_| ())?.results(|d| Ok(d.string()?.to_owned()))
        })
    }

    /// Whether the object is known not to exist (`_non_existent`).
    ///
    /// # Errors
    /// The exception of the call, except OBJECT_NOT_EXIST.
    pub fn non_existent(&self) -> Result<bool> {
        match non_existent(self) {
            Err(exception) if exception.kind == Kind::ObjectNotExist => Ok(true),
            other => other,
        }
    }
}

impl Reference for Object {
    const INTERFACE: &'static Interface = &OBJECT;
    fn from_object(object: Object) -> Object {
        object
    }
    fn object(&self) -> &Object {
        self
    }
}

impl crate::IsA<Object> for Object {}
