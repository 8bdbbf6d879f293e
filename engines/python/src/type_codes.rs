//! Type codes of the types of an IDL file.

use isorb::TypeCode;
use isorb_any::Label;
use isorb_idl::model::{ConstValue, DefId, DefKind, Member, Spec, Type};

/// The type code of a definition.
pub fn of_definition(spec: &Spec, id: DefId) -> Result<TypeCode, String> {
    Builder { spec, enclosing: Vec::new() }.named(id)
}

/// The type code of a type.
pub fn of_type(spec: &Spec, ty: &Type) -> Result<TypeCode, String> {
    Builder { spec, enclosing: Vec::new() }.type_code(ty)
}

/// The number of a label: an integer, a code point, 0 or 1, an ordinal.
pub fn label(spec: &Spec, label: &ConstValue) -> i128 {
    match label {
        ConstValue::Integer(value) => *value,
        ConstValue::Boolean(value) => i128::from(*value),
        ConstValue::Char(c) | ConstValue::WChar(c) => i128::from(u32::from(*c)),
        ConstValue::Enumerator(id) => match &spec[*id].kind {
            DefKind::Enumerator(it) => i128::from(it.ordinal),
            _ => 0,
        },
        // The compiler rejects other labels.
        _ => 0,
    }
}

struct Builder<'s> {
    spec: &'s Spec,
    /// Types that enclose the current one; a sequence of one of them is recursive.
    enclosing: Vec<DefId>,
}

impl Builder<'_> {
    fn type_code(&mut self, ty: &Type) -> Result<TypeCode, String> {
        let text = |error: isorb_any::BuildError| error.to_string();
        Ok(match ty {
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
            Type::String { bound } => TypeCode::string(bound.unwrap_or(0)),
            Type::WString { bound } => TypeCode::wstring(bound.unwrap_or(0)),
            Type::Fixed { digits, scale } => TypeCode::fixed(*digits, *scale as i16).map_err(text)?,
            Type::Sequence { element, bound } => {
                let element = self.type_code(element)?;
                TypeCode::sequence(&element, bound.unwrap_or(0)).map_err(text)?
            }
            Type::Array { element, dims } => {
                let mut made = self.type_code(element)?;
                for length in dims.iter().rev() {
                    made = TypeCode::array(&made, *length).map_err(text)?;
                }
                made
            }
            Type::Named(id) => self.named(*id)?,
            Type::Void | Type::ValueBase | Type::AbstractBase => {
                return Err(format!("{} has no values in Python", self.spec.type_name(ty)));
            }
        })
    }

    fn named(&mut self, id: DefId) -> Result<TypeCode, String> {
        let definition = &self.spec[id];
        let (repository_id, name) = (&*definition.repository_id, &*definition.name);
        if self.enclosing.contains(&id) {
            return TypeCode::recursive(repository_id).map_err(|error| error.to_string());
        }
        self.enclosing.push(id);
        let made = match &definition.kind {
            DefKind::Struct(it) => TypeCode::new_struct(repository_id, name, &self.members(&it.members)?),
            // In a reply the id stands before the members, which are read as those of a structure.
            DefKind::Exception(it) => {
                TypeCode::new_exception(repository_id, name, &self.members(&it.members)?)
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
                    let labels = case.labels.iter().map(|it| Label::Value(label(self.spec, it)));
                    let default = case.is_default.then_some(Label::Default);
                    cases.extend(labels.chain(default).map(|label| (label, &*case.member.name, tc.clone())));
                }
                TypeCode::new_union(repository_id, name, &discriminator, &cases)
            }
            DefKind::Interface(_) => TypeCode::interface(repository_id, name),
            _ => return Err(format!("{} has no values in Python", self.spec.scoped_name(id))),
        };
        self.enclosing.pop();
        made.map_err(|error| format!("{}: {error}", self.spec.scoped_name(id)))
    }

    fn members<'m>(&mut self, members: &'m [Member]) -> Result<Vec<(&'m str, TypeCode)>, String> {
        members.iter().map(|member| Ok((&*member.name, self.type_code(&member.ty)?))).collect()
    }
}
