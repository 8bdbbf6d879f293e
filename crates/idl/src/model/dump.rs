//! A stable text rendering of the whole model, for golden tests and for debugging.

use super::{
    Annotation, AnnotationValue, ConstValue, DefId, DefKind, Definition, Direction, Member, Param, Spec, Type,
};
use std::fmt::Write;

impl Spec {
    /// Renders every definition, one or more lines each, indented by scope. Equal models give equal
    /// text.
    pub fn dump(&self) -> String {
        let mut dump = Dump { spec: self, out: String::new(), depth: 0 };
        self.roots.iter().for_each(|&id| dump.definition(id));
        dump.out
    }

    /// The type as IDL spells it, with full scoped names.
    pub fn type_name(&self, ty: &Type) -> String {
        let simple = match ty {
            Type::Void => "void",
            Type::Boolean => "boolean",
            Type::Char => "char",
            Type::WChar => "wchar",
            Type::Octet => "octet",
            Type::Int8 => "int8",
            Type::Short => "short",
            Type::UShort => "unsigned short",
            Type::Long => "long",
            Type::ULong => "unsigned long",
            Type::LongLong => "long long",
            Type::ULongLong => "unsigned long long",
            Type::Float => "float",
            Type::Double => "double",
            Type::LongDouble => "long double",
            Type::Any => "any",
            Type::Object => "Object",
            Type::TypeCode => "::CORBA::TypeCode",
            Type::ValueBase => "ValueBase",
            Type::AbstractBase => "::CORBA::AbstractBase",
            Type::String { bound: None } => "string",
            Type::WString { bound: None } => "wstring",
            Type::String { bound: Some(n) } => return format!("string<{n}>"),
            Type::WString { bound: Some(n) } => return format!("wstring<{n}>"),
            Type::Sequence { element, bound: None } => {
                return format!("sequence<{}>", self.type_name(element));
            }
            Type::Sequence { element, bound: Some(n) } => {
                return format!("sequence<{}, {n}>", self.type_name(element));
            }
            Type::Array { element, dims } => {
                let dims: String = dims.iter().map(|d| format!("[{d}]")).collect();
                return self.type_name(element) + &dims;
            }
            Type::Fixed { digits, scale } => return format!("fixed<{digits}, {scale}>"),
            Type::Named(id) => return format!("::{}", self.scoped_name(*id)),
        };
        simple.to_owned()
    }

    /// The value as IDL spells it, enumerators with full scoped names.
    pub fn value_name(&self, value: &ConstValue) -> String {
        match value {
            ConstValue::Integer(n) => n.to_string(),
            ConstValue::Boolean(true) => "TRUE".to_owned(),
            ConstValue::Boolean(false) => "FALSE".to_owned(),
            ConstValue::Char(c) => format!("'{}'", escape(*c, '\'')),
            ConstValue::WChar(c) => format!("L'{}'", escape(*c, '\'')),
            ConstValue::String(s) => format!("\"{}\"", s.chars().map(|c| escape(c, '"')).collect::<String>()),
            ConstValue::WString(s) => {
                format!("L\"{}\"", s.chars().map(|c| escape(c, '"')).collect::<String>())
            }
            ConstValue::Float(f) => format!("{f:?}"),
            ConstValue::Fixed(f) => {
                let digits =
                    format!("{:0>width$}", f.unscaled.unsigned_abs(), width = usize::from(f.scale) + 1);
                let (whole, fraction) = digits.split_at(digits.len() - usize::from(f.scale));
                let sign = if f.unscaled < 0 { "-" } else { "" };
                let point = if f.scale > 0 { "." } else { "" };
                format!("{sign}{whole}{point}{fraction}d")
            }
            ConstValue::Enumerator(id) => format!("::{}", self.scoped_name(*id)),
        }
    }
}

fn escape(c: char, quote: char) -> String {
    match c {
        '\\' => "\\\\".to_owned(),
        c if c == quote => format!("\\{c}"),
        ' '..='~' => c.to_string(),
        c if u32::from(c) <= 0xff => format!("\\x{:02x}", u32::from(c)),
        c => {
            let mut units = [0; 2];
            c.encode_utf16(&mut units).iter().map(|u| format!("\\u{u:04x}")).collect()
        }
    }
}

struct Dump<'a> {
    spec: &'a Spec,
    out: String,
    depth: usize,
}

impl Dump<'_> {
    fn line(&mut self, text: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.out, "{:indent$}{text}", "", indent = self.depth * 2);
    }

    fn definition(&mut self, id: DefId) {
        let def = &self.spec[id];
        if let Some(doc) = &def.doc {
            doc.lines().for_each(|text| self.line(format!("/// {text}").trim_end()));
        }
        let head = self.head(def);
        let included = if def.in_main_file { "" } else { " (included)" };
        self.line(&format!(
            "{}{head} \"{}\"{included}",
            self.annotations(&def.annotations),
            def.repository_id
        ));
        self.depth += 1;
        self.details(def);
        def.contents.iter().for_each(|&inner| self.definition(inner));
        self.depth -= 1;
    }

    /// The first line of a definition: kind, name, and what fits beside them.
    fn head(&self, def: &Definition) -> String {
        let name = &def.name;
        match &def.kind {
            DefKind::Module => format!("module {name}"),
            DefKind::Interface(i) => {
                let flags = [(i.local, "local "), (i.abstract_, "abstract "), (!i.defined, "undefined ")];
                format!("{}interface {name}{}", flagged(&flags), self.names(" : ", &i.bases))
            }
            DefKind::Value(v) => {
                let flags = [(v.custom, "custom "), (v.abstract_, "abstract "), (!v.defined, "undefined ")];
                let base = v.base.map_or(String::new(), |b| self.names(" : ", &[b]));
                let truncatable = if v.truncatable { " truncatable" } else { "" };
                let abstracts = self.names(" abstract : ", &v.abstract_bases);
                let supports = self.names(" supports ", &v.supports);
                format!("{}valuetype {name}{base}{truncatable}{abstracts}{supports}", flagged(&flags))
            }
            DefKind::ValueBox(b) => format!("valuetype {name} boxes {}", self.spec.type_name(&b.boxed)),
            DefKind::Struct(_) => format!("struct {name}"),
            DefKind::Union(u) => {
                let label = |l: &ConstValue| format!(" free {}", self.spec.value_name(l));
                let default = if u.implicit_default { " implicit default" } else { "" };
                let free = u.default_label.as_ref().map_or(String::new(), label);
                format!("union {name} switch {}{default}{free}", self.spec.type_name(&u.discriminator))
            }
            DefKind::Enum(_) => format!("enum {name}"),
            DefKind::Enumerator(e) => format!("{} = {name}", e.ordinal),
            DefKind::Exception(_) => format!("exception {name}"),
            DefKind::Typedef(t) => format!("typedef {name} = {}", self.spec.type_name(&t.ty)),
            DefKind::Const(c) => {
                format!("const {} {name} = {}", self.spec.type_name(&c.ty), self.spec.value_name(&c.value))
            }
            DefKind::Native => format!("native {name}"),
            DefKind::Operation(o) => {
                let oneway = if o.oneway { "oneway " } else { "" };
                let raises = self.names(" raises ", &o.raises);
                let quoted: Vec<String> = o.context.iter().map(|c| format!("{c:?}")).collect();
                let context =
                    if quoted.is_empty() { String::new() } else { format!(" context {}", quoted.join(", ")) };
                let result = self.spec.type_name(&o.result);
                format!("{oneway}operation {name}({}) -> {result}{raises}{context}", self.params(&o.params))
            }
            DefKind::Attribute(a) => {
                let readonly = if a.readonly { "readonly " } else { "" };
                let get = self.names(" getraises ", &a.get_raises);
                let set = self.names(" setraises ", &a.set_raises);
                format!("{readonly}attribute {name}: {}{get}{set}", self.spec.type_name(&a.ty))
            }
        }
    }

    /// The lines below the head that are not definitions.
    fn details(&mut self, def: &Definition) {
        match &def.kind {
            DefKind::Struct(s) => s.members.iter().for_each(|m| self.member("", m)),
            DefKind::Exception(e) => e.members.iter().for_each(|m| self.member("", m)),
            DefKind::Union(u) => {
                for case in &u.cases {
                    let mut labels: Vec<String> =
                        case.labels.iter().map(|l| self.spec.value_name(l)).collect();
                    labels.extend(case.is_default.then(|| "default".to_owned()));
                    self.member(&format!("{} => ", labels.join(", ")), &case.member);
                }
            }
            DefKind::Enum(e) => e.enumerators.iter().for_each(|&id| self.definition(id)),
            DefKind::Value(v) => {
                for state in &v.members {
                    self.member(if state.public { "public " } else { "private " }, &state.member);
                }
                for factory in &v.factories {
                    let raises = self.names(" raises ", &factory.raises);
                    self.line(&format!("factory {}({}){raises}", factory.name, self.params(&factory.params)));
                }
            }
            _ => {}
        }
    }

    fn member(&mut self, prefix: &str, member: &Member) {
        if let Some(doc) = &member.doc {
            doc.lines().for_each(|text| self.line(format!("/// {text}").trim_end()));
        }
        let annotations = self.annotations(&member.annotations);
        let ty = self.spec.type_name(&member.ty);
        self.line(&format!("{annotations}{prefix}{}: {ty}", member.name));
    }

    fn params(&self, params: &[Param]) -> String {
        let text = |p: &Param| {
            let direction = match p.direction {
                Direction::In => "in",
                Direction::Out => "out",
                Direction::InOut => "inout",
            };
            let annotations = self.annotations(&p.annotations);
            format!("{annotations}{direction} {}: {}", p.name, self.spec.type_name(&p.ty))
        };
        params.iter().map(text).collect::<Vec<_>>().join(", ")
    }

    fn names(&self, before: &str, ids: &[DefId]) -> String {
        if ids.is_empty() {
            return String::new();
        }
        let names: Vec<String> = ids.iter().map(|&id| format!("::{}", self.spec.scoped_name(id))).collect();
        before.to_owned() + &names.join(", ")
    }

    fn annotations(&self, annotations: &[Annotation]) -> String {
        let mut out = String::new();
        for annotation in annotations {
            let args: Vec<String> = annotation
                .args
                .iter()
                .map(|arg| {
                    let value = match &arg.value {
                        AnnotationValue::Const(v) => self.spec.value_name(v),
                        AnnotationValue::Name(n) => n.clone(),
                    };
                    arg.name.as_ref().map_or(value.clone(), |name| format!("{name}={value}"))
                })
                .collect();
            let args = if args.is_empty() { String::new() } else { format!("({})", args.join(", ")) };
            out += &format!("@{}{args} ", annotation.name);
        }
        out
    }
}

fn flagged(flags: &[(bool, &'static str)]) -> String {
    flags.iter().filter(|(on, _)| *on).map(|(_, text)| *text).collect()
}
