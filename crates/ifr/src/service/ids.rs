//! The object ids of the repository's objects.

use crate::contents::{Contents, Item, member_id};
use crate::corba::PrimitiveKind;

/// `r` for the repository; `d` and the repository id, `p` and the number of a primitive, `t` and
/// the spelling of a type without a name. Without contents only the repository has an id.
pub fn of_item(contents: Option<&Contents>, item: Item) -> Vec<u8> {
    let id = match (item, contents) {
        (Item::Primitive(kind), _) => format!("p{}", kind as u32),
        (Item::Definition(id), Some(contents)) => format!("d{}", contents.spec()[id].repository_id),
        (Item::Member(id, _), Some(contents)) => match contents.member(item) {
            Some(state) => format!("d{}", member_id(&contents.spec()[id].repository_id, &state.member.name)),
            None => "r".to_owned(),
        },
        (Item::Anonymous(at), Some(contents)) => match contents.anonymous(at) {
            Some(ty) => format!("t{}", contents.spec().type_name(ty)),
            None => "r".to_owned(),
        },
        _ => "r".to_owned(),
    };
    id.into_bytes()
}

/// The object with an id; `None` for one that the repository does not have.
pub fn item(contents: &Contents, id: &[u8]) -> Option<Item> {
    let (kind, rest) = std::str::from_utf8(id).ok()?.split_at_checked(1)?;
    match kind {
        "r" => rest.is_empty().then_some(Item::Repository),
        "d" => contents.item(rest),
        "t" => contents.spelled(rest).map(Item::Anonymous),
        "p" => {
            let number: u32 = rest.parse().ok()?;
            PRIMITIVES.iter().copied().find(|kind| *kind as u32 == number).map(Item::Primitive)
        }
        _ => None,
    }
}

const PRIMITIVES: &[PrimitiveKind] = {
    use PrimitiveKind::*;
    &[
        PkNull,
        PkVoid,
        PkShort,
        PkLong,
        PkUshort,
        PkUlong,
        PkFloat,
        PkDouble,
        PkBoolean,
        PkChar,
        PkOctet,
        PkAny,
        PkTypeCode,
        PkPrincipal,
        PkString,
        PkObjref,
        PkLonglong,
        PkUlonglong,
        PkLongdouble,
        PkWchar,
        PkWstring,
        PkValueBase,
    ]
};
