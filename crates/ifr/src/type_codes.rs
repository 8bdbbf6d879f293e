//! Type codes of the types of a specification.

use isorb_any::{Kind, Label, TypeCode, modifier, visibility};
use isorb_idl::model::{ConstValue, DefId, DefKind, Interface, Member, Spec, Type, Value};
use std::collections::{HashMap, HashSet};

/// Makes type codes, each once.
#[derive(Debug)]
pub struct TypeCodes<'s> {
    spec: &'s Spec,
    /// Definitions that enclose the current one; one of them inside is recursive.
    enclosing: Vec<DefId>,
    known: HashMap<DefId, TypeCode>,
}

impl<'s> TypeCodes<'s> {
    /// None made yet.
    pub fn new(spec: &'s Spec) -> TypeCodes<'s> {
        TypeCodes { spec, enclosing: Vec::new(), known: HashMap::new() }
    }

    /// The specification.
    pub fn spec(&self) -> &'s Spec {
        self.spec
    }

    /// The code of a type; `void` for no result.
    ///
    /// # Errors
    /// A sentence about a type that is larger than a type code may be.
    pub fn of_type(&mut self, ty: &Type) -> Result<TypeCode, String> {
        let text = |error: isorb_any::BuildError| error.to_string();
        let bound = |bound: &Option<u32>| bound.unwrap_or(0);
        Ok(match ty {
            Type::Void => TypeCode::VOID,
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
            Type::ValueBase => {
                let id = "IDL:omg.org/CORBA/ValueBase:1.0";
                TypeCode::new_value(id, "ValueBase", modifier::NONE, None, &[], false).map_err(text)?
            }
            Type::AbstractBase => {
                let id = "IDL:omg.org/CORBA/AbstractBase:1.0";
                TypeCode::opaque(Kind::AbstractInterface, id, "AbstractBase").map_err(text)?
            }
            Type::String { bound: b } => TypeCode::string(bound(b)),
            Type::WString { bound: b } => TypeCode::wstring(bound(b)),
            Type::Fixed { digits, scale } => TypeCode::fixed(*digits, *scale as i16).map_err(text)?,
            Type::Sequence { element, bound: b } => {
                let element = self.of_type(element)?;
                TypeCode::sequence(&element, bound(b)).map_err(text)?
            }
            Type::Array { element, dims } => {
                let mut made = self.of_type(element)?;
                for length in dims.iter().rev() {
                    made = TypeCode::array(&made, *length).map_err(text)?;
                }
                made
            }
            Type::Named(id) => self.of_definition(*id)?,
        })
    }

    /// The code of a type with a name.
    ///
    /// # Errors
    /// A sentence about a definition that is no type, or larger than a type code may be.
    pub fn of_definition(&mut self, id: DefId) -> Result<TypeCode, String> {
        let definition = &self.spec[id];
        if self.enclosing.contains(&id) {
            return TypeCode::recursive(&definition.repository_id).map_err(|error| error.to_string());
        }
        // A type that leads back to an enclosing one is written out inside it.
        if let Some(known) = self.known.get(&id)
            && !self.leads_to_enclosing(id)
        {
            return Ok(known.clone());
        }
        self.enclosing.push(id);
        let made = self.make(id);
        self.enclosing.pop();
        let made = made.map_err(|error| format!("{}: {error}", self.spec.scoped_name(id)))?;
        if self.enclosing.is_empty() || made.is_complete() {
            self.known.insert(id, made.clone());
        }
        Ok(made)
    }

    fn make(&mut self, id: DefId) -> Result<TypeCode, String> {
        let spec = self.spec;
        let definition = &spec[id];
        let (repository_id, name) = (&*definition.repository_id, &*definition.name);
        let made = match &definition.kind {
            DefKind::Struct(it) => {
                TypeCode::new_struct(repository_id, name, &self.members(it.members.iter())?)
            }
            DefKind::Exception(it) => {
                TypeCode::new_exception(repository_id, name, &self.members(it.members.iter())?)
            }
            DefKind::Enum(it) => {
                let names: Vec<&str> = it.enumerators.iter().map(|id| &*spec[*id].name).collect();
                TypeCode::new_enum(repository_id, name, &names)
            }
            DefKind::Typedef(it) => {
                let original = self.of_type(spec.alias_of(it))?;
                TypeCode::new_alias(repository_id, name, &original)
            }
            DefKind::Union(it) => {
                let discriminator = self.of_type(&it.discriminator)?;
                let mut cases = Vec::new();
                for case in &it.cases {
                    let tc = self.of_type(&case.member.ty)?;
                    let labels = case.labels.iter().map(|label| label_of(spec, label));
                    let default = case.is_default.then_some(Label::Default);
                    cases.extend(labels.chain(default).map(|label| (label, &*case.member.name, tc.clone())));
                }
                TypeCode::new_union(repository_id, name, &discriminator, &cases)
            }
            DefKind::Interface(it) => TypeCode::opaque(kind_of(it), repository_id, name),
            DefKind::ValueBox(it) => {
                let boxed = self.of_type(&it.boxed)?;
                TypeCode::new_value_box(repository_id, name, &boxed)
            }
            DefKind::Value(it) => return self.value(it, repository_id, name),
            DefKind::Native => TypeCode::opaque(Kind::Native, repository_id, name),
            _ => return Err("this is no type".to_owned()),
        };
        made.map_err(|error| error.to_string())
    }

    fn value(&mut self, value: &Value, repository_id: &str, name: &str) -> Result<TypeCode, String> {
        let modifier = match value {
            Value { custom: true, .. } => modifier::CUSTOM,
            Value { abstract_: true, .. } => modifier::ABSTRACT,
            Value { truncatable: true, .. } => modifier::TRUNCATABLE,
            _ => modifier::NONE,
        };
        let base = value.base.map(|base| self.of_definition(base)).transpose()?;
        let mut members = Vec::new();
        for state in &value.members {
            let access = if state.public { visibility::PUBLIC } else { visibility::PRIVATE };
            members.push((&*state.member.name, self.of_type(&state.member.ty)?, access));
        }
        TypeCode::new_value(repository_id, name, modifier, base.as_ref(), &members, false)
            .map_err(|error| error.to_string())
    }

    fn members<'m>(
        &mut self,
        members: impl Iterator<Item = &'m Member>,
    ) -> Result<Vec<(&'m str, TypeCode)>, String> {
        members.map(|member| Ok((&*member.name, self.of_type(&member.ty)?))).collect()
    }

    /// Whether values of the type can contain values of an enclosing one.
    fn leads_to_enclosing(&self, id: DefId) -> bool {
        if self.enclosing.is_empty() {
            return false;
        }
        let mut seen = HashSet::from([id]);
        let mut todo = self.spec.member_types(id);
        while let Some(ty) = todo.pop() {
            match ty {
                Type::Named(id) if self.enclosing.contains(id) => return true,
                Type::Named(id) if seen.insert(*id) => todo.extend(self.spec.member_types(*id)),
                Type::Sequence { element, .. } | Type::Array { element, .. } => todo.push(element),
                _ => {}
            }
        }
        false
    }
}

fn kind_of(interface: &Interface) -> Kind {
    match interface {
        Interface { abstract_: true, .. } => Kind::AbstractInterface,
        Interface { local: true, .. } => Kind::LocalInterface,
        _ => Kind::ObjRef,
    }
}

fn label_of(spec: &Spec, label: &ConstValue) -> Label {
    Label::Value(match label {
        ConstValue::Integer(value) => *value,
        ConstValue::Boolean(value) => i128::from(*value),
        ConstValue::Char(c) | ConstValue::WChar(c) => i128::from(u32::from(*c)),
        ConstValue::Enumerator(id) => match &spec[*id].kind {
            DefKind::Enumerator(it) => i128::from(it.ordinal),
            _ => 0,
        },
        // The compiler rejects other labels.
        _ => 0,
    })
}
