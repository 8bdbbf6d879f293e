//! Descriptions of definitions, as structures and in `any`.

use super::view::View;
use crate::contents::Item;
use crate::corba::{
    AttributeDescription, AttributeMode, ConstantDescription, ExceptionDescription, ExtAttributeDescription,
    ExtInitializer, Initializer, InterfaceDescription, ModuleDescription, OperationDescription,
    OperationMode, ParameterDescription, ParameterMode, StructMember, TypeDescription, UnionMember,
    ValueDescription, ValueMember, ext_value_def, interface_attr_extension, interface_def, value_def,
};
use isorb::{Any, Kind, Result, TypeCode};
use isorb_idl::model::{
    Attribute, DefId, DefKind, Direction, Factory, Member, Operation, Param, Type, Union, Value,
};

/// A structure that begins with name, id, container and version.
macro_rules! described {
    ($structure:path, $view:expr, $item:expr, { $($member:ident: $value:expr),* $(,)? }) => {{
        let header = $view.header($item);
        $structure {
            name: header.name,
            id: header.id,
            defined_in: header.defined_in,
            version: header.version,
            $($member: $value),*
        }
    }};
}

/// The description of a definition or member in an `any`.
pub fn describe(view: View<'_>, item: Item) -> Result<Any> {
    let spec = view.contents.spec();
    let id = match item {
        Item::Definition(id) => id,
        Item::Member(id, at) => return Ok(Any::new(&value_member(view, id, at)?)?),
        _ => return Ok(Any::null()),
    };
    Ok(match &spec[id].kind {
        DefKind::Module => Any::new(&described!(ModuleDescription, view, item, {})),
        DefKind::Const(it) => Any::new(&described!(ConstantDescription, view, item, {
            type_: view.code_of(&it.ty)?,
            value: view.constant(&it.ty, &it.value)?,
        })),
        DefKind::Exception(_) => Any::new(&exception(view, id)?),
        DefKind::Attribute(it) => Any::new(&attribute(view, id, it)?),
        DefKind::Operation(it) => Any::new(&operation(view, id, it)?),
        DefKind::Interface(it) => Any::new(&described!(InterfaceDescription, view, item, {
            base_interfaces: view.repository_ids(&it.bases),
        })),
        DefKind::Value(it) => Any::new(&described!(ValueDescription, view, item, {
            is_abstract: it.abstract_,
            is_custom: it.custom,
            supported_interfaces: view.repository_ids(&it.supports),
            abstract_base_values: view.repository_ids(&it.abstract_bases),
            is_truncatable: it.truncatable,
            base_value: base_of(view, it),
        })),
        _ => Any::new(&described!(TypeDescription, view, item, { type_: view.code(id)? })),
    }?)
}

pub fn exception(view: View<'_>, id: DefId) -> Result<ExceptionDescription> {
    // IDL admits a native among the exceptions of module CORBA: its code is that of the native.
    Ok(described!(ExceptionDescription, view, Item::Definition(id), { type_: view.code(id)? }))
}

pub fn exceptions(view: View<'_>, ids: &[DefId]) -> Result<Vec<ExceptionDescription>> {
    ids.iter().map(|id| exception(view, *id)).collect()
}

fn mode(attribute: &Attribute) -> AttributeMode {
    if attribute.readonly { AttributeMode::AttrReadonly } else { AttributeMode::AttrNormal }
}

pub fn attribute(view: View<'_>, id: DefId, it: &Attribute) -> Result<AttributeDescription> {
    Ok(described!(AttributeDescription, view, Item::Definition(id), {
        type_: view.code_of(&it.ty)?,
        mode: mode(it),
    }))
}

pub fn ext_attribute(view: View<'_>, id: DefId, it: &Attribute) -> Result<ExtAttributeDescription> {
    Ok(described!(ExtAttributeDescription, view, Item::Definition(id), {
        type_: view.code_of(&it.ty)?,
        mode: mode(it),
        get_exceptions: exceptions(view, &it.get_raises)?,
        put_exceptions: exceptions(view, &it.set_raises)?,
    }))
}

pub fn attribute_mode(it: &Attribute) -> AttributeMode {
    mode(it)
}

pub fn operation_mode(it: &Operation) -> OperationMode {
    if it.oneway { OperationMode::OpOneway } else { OperationMode::OpNormal }
}

pub fn parameters(view: View<'_>, parameters: &[Param]) -> Result<Vec<ParameterDescription>> {
    let one = |parameter: &Param| {
        Ok(ParameterDescription {
            name: parameter.name.clone(),
            type_: view.code_of(&parameter.ty)?,
            type_def: view.type_reference(&parameter.ty)?,
            mode: match parameter.direction {
                Direction::In => ParameterMode::ParamIn,
                Direction::Out => ParameterMode::ParamOut,
                Direction::InOut => ParameterMode::ParamInout,
            },
        })
    };
    parameters.iter().map(one).collect()
}

pub fn operation(view: View<'_>, id: DefId, it: &Operation) -> Result<OperationDescription> {
    Ok(described!(OperationDescription, view, Item::Definition(id), {
        result: view.code_of(&it.result)?,
        mode: operation_mode(it),
        contexts: it.context.clone(),
        parameters: parameters(view, &it.params)?,
        exceptions: exceptions(view, &it.raises)?,
    }))
}

/// Operations and attributes of an interface or value, inherited ones included.
struct Features {
    operations: Vec<OperationDescription>,
    attributes: Vec<ExtAttributeDescription>,
}

fn features(view: View<'_>, id: DefId) -> Result<Features> {
    let spec = view.contents.spec();
    let mut features = Features { operations: Vec::new(), attributes: Vec::new() };
    for member in spec.all_operations(id) {
        match &spec[member].kind {
            DefKind::Operation(it) => features.operations.push(operation(view, member, it)?),
            DefKind::Attribute(it) => features.attributes.push(ext_attribute(view, member, it)?),
            _ => {}
        }
    }
    Ok(features)
}

fn without_exceptions(attributes: Vec<ExtAttributeDescription>) -> Vec<AttributeDescription> {
    let plain = |it: ExtAttributeDescription| AttributeDescription {
        name: it.name,
        id: it.id,
        defined_in: it.defined_in,
        version: it.version,
        type_: it.type_,
        mode: it.mode,
    };
    attributes.into_iter().map(plain).collect()
}

pub fn interface(view: View<'_>, id: DefId) -> Result<interface_def::FullInterfaceDescription> {
    let Features { operations, attributes } = features(view, id)?;
    Ok(described!(interface_def::FullInterfaceDescription, view, Item::Definition(id), {
        operations: operations,
        attributes: without_exceptions(attributes),
        base_interfaces: view.repository_ids(&view.contents.spec().direct_bases(id)),
        type_: view.code(id)?,
    }))
}

pub fn ext_interface(
    view: View<'_>,
    id: DefId,
) -> Result<interface_attr_extension::ExtFullInterfaceDescription> {
    let Features { operations, attributes } = features(view, id)?;
    Ok(described!(interface_attr_extension::ExtFullInterfaceDescription, view, Item::Definition(id), {
        operations: operations,
        attributes: attributes,
        base_interfaces: view.repository_ids(&view.contents.spec().direct_bases(id)),
        type_: view.code(id)?,
    }))
}

fn base_of(view: View<'_>, value: &Value) -> String {
    value.base.map_or_else(String::new, |base| view.contents.spec()[base].repository_id.clone())
}

pub fn value(view: View<'_>, id: DefId, it: &Value) -> Result<value_def::FullValueDescription> {
    let Features { operations, attributes } = features(view, id)?;
    Ok(described!(value_def::FullValueDescription, view, Item::Definition(id), {
        is_abstract: it.abstract_,
        is_custom: it.custom,
        operations: operations,
        attributes: without_exceptions(attributes),
        members: value_members(view, id, it)?,
        initializers: initializers(view, it)?,
        supported_interfaces: view.repository_ids(&it.supports),
        abstract_base_values: view.repository_ids(&it.abstract_bases),
        is_truncatable: it.truncatable,
        base_value: base_of(view, it),
        type_: view.code(id)?,
    }))
}

pub fn ext_value(view: View<'_>, id: DefId, it: &Value) -> Result<ext_value_def::ExtFullValueDescription> {
    let Features { operations, attributes } = features(view, id)?;
    Ok(described!(ext_value_def::ExtFullValueDescription, view, Item::Definition(id), {
        is_abstract: it.abstract_,
        is_custom: it.custom,
        operations: operations,
        attributes: attributes,
        members: value_members(view, id, it)?,
        initializers: ext_initializers(view, it)?,
        supported_interfaces: view.repository_ids(&it.supports),
        abstract_base_values: view.repository_ids(&it.abstract_bases),
        is_truncatable: it.truncatable,
        base_value: base_of(view, it),
        type_: view.code(id)?,
    }))
}

fn value_members(view: View<'_>, id: DefId, it: &Value) -> Result<Vec<ValueMember>> {
    (0..it.members.len()).map(|at| value_member(view, id, at)).collect()
}

fn value_member(view: View<'_>, id: DefId, at: usize) -> Result<ValueMember> {
    let item = Item::Member(id, at);
    let state = view.contents.member(item).ok_or(Kind::ObjectNotExist)?;
    Ok(described!(ValueMember, view, item, {
        type_: view.code_of(&state.member.ty)?,
        type_def: view.type_reference(&state.member.ty)?,
        access: i16::from(state.public),
    }))
}

/// The parameters of a `factory`, in the form of members.
fn factory_members(view: View<'_>, factory: &Factory) -> Result<Vec<StructMember>> {
    let one = |parameter: &Param| struct_member(view, &parameter.name, &parameter.ty);
    factory.params.iter().map(one).collect()
}

pub fn initializers(view: View<'_>, it: &Value) -> Result<Vec<Initializer>> {
    let one = |factory: &Factory| {
        Ok(Initializer { members: factory_members(view, factory)?, name: factory.name.clone() })
    };
    it.factories.iter().map(one).collect()
}

pub fn ext_initializers(view: View<'_>, it: &Value) -> Result<Vec<ExtInitializer>> {
    let one = |factory: &Factory| {
        Ok(ExtInitializer {
            members: factory_members(view, factory)?,
            exceptions: exceptions(view, &factory.raises)?,
            name: factory.name.clone(),
        })
    };
    it.factories.iter().map(one).collect()
}

fn struct_member(view: View<'_>, name: &str, ty: &Type) -> Result<StructMember> {
    let (type_, type_def) = (view.code_of(ty)?, view.type_reference(ty)?);
    Ok(StructMember { name: name.to_owned(), type_, type_def })
}

pub fn struct_members(view: View<'_>, members: &[Member]) -> Result<Vec<StructMember>> {
    members.iter().map(|member| struct_member(view, &member.name, &member.ty)).collect()
}

/// A member for each label.
pub fn union_members(view: View<'_>, it: &Union) -> Result<Vec<UnionMember>> {
    let mut members = Vec::new();
    for case in &it.cases {
        let labels = case.labels.iter().map(|label| view.constant(&it.discriminator, label));
        let default = case.is_default.then(|| Ok(Any::new(&0u8)?));
        for label in labels.chain(default) {
            let (type_, type_def): (TypeCode, _) =
                (view.code_of(&case.member.ty)?, view.type_reference(&case.member.ty)?);
            members.push(UnionMember { name: case.member.name.clone(), label: label?, type_, type_def });
        }
    }
    Ok(members)
}
