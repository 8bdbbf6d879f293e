//! Just enough of naming for URLs: the typed service is `isorb::cos_naming`.

use crate::generated::call_scope;
use crate::{Object, Operation, Result, SystemException};
use isorb_cdr::Handle;
use isorb_giop::{Kind, Name};

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
