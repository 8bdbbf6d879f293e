//! Operations that every object has.

use crate::generated::call_scope;
use crate::{Interface, Object, Operation, Operations, Result};

pub(crate) static OBJECT: Interface =
    Interface { id: Interface::OBJECT_ID, bases: &[], operations: Operations::new(&[], 0, &[0xffff]) };

static IS_A: Operation = Operation { name: "_is_a", oneway: false };
static NON_EXISTENT: Operation = Operation { name: "_non_existent", oneway: false };

pub(crate) fn is_a(object: &Object, id: &str) -> Result<bool> {
    call_scope(|scope| object.invoke(&IS_A, scope, &|e| e.string(id))?.results(|d| d.boolean()))
}

pub(crate) fn non_existent(object: &Object) -> Result<bool> {
    call_scope(|scope| object.invoke(&NON_EXISTENT, scope, &|_| ())?.results(|d| d.boolean()))
}
