//! The repository during a request: definitions, and references to them.

use super::ids;
use crate::contents::{Contents, Item, member_id};
use isorb::{Any, Kind, Object, Poa, Reference, Result, SystemException, TypeCode};
use isorb_idl::model::{ConstValue, DefId, DefKind, Type};
use serde_json::Value as Json;

/// What a request sees.
#[derive(Clone, Copy)]
pub struct View<'r> {
    pub contents: &'r Contents,
    pub poa: &'r Poa,
}

/// What all definitions have.
pub struct Header {
    pub name: String,
    pub id: String,
    /// The repository id of the container, empty for the repository.
    pub defined_in: String,
    pub version: String,
}

impl View<'_> {
    /// A reference to an object of the repository.
    pub fn object(self, item: Item) -> Result<Object> {
        let interface = format!("IDL:omg.org/CORBA/{}:1.0", self.contents.kind(item).1);
        self.poa.create_reference_with_id(ids::of_item(Some(self.contents), item), &interface)
    }

    /// As [`View::object`], with a type.
    pub fn reference<R: Reference>(self, item: Item) -> Result<Option<R>> {
        self.object(item).map(|object| Some(R::from_object(object)))
    }

    /// References to definitions.
    pub fn references<R: Reference>(self, ids: &[DefId]) -> Result<Vec<Option<R>>> {
        ids.iter().map(|id| self.reference(Item::Definition(*id))).collect()
    }

    /// The object of a type; nil for a type that no object stands for.
    pub fn type_reference<R: Reference>(self, ty: &Type) -> Result<Option<R>> {
        self.contents.item_of(ty).map_or(Ok(None), |item| self.reference(item))
    }

    pub fn code_of(self, ty: &Type) -> Result<TypeCode> {
        self.contents.code_of(ty).map_err(too_large)
    }

    pub fn code(self, id: DefId) -> Result<TypeCode> {
        self.contents.code(id).map_err(too_large)
    }

    pub fn repository_ids(self, ids: &[DefId]) -> Vec<String> {
        ids.iter().map(|id| self.contents.spec()[*id].repository_id.clone()).collect()
    }

    /// Name, id, container and version of a definition or a member; nothing for other objects.
    pub fn header(self, item: Item) -> Header {
        let spec = self.contents.spec();
        let container = |id: Option<DefId>| id.map_or_else(String::new, |id| spec[id].repository_id.clone());
        let (name, id, defined_in) = match item {
            Item::Definition(id) => {
                let definition = &spec[id];
                (definition.name.clone(), definition.repository_id.clone(), container(definition.parent))
            }
            Item::Member(owner, _) => {
                let name = self.contents.member(item).map_or("", |state| &state.member.name);
                (name.to_owned(), member_id(&spec[owner].repository_id, name), container(Some(owner)))
            }
            _ => (String::new(), String::new(), String::new()),
        };
        let version = id.rsplit_once(':').map_or("1.0", |(_, version)| version).to_owned();
        Header { name, id, defined_in, version }
    }

    /// The container of a definition or member.
    pub fn container(self, item: Item) -> Item {
        match item {
            Item::Definition(id) => {
                self.contents.spec()[id].parent.map_or(Item::Repository, Item::Definition)
            }
            Item::Member(owner, _) => Item::Definition(owner),
            _ => Item::Repository,
        }
    }

    /// `::Module::Name`.
    pub fn absolute_name(self, item: Item) -> String {
        match item {
            Item::Definition(id) => format!("::{}", self.contents.spec().scoped_name(id)),
            Item::Member(owner, _) => {
                format!("::{}::{}", self.contents.spec().scoped_name(owner), self.header(item).name)
            }
            _ => "::".to_owned(),
        }
    }

    /// A constant or label as a value of its type.
    pub fn constant(self, ty: &Type, value: &ConstValue) -> Result<Any> {
        let code = self.code_of(ty)?;
        if let (ConstValue::Float(value), isorb_any::Kind::LongDouble) = (value, code.original().kind()) {
            let mut any = Any::new(&isorb::LongDouble::from(*value))?;
            any.set_type(code).map_err(|error| too_large(error.to_string()))?;
            return Ok(any);
        }
        let json = match value {
            ConstValue::Integer(value) => value.to_string(),
            ConstValue::Boolean(value) => value.to_string(),
            ConstValue::Char(value) | ConstValue::WChar(value) => Json::from(value.to_string()).to_string(),
            ConstValue::String(value) | ConstValue::WString(value) => Json::from(value.as_str()).to_string(),
            ConstValue::Float(value) => Json::from(*value).to_string(),
            ConstValue::Fixed(value) => Json::from(decimal(value.unscaled, value.scale)).to_string(),
            ConstValue::Enumerator(id) => Json::from(self.contents.spec()[*id].name.as_str()).to_string(),
        };
        Any::from_json(code, &json).map_err(|error| too_large(error.to_string()))
    }
}

impl Contents {
    /// A member of a value's state.
    pub(crate) fn member(&self, item: Item) -> Option<&isorb_idl::model::StateMember> {
        let Item::Member(id, at) = item else { return None };
        match &self.spec()[id].kind {
            DefKind::Value(value) => value.members.get(at),
            _ => None,
        }
    }
}

/// The digits of a fixed-point number.
fn decimal(unscaled: i128, scale: u16) -> String {
    let scale = usize::from(scale);
    let digits = format!("{:0>1$}", unscaled.unsigned_abs(), scale + 1);
    let (whole, part) = digits.split_at(digits.len() - scale);
    let sign = if unscaled < 0 { "-" } else { "" };
    if part.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{part}") }
}

pub fn too_large(why: String) -> SystemException {
    SystemException::from(Kind::ImpLimit).detail(why)
}

#[cfg(test)]
mod tests {
    use super::decimal;

    #[test]
    fn decimals_keep_their_zeros() {
        for (unscaled, scale, text) in
            [(0, 0, "0"), (5, 2, "0.05"), (-12345, 3, "-12.345"), (-7, 1, "-0.7"), (42, 0, "42")]
        {
            assert_eq!(decimal(unscaled, scale), text);
        }
    }
}
