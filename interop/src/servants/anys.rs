//! `any` and `CORBA::TypeCode`.

use super::values::Echo;
use crate::generated::interop::*;
use crate::types;
use isorb::{Any, Kind, Result, TypeCode, Upcall};

impl AnyValues for Echo {
    echo_views! { 'u:
        echo_any &'u Any;
        echo_anys AnysView<'u>;
        echo_with_any WithAnyView<'u>;
    }
    fn kind(&self, _: Upcall<'_>, value: &Any) -> Result<u32> {
        Ok(value.type_code().kind() as u32)
    }
    fn make<'u>(&'u self, cx: Upcall<'u>, what: &'u str) -> Result<&'u Any> {
        cx.keep(types::made(what)?.ok_or(Kind::BadParam)?)
    }
}

impl TypeCodes for Echo {
    echo_views! { 'u:
        echo_typecode &'u TypeCode;
    }
    fn same(&self, _: Upcall<'_>, a: &TypeCode, b: &TypeCode) -> Result<bool> {
        Ok(a.equal(b))
    }
    fn equivalent(&self, _: Upcall<'_>, a: &TypeCode, b: &TypeCode) -> Result<bool> {
        Ok(a.equivalent(b))
    }
    fn describe<'u>(&'u self, cx: Upcall<'u>, what: &'u str) -> Result<&'u TypeCode> {
        cx.keep(types::described(what).ok_or(Kind::BadParam)?)
    }
}
