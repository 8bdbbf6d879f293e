//! Type codes of generated types.
//!
//! Each type makes its code once. A recursive type, and the types between it and itself, are
//! written out in one expression, since the other type's own code would need the code that is being
//! made.

use crate::module::{Module, ident};
use crate::types::number;
use isorb_idl::model::{ConstValue, DefId, DefKind, Interface, Member, Type, Union, Value, ValueBox};
use proc_macro2::{Literal, TokenStream};
use quote::quote;

impl Module<'_, '_> {
    /// `impl AnyValue` for a struct, union, enum or exception, `impl HandleCode` for a reference or
    /// value. Nothing for local types.
    pub(super) fn any_support(&self, id: DefId) -> TokenStream {
        let r#gen = self.r#gen;
        let local = r#gen.spec.member_types(id).into_iter().any(|ty| r#gen.analysis.is_local(ty));
        if !r#gen.options.any || local {
            return TokenStream::new();
        }
        match &r#gen.spec[id].kind {
            DefKind::Struct(_) | DefKind::Union(_) | DefKind::Enum(_) | DefKind::Exception(_) => {
                self.any_value(id)
            }
            DefKind::Interface(i) if !i.local => self.handle_code(id, &r#gen.names.item(id).reference),
            DefKind::Value(_) | DefKind::ValueBox(_) => self.handle_code(id, &r#gen.names.item(id).name),
            _ => TokenStream::new(),
        }
    }

    fn any_value(&self, id: DefId) -> TokenStream {
        let names = self.r#gen.names.item(id);
        let name = ident(&names.name);
        let [any_value, encode, encoder] = ["AnyValue", "Encode", "Encoder"].map(|name| self.rt(name));
        let type_code = self.type_code_function(id);
        let value = if names.view.is_empty() { quote!(*self) } else { quote!(self) };
        quote! {
            impl #any_value for #name {
                #type_code
                fn put_value<'v>(&'v self, e: &mut #encoder<'v>) { #encode::encode(#value, e); }
            }
        }
    }

    fn handle_code(&self, id: DefId, name: &str) -> TokenStream {
        let (handle_code, name) = (self.rt("HandleCode"), ident(name));
        let type_code = self.type_code_function(id);
        quote!(impl #handle_code for #name { #type_code })
    }

    /// A function that makes the code of a definition once.
    fn type_code_function(&self, id: DefId) -> TokenStream {
        let type_code = self.rt("TypeCode");
        let code = self.definition_code(id, &mut Vec::new());
        quote! {
            fn type_code() -> #type_code {
                static CODE: ::std::sync::LazyLock<#type_code> = ::std::sync::LazyLock::new(|| #code);
                CODE.clone()
            }
        }
    }

    /// The code of a type. `open` are the enclosing definitions, the codes of which are being made.
    fn code(&self, ty: &Type, open: &mut Vec<DefId>) -> TokenStream {
        let type_code = self.rt("TypeCode");
        let constant = |name| {
            let name = ident(name);
            quote!(#type_code::#name)
        };
        match ty {
            Type::Void => constant("VOID"),
            Type::Boolean => constant("BOOLEAN"),
            Type::Char => constant("CHAR"),
            Type::WChar => constant("WCHAR"),
            // CORBA has no type code for `int8`; it travels as an octet.
            Type::Octet | Type::Int8 => constant("OCTET"),
            Type::Short => constant("SHORT"),
            Type::UShort => constant("USHORT"),
            Type::Long => constant("LONG"),
            Type::ULong => constant("ULONG"),
            Type::LongLong => constant("LONGLONG"),
            Type::ULongLong => constant("ULONGLONG"),
            Type::Float => constant("FLOAT"),
            Type::Double => constant("DOUBLE"),
            Type::LongDouble => constant("LONGDOUBLE"),
            Type::Any => constant("ANY"),
            Type::TypeCode => constant("TYPECODE"),
            Type::String { bound: None } => constant("STRING"),
            Type::WString { bound: None } => constant("WSTRING"),
            Type::String { bound: Some(n) } => {
                let n = number((*n).into());
                quote!(#type_code::string(#n))
            }
            Type::WString { bound: Some(n) } => {
                let n = number((*n).into());
                quote!(#type_code::wstring(#n))
            }
            Type::Fixed { digits, scale } => {
                let (digits, scale) = (number((*digits).into()), number((*scale).into()));
                quote!(#type_code::fixed(#digits, #scale).unwrap_or_default())
            }
            Type::Sequence { element, bound } => {
                let (element, bound) = (self.code(element, open), number(bound.unwrap_or(0).into()));
                quote!(#type_code::sequence(&#element, #bound).unwrap_or_default())
            }
            Type::Array { element, dims } => dims.iter().rev().fold(self.code(element, open), |inner, n| {
                let n = number((*n).into());
                quote!(#type_code::array(&#inner, #n).unwrap_or_default())
            }),
            Type::Object => quote!(#type_code::object()),
            Type::ValueBase => {
                let none = self.std("None");
                quote!(#type_code::new_value("IDL:omg.org/CORBA/ValueBase:1.0", "ValueBase", 0, #none, &[], false).unwrap_or_default())
            }
            Type::AbstractBase => {
                self.opaque("AbstractInterface", "IDL:omg.org/CORBA/AbstractBase:1.0", "AbstractBase")
            }
            Type::Named(id) if open.contains(id) => {
                let id = &self.r#gen.spec[*id].repository_id;
                quote!(#type_code::recursive(#id).unwrap_or_default())
            }
            Type::Named(id) => {
                let own = matches!(
                    self.r#gen.spec[*id].kind,
                    DefKind::Struct(_) | DefKind::Union(_) | DefKind::Enum(_)
                );
                if own && !self.contains_any(*id, open) {
                    let (any_value, name) = (self.rt("AnyValue"), self.item(*id));
                    return quote!(<#name as #any_value>::type_code());
                }
                self.definition_code(*id, open)
            }
        }
    }

    /// Whether values of the definition can contain values of one of `others`.
    fn contains_any(&self, id: DefId, others: &[DefId]) -> bool {
        let spec = self.r#gen.spec;
        let mut seen = vec![id];
        let mut todo = spec.member_types(id);
        while let Some(ty) = todo.pop() {
            match ty {
                Type::Named(id) if others.contains(id) => return true,
                Type::Named(id) if !seen.contains(id) => {
                    seen.push(*id);
                    todo.extend(spec.member_types(*id));
                }
                Type::Sequence { element, .. } | Type::Array { element, .. } => todo.push(element),
                _ => {}
            }
        }
        false
    }

    /// The code of a definition, written out.
    fn definition_code(&self, id: DefId, open: &mut Vec<DefId>) -> TokenStream {
        let definition = &self.r#gen.spec[id];
        let (repository_id, name) = (&definition.repository_id, &definition.name);
        let type_code = self.rt("TypeCode");
        open.push(id);
        let code = match &definition.kind {
            DefKind::Struct(s) => {
                let members = self.member_codes(&s.members, open);
                quote!(#type_code::new_struct(#repository_id, #name, &[#members]).unwrap_or_default())
            }
            DefKind::Exception(e) => {
                let members = self.member_codes(&e.members, open);
                quote!(#type_code::new_exception(#repository_id, #name, &[#members]).unwrap_or_default())
            }
            DefKind::Enum(e) => {
                let names = e.enumerators.iter().map(|id| &self.r#gen.spec[*id].name);
                quote!(#type_code::new_enum(#repository_id, #name, &[#(#names),*]).unwrap_or_default())
            }
            DefKind::Union(u) => self.union_code(id, u, open),
            DefKind::Typedef(t) => {
                let original = self.code(self.r#gen.spec.alias_of(t), open);
                quote!(#type_code::new_alias(#repository_id, #name, &#original).unwrap_or_default())
            }
            DefKind::Interface(Interface { abstract_: true, .. }) => {
                self.opaque("AbstractInterface", repository_id, name)
            }
            DefKind::Interface(Interface { local: true, .. }) => {
                self.opaque("LocalInterface", repository_id, name)
            }
            DefKind::Interface(_) => quote!(#type_code::interface(#repository_id, #name).unwrap_or_default()),
            DefKind::ValueBox(ValueBox { boxed }) => {
                let boxed = self.code(boxed, open);
                quote!(#type_code::new_value_box(#repository_id, #name, &#boxed).unwrap_or_default())
            }
            DefKind::Value(value) => self.value_code(id, value, open),
            _ => self.opaque("Native", repository_id, name),
        };
        open.pop();
        code
    }

    fn opaque(&self, kind: &'static str, id: &str, name: &str) -> TokenStream {
        let (type_code, kinds) = (self.rt("TypeCode"), self.rt("AnyKind"));
        let kind = ident(kind);
        quote!(#type_code::opaque(#kinds::#kind, #id, #name).unwrap_or_default())
    }

    fn member_codes(&self, members: &[Member], open: &mut Vec<DefId>) -> TokenStream {
        let members = members.iter().map(|member| {
            let (name, code) = (&member.name, self.code(&member.ty, open));
            quote!((#name, #code))
        });
        quote!(#(#members),*)
    }

    fn union_code(&self, id: DefId, union: &Union, open: &mut Vec<DefId>) -> TokenStream {
        let definition = &self.r#gen.spec[id];
        let (repository_id, name) = (&definition.repository_id, &definition.name);
        let (type_code, labels) = (self.rt("TypeCode"), self.rt("AnyLabel"));
        let discriminator = self.code(&union.discriminator, open);
        let mut cases = Vec::new();
        for case in &union.cases {
            let (name, code) = (&case.member.name, self.code(&case.member.ty, open));
            for label in &case.labels {
                let value = self.label_value(label);
                cases.push(quote!((#labels::Value(#value), #name, #code)));
            }
            if case.is_default {
                cases.push(quote!((#labels::Default, #name, #code)));
            }
        }
        quote!(#type_code::new_union(#repository_id, #name, &#discriminator, &[#(#cases),*]).unwrap_or_default())
    }

    fn label_value(&self, label: &ConstValue) -> TokenStream {
        let number = match label {
            ConstValue::Integer(n) => *n,
            ConstValue::Boolean(b) => i128::from(*b),
            ConstValue::Char(c) | ConstValue::WChar(c) => i128::from(u32::from(*c)),
            ConstValue::Enumerator(id) => match &self.r#gen.spec[*id].kind {
                DefKind::Enumerator(e) => e.ordinal.into(),
                _ => 0,
            },
            _ => 0,
        };
        let digits = Literal::u128_unsuffixed(number.unsigned_abs());
        if number < 0 { quote!(-#digits) } else { quote!(#digits) }
    }

    fn value_code(&self, id: DefId, value: &Value, open: &mut Vec<DefId>) -> TokenStream {
        let definition = &self.r#gen.spec[id];
        let (repository_id, name) = (&definition.repository_id, &definition.name);
        let type_code = self.rt("TypeCode");
        // The modifiers VM_CUSTOM, VM_ABSTRACT and VM_TRUNCATABLE (part 1, clause 8.11.1).
        let modifier = match value {
            Value { custom: true, .. } => 1,
            Value { abstract_: true, .. } => 2,
            Value { truncatable: true, .. } => 3,
            _ => 0,
        };
        let modifier = number(modifier);
        let base = match value.base {
            Some(base) => {
                let (some, code) = (self.std("Some"), self.code(&Type::Named(base), open));
                quote!(#some(&#code))
            }
            None => self.std("None"),
        };
        let members = value.members.iter().map(|state| {
            let (name, code) = (&state.member.name, self.code(&state.member.ty, open));
            let visibility = number(u64::from(state.public));
            quote!((#name, #code, #visibility))
        });
        let members: Vec<_> = members.collect();
        quote! {
            #type_code::new_value(#repository_id, #name, #modifier, #base, &[#(#members),*], false)
                .unwrap_or_default()
        }
    }
}
