//! Type codes of IDL types.

use isorb_any::{Label, TypeCode};
use isorb_idl::model::{ConstValue, DefId, DefKind, Member, Spec, Type};
use isorb_idl::{Options, compile};
use std::path::{Path, PathBuf};

/// Compiles a file and makes the type code of the type of this name.
pub fn load(file: &Path, include: &[PathBuf], name: &str) -> Result<TypeCode, String> {
    let options = Options {
        include_dirs: include.to_vec(),
        embedded: Some(isorb_idl::standard::file),
        ..Options::default()
    };
    let outcome = compile(&options, file);
    let Some(spec) = &outcome.spec else { return Err(outcome.render(false)) };
    let id = spec.find(name).ok_or_else(|| format!("{} has no type {name}", file.display()))?;
    Builder { spec, enclosing: Vec::new() }.named(id)
}

struct Builder<'s> {
    spec: &'s Spec,
    /// Types that enclose the current one; a sequence of one of them is recursive.
    enclosing: Vec<DefId>,
}

impl Builder<'_> {
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
