//! What a repository contains: the definitions of compiled IDL files, and their types.

use crate::corba::{DefinitionKind, PrimitiveKind};
use crate::type_codes::TypeCodes;
use isorb::TypeCode;
use isorb_idl::model::{DefId, DefKind, Interface, Spec, Type};
use isorb_idl::{FsLoader, Loader, Options, compile_with};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

/// The definitions of IDL files.
#[derive(Debug)]
pub struct Contents {
    spec: Spec,
    /// By repository id: definitions, and members of values.
    ids: HashMap<String, Item>,
    /// Types without a name: sequences, arrays, bounded text, fixed-point numbers.
    anonymous: Vec<Type>,
    /// The places in `anonymous`, by the type as IDL spells it.
    spelled: HashMap<String, usize>,
    codes: HashMap<DefId, Result<TypeCode, String>>,
}

/// An object of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Item {
    Repository,
    Definition(DefId),
    /// A member of a value's state.
    Member(DefId, usize),
    Primitive(PrimitiveKind),
    /// A type without a name.
    Anonymous(usize),
}

/// The name of the file that includes all others.
const ALL: &str = "interface-repository";

/// Reads files, and the one that includes them.
struct Files(String);

impl Loader for Files {
    fn load(&self, path: &Path, limit: usize) -> io::Result<Vec<u8>> {
        if path == Path::new(ALL) { Ok(self.0.clone().into_bytes()) } else { FsLoader.load(path, limit) }
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        FsLoader.canonical(path)
    }
}

impl Contents {
    /// Compiles files, as if one file included them all; the standard modules are found without an
    /// installed folder. `include` are the folders of `#include`.
    ///
    /// # Errors
    /// The compiler's messages, with the lines of the files.
    pub fn compile(files: &[PathBuf], include: &[PathBuf]) -> Result<Contents, String> {
        let mut text = String::new();
        for file in files {
            let path = std::path::absolute(file).map_err(|error| format!("{}: {error}", file.display()))?;
            // The compiler would report it as an include, which the user wrote nowhere.
            FsLoader.load(&path, 0).map_err(|error| format!("{}: {error}", file.display()))?;
            match path.to_str() {
                Some(path) if !path.contains(['"', '\\', '\n']) => {
                    text.push_str(&format!("#include \"{path}\"\n"));
                }
                _ => {
                    return Err(format!(
                        "{}: a path with quotation marks or backslashes, or not in UTF-8, cannot be \
                         included: give the file another name",
                        file.display()
                    ));
                }
            }
        }
        let options = Options {
            include_dirs: include.to_vec(),
            embedded: Some(isorb_idl::standard::file),
            ..Options::default()
        };
        let mut outcome = compile_with(&options, &Files(text), Path::new(ALL));
        outcome.spec.take().map(Contents::new).ok_or_else(|| outcome.render(false))
    }

    /// From a specification that is compiled.
    pub fn new(spec: Spec) -> Contents {
        let mut ids = HashMap::new();
        for (id, definition) in spec.definitions() {
            if let DefKind::Value(value) = &definition.kind {
                let members = value.members.iter().enumerate();
                ids.extend(members.map(|(at, state)| {
                    (member_id(&definition.repository_id, &state.member.name), Item::Member(id, at))
                }));
            }
        }
        for (id, definition) in spec.definitions() {
            // Enumerators have ids, and are no objects of a repository.
            if !matches!(definition.kind, DefKind::Enumerator(_)) {
                ids.insert(definition.repository_id.clone(), Item::Definition(id));
            }
        }
        let codes = {
            let mut made = TypeCodes::new(&spec);
            let types = spec.definitions().filter(|(_, definition)| is_type(&definition.kind));
            types.map(|(id, _)| (id, made.of_definition(id))).collect()
        };
        let mut contents =
            Contents { ids, anonymous: Vec::new(), spelled: HashMap::new(), codes, spec: Spec::default() };
        for (_, definition) in spec.definitions() {
            for ty in types_of(&definition.kind) {
                contents.add_anonymous(&spec, ty);
            }
        }
        contents.spec = spec;
        contents
    }

    fn add_anonymous(&mut self, spec: &Spec, ty: &Type) {
        let element = match ty {
            Type::Sequence { element, .. } => Some((**element).clone()),
            Type::Array { .. } => inner(ty),
            Type::String { bound: Some(_) } | Type::WString { bound: Some(_) } | Type::Fixed { .. } => None,
            _ => return,
        };
        let spelling = spec.type_name(ty);
        if self.spelled.contains_key(&spelling) {
            return;
        }
        self.spelled.insert(spelling, self.anonymous.len());
        self.anonymous.push(ty.clone());
        if let Some(element) = element {
            self.add_anonymous(spec, &element);
        }
    }

    /// The compiled definitions.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The definition with a repository id.
    pub fn find(&self, repository_id: &str) -> Option<DefId> {
        match self.item(repository_id)? {
            Item::Definition(id) => Some(id),
            _ => None,
        }
    }

    pub(crate) fn item(&self, repository_id: &str) -> Option<Item> {
        self.ids.get(repository_id).copied()
    }

    /// The type code of a definition that is a type.
    ///
    /// # Errors
    /// A sentence about a type that is larger than a type code may be.
    pub fn code(&self, id: DefId) -> Result<TypeCode, String> {
        match self.codes.get(&id) {
            Some(code) => code.clone(),
            None => Err(format!("{} is no type", self.spec.scoped_name(id))),
        }
    }

    /// The type code of any type.
    ///
    /// # Errors
    /// As [`Contents::code`].
    pub fn code_of(&self, ty: &Type) -> Result<TypeCode, String> {
        let text = |error: isorb_any::BuildError| error.to_string();
        match ty {
            Type::Named(id) => self.code(*id),
            Type::Sequence { element, bound } => {
                TypeCode::sequence(&self.code_of(element)?, bound.unwrap_or(0)).map_err(text)
            }
            Type::Array { element, dims } => {
                dims.iter().rev().try_fold(self.code_of(element)?, |made, length| {
                    TypeCode::array(&made, *length).map_err(text)
                })
            }
            simple => TypeCodes::new(&self.spec).of_type(simple),
        }
    }

    pub(crate) fn anonymous(&self, at: usize) -> Option<&Type> {
        self.anonymous.get(at)
    }

    pub(crate) fn spelled(&self, spelling: &str) -> Option<usize> {
        self.spelled.get(spelling).copied()
    }

    /// The object that stands for a type; `None` for `CORBA::AbstractBase`, for which there is no
    /// primitive.
    pub(crate) fn item_of(&self, ty: &Type) -> Option<Item> {
        use PrimitiveKind as P;
        Some(Item::Primitive(match ty {
            Type::Named(id) => return Some(Item::Definition(*id)),
            Type::Void => P::PkVoid,
            Type::Boolean => P::PkBoolean,
            Type::Char => P::PkChar,
            Type::WChar => P::PkWchar,
            Type::Octet | Type::Int8 => P::PkOctet,
            Type::Short => P::PkShort,
            Type::UShort => P::PkUshort,
            Type::Long => P::PkLong,
            Type::ULong => P::PkUlong,
            Type::LongLong => P::PkLonglong,
            Type::ULongLong => P::PkUlonglong,
            Type::Float => P::PkFloat,
            Type::Double => P::PkDouble,
            Type::LongDouble => P::PkLongdouble,
            Type::Any => P::PkAny,
            Type::TypeCode => P::PkTypeCode,
            Type::Object => P::PkObjref,
            Type::ValueBase => P::PkValueBase,
            Type::String { bound: None } => P::PkString,
            Type::WString { bound: None } => P::PkWstring,
            Type::AbstractBase => return None,
            other => return self.spelled(&self.spec.type_name(other)).map(Item::Anonymous),
        }))
    }

    /// The kind of an object, and the name of its interface in module CORBA.
    pub(crate) fn kind(&self, item: Item) -> (DefinitionKind, &'static str) {
        use DefinitionKind as K;
        let id = match item {
            Item::Repository => return (K::DkRepository, "Repository"),
            Item::Member(..) => return (K::DkValueMember, "ValueMemberDef"),
            Item::Primitive(_) => return (K::DkPrimitive, "PrimitiveDef"),
            Item::Anonymous(at) => {
                return match self.anonymous(at) {
                    Some(Type::Sequence { .. }) => (K::DkSequence, "SequenceDef"),
                    Some(Type::Array { .. }) => (K::DkArray, "ArrayDef"),
                    Some(Type::Fixed { .. }) => (K::DkFixed, "FixedDef"),
                    Some(Type::WString { .. }) => (K::DkWstring, "WstringDef"),
                    _ => (K::DkString, "StringDef"),
                };
            }
            Item::Definition(id) => id,
        };
        match &self.spec[id].kind {
            DefKind::Module => (K::DkModule, "ModuleDef"),
            DefKind::Interface(Interface { abstract_: true, .. }) => {
                (K::DkAbstractInterface, "ExtAbstractInterfaceDef")
            }
            DefKind::Interface(Interface { local: true, .. }) => {
                (K::DkLocalInterface, "ExtLocalInterfaceDef")
            }
            DefKind::Interface(_) => (K::DkInterface, "ExtInterfaceDef"),
            DefKind::Value(_) => (K::DkValue, "ExtValueDef"),
            DefKind::ValueBox(_) => (K::DkValueBox, "ValueBoxDef"),
            DefKind::Struct(_) => (K::DkStruct, "StructDef"),
            DefKind::Union(_) => (K::DkUnion, "UnionDef"),
            DefKind::Enum(_) => (K::DkEnum, "EnumDef"),
            // Never an object.
            DefKind::Enumerator(_) => (K::DkNone, "IRObject"),
            DefKind::Exception(_) => (K::DkException, "ExceptionDef"),
            DefKind::Typedef(_) => (K::DkAlias, "AliasDef"),
            DefKind::Const(_) => (K::DkConstant, "ConstantDef"),
            DefKind::Native => (K::DkNative, "NativeDef"),
            DefKind::Operation(_) => (K::DkOperation, "OperationDef"),
            DefKind::Attribute(_) => (K::DkAttribute, "ExtAttributeDef"),
        }
    }
}

/// The repository id of a member of a value, which IDL gives none.
pub(crate) fn member_id(value: &str, member: &str) -> String {
    match value.rsplit_once(':') {
        Some((path, version)) => format!("{path}/{member}:{version}"),
        None => format!("{value}/{member}"),
    }
}

/// The element of an array as a type of its own: an array of one dimension less, or its element.
pub(crate) fn inner(array: &Type) -> Option<Type> {
    match array {
        Type::Array { element, dims } => Some(match dims.split_first() {
            Some((_, rest)) if !rest.is_empty() => {
                Type::Array { element: element.clone(), dims: rest.to_vec() }
            }
            _ => (**element).clone(),
        }),
        _ => None,
    }
}

fn is_type(kind: &DefKind) -> bool {
    use DefKind::*;
    matches!(
        kind,
        Interface(_)
            | Value(_)
            | ValueBox(_)
            | Struct(_)
            | Union(_)
            | Enum(_)
            | Exception(_)
            | Typedef(_)
            | Native
    )
}

/// All types that a definition names.
fn types_of(kind: &DefKind) -> Vec<&Type> {
    match kind {
        DefKind::Struct(it) => it.members.iter().map(|member| &member.ty).collect(),
        DefKind::Exception(it) => it.members.iter().map(|member| &member.ty).collect(),
        DefKind::Union(it) => {
            it.cases.iter().map(|case| &case.member.ty).chain([&it.discriminator]).collect()
        }
        DefKind::Value(it) => {
            let parameters =
                it.factories.iter().flat_map(|factory| factory.params.iter().map(|param| &param.ty));
            it.members.iter().map(|state| &state.member.ty).chain(parameters).collect()
        }
        DefKind::ValueBox(it) => vec![&it.boxed],
        DefKind::Typedef(it) => vec![&it.ty],
        DefKind::Const(it) => vec![&it.ty],
        DefKind::Operation(it) => it.params.iter().map(|param| &param.ty).chain([&it.result]).collect(),
        DefKind::Attribute(it) => vec![&it.ty],
        _ => Vec::new(),
    }
}
