//! The servant of all objects: an answer to each operation that reads.

use super::view::View;
use super::{describe, ids, search};
use crate::contents::{Contents, Item, inner};
use crate::corba::{
    ContainedRef, ContainerRef, DefinitionKind, ExceptionDefRef, IDLTypeRef, InterfaceDefRef,
    PrimitiveDefRef, PrimitiveKind, RepositoryRef, ValueDefRef, contained, container,
};
use isorb::{
    Any, DynamicOperation, DynamicReply, DynamicServant, Kind, Result, SystemException, TypeCode, Upcall,
};
use isorb_any::AnyValue;
use isorb_idl::model::{DefKind, Type};
use std::sync::Arc;

/// The objects of a repository.
pub struct Items {
    pub contents: Arc<Contents>,
}

impl DynamicServant for Items {
    fn invoke(
        &self,
        cx: Upcall<'_>,
        operation: &DynamicOperation,
        arguments: Vec<Any>,
    ) -> Result<DynamicReply> {
        let item = ids::item(&self.contents, cx.object_id()).ok_or(Kind::ObjectNotExist)?;
        let poa = cx.poa().ok_or(Kind::Internal)?;
        let request = Request {
            view: View { contents: &self.contents, poa },
            item,
            name: operation.name(),
            arguments: &arguments,
        };
        let answers: [fn(&Request<'_>) -> Answer; 4] = [
            |request| request.of_object(),
            |request| request.of_container(),
            |request| request.of_type(),
            |request| request.of_definition(),
        ];
        for answer in answers {
            if let Some(value) = answer(&request)? {
                return Ok(DynamicReply::Results(vec![value]));
            }
        }
        Err(SystemException::from(Kind::NoPermission)
            .minor(isorb::minor::NO_PERMISSION_READ_ONLY)
            .detail(format!("{} would change the repository: change its IDL files instead", request.name)))
    }
}

struct Request<'r> {
    view: View<'r>,
    item: Item,
    name: &'static str,
    arguments: &'r [Any],
}

type Answer = Result<Option<Any>>;

fn value<T: AnyValue>(value: T) -> Answer {
    Ok(Some(Any::new(&value)?))
}

impl Request<'_> {
    fn argument<T: AnyValue>(&self, at: usize) -> Result<T> {
        let argument = self.arguments.get(at).and_then(Any::get);
        argument.ok_or_else(|| SystemException::from(Kind::BadParam))
    }

    /// IRObject and Contained.
    fn of_object(&self) -> Answer {
        let Request { view, item, .. } = *self;
        if self.name == "_get_def_kind" {
            return value(view.contents.kind(item).0);
        }
        if !matches!(item, Item::Definition(_) | Item::Member(..)) {
            return Ok(None);
        }
        match self.name {
            "_get_id" => value(view.header(item).id),
            "_get_name" => value(view.header(item).name),
            "_get_version" => value(view.header(item).version),
            "_get_defined_in" => value(view.reference::<ContainerRef>(view.container(item))?),
            "_get_absolute_name" => value(view.absolute_name(item)),
            "_get_containing_repository" => value(view.reference::<RepositoryRef>(Item::Repository)?),
            "describe" => value(contained::Description {
                kind: view.contents.kind(item).0,
                value: describe::describe(view, item)?,
            }),
            _ => Ok(None),
        }
    }

    /// Container and Repository.
    fn of_container(&self) -> Answer {
        let Request { view, item, .. } = *self;
        let all = view.contents;
        let contained = |item: Option<Item>| match item {
            Some(item) => value(view.reference::<ContainedRef>(item)?),
            None => value(None::<ContainedRef>),
        };
        let list = |items: Vec<Item>| -> Answer {
            let references: Result<Vec<Option<ContainedRef>>> =
                items.into_iter().map(|item| view.reference(item)).collect();
            value(references?)
        };
        match self.name {
            "lookup" => contained(search::lookup(all, item, &self.argument::<String>(0)?)),
            "contents" => list(search::contents(all, item, self.argument(0)?, !self.argument::<bool>(1)?)),
            "lookup_name" => {
                let (name, levels) = (self.argument::<String>(0)?, self.argument(1)?);
                let (limit, inherited) = (self.argument(2)?, !self.argument::<bool>(3)?);
                list(search::lookup_name(all, item, &name, levels, limit, inherited))
            }
            "describe_contents" => self.describe_contents(),
            "lookup_id" => contained(all.item(&self.argument::<String>(0)?)),
            "get_canonical_typecode" => {
                let code: TypeCode = self.argument(0)?;
                let known = code.id().ok().and_then(|id| all.find(id)).map(|id| view.code(id));
                value(known.unwrap_or(Ok(code))?)
            }
            "get_primitive" => {
                let kind: PrimitiveKind = self.argument(0)?;
                value(view.reference::<PrimitiveDefRef>(Item::Primitive(kind))?)
            }
            _ => Ok(None),
        }
    }

    fn describe_contents(&self) -> Answer {
        let Request { view, item, .. } = *self;
        let limit: DefinitionKind = self.argument(0)?;
        let mut found = search::contents(view.contents, item, limit, !self.argument::<bool>(1)?);
        if let Ok(most) = usize::try_from(self.argument::<i32>(2)?) {
            found.truncate(most);
        }
        let one = |item: Item| {
            Ok(container::Description {
                contained_object: view.reference(item)?,
                kind: view.contents.kind(item).0,
                value: describe::describe(view, item)?,
            })
        };
        value(found.into_iter().map(one).collect::<Result<Vec<_>>>()?)
    }

    /// IDLType, and what the types without a name have.
    fn of_type(&self) -> Answer {
        let Request { view, item, .. } = *self;
        let at = match item {
            Item::Primitive(kind) => {
                return match self.name {
                    "_get_type" => value(primitive(kind)),
                    "_get_kind" => value(kind),
                    _ => Ok(None),
                };
            }
            Item::Anonymous(at) => at,
            _ => return Ok(None),
        };
        let ty = view.contents.anonymous(at).ok_or(Kind::ObjectNotExist)?;
        if self.name == "_get_type" {
            return value(view.code_of(ty)?);
        }
        let element = match ty {
            Type::Sequence { element, .. } => Some((**element).clone()),
            Type::Array { .. } => inner(ty),
            _ => None,
        };
        match (ty, self.name, element) {
            (_, "_get_element_type", Some(element)) => value(view.code_of(&element)?),
            (_, "_get_element_type_def", Some(element)) => {
                value(view.type_reference::<IDLTypeRef>(&element)?)
            }
            (Type::Sequence { bound, .. }, "_get_bound", _)
            | (Type::String { bound } | Type::WString { bound }, "_get_bound", _) => {
                value(bound.unwrap_or(0))
            }
            (Type::Array { dims, .. }, "_get_length", _) => value(dims.first().copied().unwrap_or(0)),
            (Type::Fixed { digits, .. }, "_get_digits", _) => value(*digits),
            (Type::Fixed { scale, .. }, "_get_scale", _) => value(*scale as i16),
            _ => Ok(None),
        }
    }

    /// What each kind of definition has.
    fn of_definition(&self) -> Answer {
        let Request { view, item, name, .. } = *self;
        let spec = view.contents.spec();
        let id = match item {
            Item::Definition(id) => id,
            Item::Member(..) => {
                let state = view.contents.member(item).ok_or(Kind::ObjectNotExist)?;
                return match name {
                    "_get_type" => value(view.code_of(&state.member.ty)?),
                    "_get_type_def" => value(view.type_reference::<IDLTypeRef>(&state.member.ty)?),
                    "_get_access" => value(i16::from(state.public)),
                    _ => Ok(None),
                };
            }
            _ => return Ok(None),
        };
        match (&spec[id].kind, name) {
            (DefKind::Const(it), "_get_type") => value(view.code_of(&it.ty)?),
            (DefKind::Const(it), "_get_type_def") => value(view.type_reference::<IDLTypeRef>(&it.ty)?),
            (DefKind::Const(it), "_get_value") => value(view.constant(&it.ty, &it.value)?),
            (DefKind::Attribute(it), "_get_type") => value(view.code_of(&it.ty)?),
            (DefKind::Attribute(it), "_get_type_def") => value(view.type_reference::<IDLTypeRef>(&it.ty)?),
            (DefKind::Attribute(it), "_get_mode") => value(describe::attribute_mode(it)),
            (DefKind::Attribute(it), "_get_get_exceptions") => {
                value(describe::exceptions(view, &it.get_raises)?)
            }
            (DefKind::Attribute(it), "_get_set_exceptions") => {
                value(describe::exceptions(view, &it.set_raises)?)
            }
            (DefKind::Attribute(it), "describe_attribute") => value(describe::ext_attribute(view, id, it)?),
            (DefKind::Operation(it), "_get_result") => value(view.code_of(&it.result)?),
            (DefKind::Operation(it), "_get_result_def") => {
                value(view.type_reference::<IDLTypeRef>(&it.result)?)
            }
            (DefKind::Operation(it), "_get_params") => value(describe::parameters(view, &it.params)?),
            (DefKind::Operation(it), "_get_mode") => value(describe::operation_mode(it)),
            (DefKind::Operation(it), "_get_contexts") => value(it.context.clone()),
            (DefKind::Operation(it), "_get_exceptions") => {
                value(view.references::<ExceptionDefRef>(&it.raises)?)
            }
            (DefKind::Interface(it), "_get_base_interfaces") => {
                value(view.references::<InterfaceDefRef>(&it.bases)?)
            }
            (DefKind::Interface(_), "describe_interface") => value(describe::interface(view, id)?),
            (DefKind::Interface(_), "describe_ext_interface") => value(describe::ext_interface(view, id)?),
            (DefKind::Interface(_) | DefKind::Value(_), "is_a") => {
                value(search::is_a(view.contents, id, &self.argument::<String>(0)?))
            }
            (DefKind::Struct(it), "_get_members") => value(describe::struct_members(view, &it.members)?),
            (DefKind::Exception(it), "_get_members") => value(describe::struct_members(view, &it.members)?),
            (DefKind::Union(it), "_get_members") => value(describe::union_members(view, it)?),
            (DefKind::Union(it), "_get_discriminator_type") => value(view.code_of(&it.discriminator)?),
            (DefKind::Union(it), "_get_discriminator_type_def") => {
                value(view.type_reference::<IDLTypeRef>(&it.discriminator)?)
            }
            (DefKind::Enum(it), "_get_members") => {
                value(it.enumerators.iter().map(|id| spec[*id].name.clone()).collect::<Vec<String>>())
            }
            (DefKind::Typedef(it), "_get_original_type_def") => {
                value(view.type_reference::<IDLTypeRef>(&it.ty)?)
            }
            (DefKind::ValueBox(it), "_get_original_type_def") => {
                value(view.type_reference::<IDLTypeRef>(&it.boxed)?)
            }
            (DefKind::Value(it), name) => match name {
                "_get_supported_interfaces" => value(view.references::<InterfaceDefRef>(&it.supports)?),
                "_get_initializers" => value(describe::initializers(view, it)?),
                "_get_ext_initializers" => value(describe::ext_initializers(view, it)?),
                "_get_base_value" => match it.base {
                    Some(base) => value(view.reference::<ValueDefRef>(Item::Definition(base))?),
                    None => value(None::<ValueDefRef>),
                },
                "_get_abstract_base_values" => value(view.references::<ValueDefRef>(&it.abstract_bases)?),
                "_get_is_abstract" => value(it.abstract_),
                "_get_is_custom" => value(it.custom),
                "_get_is_truncatable" => value(it.truncatable),
                "describe_value" => value(describe::value(view, id, it)?),
                "describe_ext_value" => value(describe::ext_value(view, id, it)?),
                "_get_type" => value(view.code(id)?),
                _ => Ok(None),
            },
            (_, "_get_type") => value(view.code(id)?),
            _ => Ok(None),
        }
    }
}

fn primitive(kind: PrimitiveKind) -> TypeCode {
    use PrimitiveKind as P;
    match kind {
        P::PkNull => TypeCode::NULL,
        P::PkVoid => TypeCode::VOID,
        P::PkShort => TypeCode::SHORT,
        P::PkLong => TypeCode::LONG,
        P::PkUshort => TypeCode::USHORT,
        P::PkUlong => TypeCode::ULONG,
        P::PkFloat => TypeCode::FLOAT,
        P::PkDouble => TypeCode::DOUBLE,
        P::PkBoolean => TypeCode::BOOLEAN,
        P::PkChar => TypeCode::CHAR,
        P::PkOctet => TypeCode::OCTET,
        P::PkAny => TypeCode::ANY,
        P::PkTypeCode => TypeCode::TYPECODE,
        P::PkPrincipal => TypeCode::PRINCIPAL,
        P::PkString => TypeCode::STRING,
        P::PkObjref => TypeCode::object(),
        P::PkLonglong => TypeCode::LONGLONG,
        P::PkUlonglong => TypeCode::ULONGLONG,
        P::PkLongdouble => TypeCode::LONGDOUBLE,
        P::PkWchar => TypeCode::WCHAR,
        P::PkWstring => TypeCode::WSTRING,
        P::PkValueBase => {
            let spec = isorb_idl::model::Spec::default();
            crate::TypeCodes::new(&spec).of_type(&Type::ValueBase).unwrap_or(TypeCode::NULL)
        }
    }
}
