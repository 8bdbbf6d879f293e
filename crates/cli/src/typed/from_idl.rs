//! Type codes of IDL types, and operations by their IDL.

use isorb::{DynamicInterface, DynamicOperation, Mode};
use isorb_any::{Label, TypeCode};
use isorb_idl::model::{ConstValue, DefId, DefKind, Direction, Member, Spec, Type};
use isorb_idl::{Options, compile};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Compiles a file.
fn compiled(file: &Path, include: &[PathBuf]) -> Result<Spec, String> {
    let options = Options {
        include_dirs: include.to_vec(),
        embedded: Some(isorb_idl::standard::file),
        ..Options::default()
    };
    let mut outcome = compile(&options, file);
    outcome.spec.take().ok_or_else(|| outcome.render(false))
}

/// Compiles a file and makes the type code of the type of this name.
pub fn load(file: &Path, include: &[PathBuf], name: &str) -> Result<TypeCode, String> {
    let spec = &compiled(file, include)?;
    let id = spec.find(name).ok_or_else(|| format!("{} has no type {name}", file.display()))?;
    Builder { spec, enclosing: Vec::new() }.named(id)
}

/// An operation of an IDL file.
pub struct Called {
    /// Its scoped name.
    pub name: String,
    pub operation: DynamicOperation,
}

/// Compiles a file and describes one of its operations: by its scoped name, or by its name alone
/// in the interface with this repository id, else in the only interface that has one.
pub fn load_operation(file: &Path, include: &[PathBuf], name: &str, type_id: &str) -> Result<Called, String> {
    let spec = &compiled(file, include)?;
    let (scope, plain) = name.rsplit_once("::").map_or((None, name), |(scope, plain)| (Some(scope), plain));
    let mut found: Vec<(DefId, DefId)> = Vec::new();
    for (id, definition) in spec.definitions() {
        let DefKind::Interface(interface) = &definition.kind else { continue };
        if !interface.defined
            || scope.is_some_and(|scope| spec.scoped_name(id) != scope.trim_start_matches("::"))
        {
            continue;
        }
        let has = |member: &DefId| wire_names(spec, *member).iter().any(|wire| wire == plain);
        found.extend(spec.all_operations(id).into_iter().find(has).map(|member| (id, member)));
    }
    let typed = found.iter().copied().find(|(id, _)| spec[*id].repository_id == type_id);
    let mut members: Vec<DefId> = found.iter().map(|(_, member)| *member).collect();
    members.sort();
    members.dedup();
    let member = match (typed, &members[..]) {
        (Some((_, member)), _) => member,
        (None, [only]) => *only,
        (None, []) => return Err(format!("{} has no operation {name}", file.display())),
        (None, several) => {
            let names: Vec<String> = several.iter().map(|id| spec.scoped_name(*id).to_string()).collect();
            return Err(format!(
                "{} has several operations {name}, and the reference does not say of which interface it is: \
                 call {}",
                file.display(),
                names.join(" or ")
            ));
        }
    };
    let operation = Builder { spec, enclosing: Vec::new() }.operation(member, plain)?;
    Ok(Called { name: spec.scoped_name(member).to_string(), operation })
}

/// An interface of an IDL file.
pub struct Served {
    /// Its scoped name.
    pub name: String,
    id: String,
    bases: Vec<String>,
    /// Its operations and attributes, inherited ones included.
    pub operations: Vec<DynamicOperation>,
}

impl Served {
    /// The interface for a dynamic servant.
    pub fn interface(&self) -> isorb::Result<Arc<DynamicInterface>> {
        let bases: Vec<&str> = self.bases.iter().map(String::as_str).collect();
        Ok(Arc::new(DynamicInterface::new(&self.id, &bases, self.operations.clone())?))
    }
}

/// Compiles a file and describes one of its interfaces: by its scoped name, or the only one that
/// stands in the file itself.
pub fn load_interface(file: &Path, include: &[PathBuf], name: Option<&str>) -> Result<Served, String> {
    let spec = &compiled(file, include)?;
    let is_served = |id: DefId| matches!(&spec[id].kind, DefKind::Interface(it) if it.defined);
    let id = match name {
        Some(name) => spec
            .find(name.trim_start_matches("::"))
            .filter(|id| is_served(*id))
            .ok_or_else(|| format!("{} has no interface {name}", file.display()))?,
        None => {
            let own = |id: &DefId| is_served(*id) && spec[*id].in_main_file;
            let all: Vec<DefId> = spec.definitions().map(|(id, _)| id).filter(own).collect();
            match &all[..] {
                [only] => *only,
                [] => return Err(format!("{} has no interface", file.display())),
                several => {
                    let names: Vec<String> = several.iter().map(|id| spec.scoped_name(*id)).collect();
                    return Err(format!(
                        "{} has several interfaces: write interface = \"{}\" or another of {} at the top of \
                         the script",
                        file.display(),
                        names[0],
                        names.join(", ")
                    ));
                }
            }
        }
    };
    let mut operations = Vec::new();
    for member in spec.all_operations(id) {
        for wire in wire_names(spec, member) {
            operations.push(Builder { spec, enclosing: Vec::new() }.operation(member, &wire)?);
        }
    }
    let bases = spec.all_bases(id).into_iter().map(|base| spec[base].repository_id.clone()).collect();
    Ok(Served { name: spec.scoped_name(id), id: spec[id].repository_id.clone(), bases, operations })
}

/// The names of an operation or attribute in requests.
fn wire_names(spec: &Spec, id: DefId) -> Vec<String> {
    let name = &spec[id].name;
    match &spec[id].kind {
        DefKind::Attribute(it) if it.readonly => vec![format!("_get_{name}")],
        DefKind::Attribute(_) => vec![format!("_get_{name}"), format!("_set_{name}")],
        _ => vec![name.clone()],
    }
}

struct Builder<'s> {
    spec: &'s Spec,
    /// Types that enclose the current one; a sequence of one of them is recursive.
    enclosing: Vec<DefId>,
}

impl Builder<'_> {
    fn operation(&mut self, id: DefId, wire: &str) -> Result<DynamicOperation, String> {
        let text = |exception: isorb::SystemException| exception.to_string();
        let mut made = DynamicOperation::new(wire).map_err(text)?;
        let raises = match &self.spec[id].kind {
            DefKind::Operation(it) => {
                if it.result != Type::Void {
                    made = made.result(self.type_code(&it.result)?);
                }
                for parameter in &it.params {
                    let mode = match parameter.direction {
                        Direction::In => Mode::In,
                        Direction::Out => Mode::Out,
                        Direction::InOut => Mode::InOut,
                    };
                    made = made.parameter(&parameter.name, mode, self.type_code(&parameter.ty)?);
                }
                if it.oneway {
                    made = made.oneway();
                }
                &it.raises
            }
            DefKind::Attribute(it) if wire.starts_with("_set_") => {
                made = made.parameter("value", Mode::In, self.type_code(&it.ty)?);
                &it.set_raises
            }
            DefKind::Attribute(it) => {
                made = made.result(self.type_code(&it.ty)?);
                &it.get_raises
            }
            _ => return Err(format!("{} is no operation", self.spec.scoped_name(id))),
        };
        for exception in raises {
            made = made.raises(&self.named(*exception)?).map_err(text)?;
        }
        Ok(made)
    }

    fn type_code(&mut self, ty: &Type) -> Result<TypeCode, String> {
        let bound = |bound: &Option<u32>| bound.unwrap_or(0);
        let made = match ty {
            Type::Boolean => TypeCode::BOOLEAN,
            Type::Char => TypeCode::CHAR,
            Type::WChar => TypeCode::WCHAR,
            Type::Octet | Type::Int8 => TypeCode::OCTET,
            Type::Short => TypeCode::SHORT,
            Type::UShort => TypeCode::USHORT,
            Type::Long => TypeCode::LONG,
            Type::ULong => TypeCode::ULONG,
            Type::LongLong => TypeCode::LONGLONG,
            Type::ULongLong => TypeCode::ULONGLONG,
            Type::Float => TypeCode::FLOAT,
            Type::Double => TypeCode::DOUBLE,
            Type::LongDouble => TypeCode::LONGDOUBLE,
            Type::Any => TypeCode::ANY,
            Type::TypeCode => TypeCode::TYPECODE,
            Type::Object => TypeCode::object(),
            Type::String { bound: b } => TypeCode::string(bound(b)),
            Type::WString { bound: b } => TypeCode::wstring(bound(b)),
            Type::Fixed { digits, scale } => {
                TypeCode::fixed(*digits, *scale as i16).map_err(|error| error.to_string())?
            }
            Type::Sequence { element, bound: b } => {
                let element = self.type_code(element)?;
                TypeCode::sequence(&element, bound(b)).map_err(|error| error.to_string())?
            }
            Type::Array { element, dims } => {
                let mut made = self.type_code(element)?;
                for length in dims.iter().rev() {
                    made = TypeCode::array(&made, *length).map_err(|error| error.to_string())?;
                }
                made
            }
            Type::Named(id) => self.named(*id)?,
            Type::Void | Type::ValueBase | Type::AbstractBase => {
                return Err(format!(
                    "{} has no values that can be shown or written",
                    self.spec.type_name(ty)
                ));
            }
        };
        Ok(made)
    }

    fn named(&mut self, id: DefId) -> Result<TypeCode, String> {
        let definition = &self.spec[id];
        let (repository_id, name) = (&*definition.repository_id, &*definition.name);
        if self.enclosing.contains(&id) {
            return TypeCode::recursive(repository_id).map_err(|error| error.to_string());
        }
        self.enclosing.push(id);
        let made = match &definition.kind {
            DefKind::Struct(it) => {
                let members = self.members(it.members.iter())?;
                TypeCode::new_struct(repository_id, name, &members)
            }
            DefKind::Exception(it) => {
                let members = self.members(it.members.iter())?;
                TypeCode::new_exception(repository_id, name, &members)
            }
            DefKind::Enum(it) => {
                let names: Vec<&str> = it.enumerators.iter().map(|id| &*self.spec[*id].name).collect();
                TypeCode::new_enum(repository_id, name, &names)
            }
            DefKind::Typedef(it) => {
                let original = self.type_code(self.spec.alias_of(it))?;
                TypeCode::new_alias(repository_id, name, &original)
            }
            DefKind::Union(it) => {
                let discriminator = self.type_code(&it.discriminator)?;
                let mut cases = Vec::new();
                for case in &it.cases {
                    let tc = self.type_code(&case.member.ty)?;
                    let labels = case.labels.iter().map(|label| self.label(label));
                    let default = case.is_default.then_some(Label::Default);
                    cases.extend(labels.chain(default).map(|label| (label, &*case.member.name, tc.clone())));
                }
                TypeCode::new_union(repository_id, name, &discriminator, &cases)
            }
            DefKind::Interface(_) => TypeCode::interface(repository_id, name),
            _ => {
                return Err(format!(
                    "{} has no values that can be shown or written",
                    self.spec.scoped_name(id)
                ));
            }
        };
        self.enclosing.pop();
        made.map_err(|error| format!("{}: {error}", self.spec.scoped_name(id)))
    }

    fn members<'m>(
        &mut self,
        members: impl Iterator<Item = &'m Member>,
    ) -> Result<Vec<(&'m str, TypeCode)>, String> {
        members.map(|member| Ok((&*member.name, self.type_code(&member.ty)?))).collect()
    }

    fn label(&self, label: &ConstValue) -> Label {
        Label::Value(match label {
            ConstValue::Integer(value) => *value,
            ConstValue::Boolean(value) => i128::from(*value),
            ConstValue::Char(c) | ConstValue::WChar(c) => i128::from(u32::from(*c)),
            ConstValue::Enumerator(id) => match &self.spec[*id].kind {
                DefKind::Enumerator(it) => i128::from(it.ordinal),
                _ => 0,
            },
            // The compiler rejects other labels.
            _ => 0,
        })
    }
}
