//! Unions: an enum with variants that store the discriminator if several labels select them.

use super::records::Codec;
use crate::codec::Operand;
use crate::docs;
use crate::module::{Module, ident};
use crate::shape::Shape;
use isorb_idl::model::{DefId, Label, Type, Union, UnionCase};
use proc_macro2::{Ident, TokenStream};
use quote::quote;

/// A case of the generated enum.
struct Variant<'u> {
    name: Ident,
    case: &'u UnionCase,
    shape: Shape,
    /// A single label and no default select it: the variant has the value alone.
    single: Option<&'u Label>,
}

/// Properties of a union that the parts of its code share.
struct Parts<'u> {
    name: Ident,
    variants: Vec<Variant<'u>>,
    unlisted: Option<Ident>,
    discriminator: Shape,
    /// All labels; a default has none of them.
    labels: Vec<Label>,
}

impl Module<'_, '_> {
    pub(super) fn union(&self, id: DefId, definition: &Union) -> TokenStream {
        let spec = self.r#gen.spec;
        let names = self.r#gen.names.item(id);
        let parts = self.parts(id, definition);
        let doc = docs::doc(&docs::item_with_id(
            spec,
            id,
            &format!(
                "union {} switch ({})",
                spec.scoped_name(id),
                docs::type_name(spec, &definition.discriminator)
            ),
        ));
        let name = &parts.name;
        let label_ty = self.owned(&definition.discriminator);
        let owned = self.variants(&parts, &label_ty, |m, ty| m.owned(ty));
        if definition.cases.iter().any(|c| self.r#gen.analysis.is_local(&c.member.ty)) {
            return quote!(#doc #[derive(Clone)] pub enum #name { #owned });
        }
        let copy = names.view.is_empty().then(|| quote!(, Copy));
        let sizes: Vec<u64> = parts.variants.iter().map(|v| self.r#gen.analysis.size(&v.shape)).collect();
        let uneven = super::operations::uneven(&sizes);
        let mut tokens =
            quote!(#doc #uneven #[derive(Clone #copy, Debug, PartialEq)] pub enum #name { #owned });
        if !names.view.is_empty() {
            let view = ident(&names.view);
            let viewed = self.variants(&parts, &label_ty, |m, ty| m.viewed(ty, &quote!('a)));
            let doc = docs::line(format!(
                "The view of [`{name}`]: it borrows from a message, a scope, or an owned value."
            ));
            tokens.extend(
                quote!(#doc #uneven #[derive(Clone, Copy, Debug, PartialEq)] pub enum #view<'a> { #viewed }),
            );
        }
        tokens.extend(self.codec(id, self.union_codec(&parts, &names.view)));
        tokens
    }

    fn parts<'u>(&self, id: DefId, definition: &'u Union) -> Parts<'u> {
        let names = self.r#gen.names.item(id);
        let variants = definition.cases.iter().zip(&names.members).map(|(case, name)| Variant {
            name: ident(name),
            case,
            shape: self.shape(&case.member.ty),
            single: if case.is_default || case.labels.len() != 1 { None } else { case.labels.first() },
        });
        Parts {
            name: ident(&names.name),
            variants: variants.collect(),
            unlisted: definition.implicit_default.then(|| ident(&names.unlisted)),
            discriminator: self.shape(&definition.discriminator),
            labels: definition
                .cases
                .iter()
                .filter(|c| !c.is_default)
                .flat_map(|c| c.labels.clone())
                .collect(),
        }
    }

    fn variants(
        &self,
        parts: &Parts<'_>,
        label_ty: &TokenStream,
        ty: impl Fn(&Self, &Type) -> TokenStream,
    ) -> TokenStream {
        let spec = self.r#gen.spec;
        let each = parts.variants.iter().map(|variant| {
            let Variant { name, case, single, .. } = variant;
            let value = ty(self, &case.member.ty);
            let mut lines = docs::comment(case.member.doc.as_deref());
            if !lines.is_empty() {
                lines.push(String::new());
            }
            let cases = case
                .labels
                .iter()
                .map(|label| format!("case {}: ", spec.value_name(label).trim_start_matches("::")));
            let mut labels: String = cases.collect();
            labels.push_str(if case.is_default { "default: " } else { "" });
            let member = format!("{labels}{} {}", docs::type_name(spec, &case.member.ty), case.member.name);
            lines.push(format!("IDL: {}", docs::code(&member)));
            let doc = docs::doc(&lines);
            if single.is_some() {
                return quote!(#doc #name(#value),);
            }
            let label_doc = docs::line("The discriminator, a label of this member.");
            let value_doc = docs::line("The member.");
            quote!(#doc #name { #label_doc label: #label_ty, #value_doc value: #value },)
        });
        let each: TokenStream = each.collect();
        let unlisted = parts.unlisted.as_ref().map(|name| {
            let doc = docs::line("No member: the discriminator is none of the labels.");
            quote!(#doc #name(#label_ty),)
        });
        quote!(#each #unlisted)
    }

    fn union_codec(&self, parts: &Parts<'_>, view: &str) -> Codec {
        let one_form = view.is_empty();
        let name = &parts.name;
        let view = if one_form { name.clone() } else { ident(view) };
        Codec {
            encode_owned: self.encode_union(
                parts,
                name,
                if one_form { Operand::view } else { Operand::owned_ref },
            ),
            encode_view: if one_form {
                TokenStream::new()
            } else {
                self.encode_union(parts, &view, Operand::view)
            },
            decode: self.decode_union(parts, &view),
            from_view: if one_form { TokenStream::new() } else { self.union_from_view(parts, &view) },
            to_view: if one_form { TokenStream::new() } else { self.union_to_view(parts, &view) },
            plain: false,
        }
    }

    fn encode_union(&self, parts: &Parts<'_>, ty: &Ident, place: fn(TokenStream) -> Operand) -> TokenStream {
        let e = ident("e");
        let kind = self.rt("CdrErrorKind");
        // The discriminator is `Copy` in both forms; only the access differs.
        let label = place(quote!(label)).value();
        let encode_label = self.encode(&parts.discriminator, &Operand::view(label.clone()), &e);
        let arms = parts.variants.iter().map(|variant| {
            let Variant { name, case, shape, single } = variant;
            let value = self.encode(shape, &place(quote!(value)), &e);
            if let Some(single) = single {
                let discriminator = self.encode_label(&parts.discriminator, single);
                return quote!(#ty::#name(value) => { #discriminator #value });
            }
            let wrong = if case.is_default {
                self.is_among(&parts.discriminator, &label, &parts.labels, true)
            } else {
                self.is_among(&parts.discriminator, &label, &case.labels, false)
            };
            let check = wrong.map(|wrong| quote!(if #wrong { e.fail(#kind::Value); }));
            quote!(#ty::#name { label, value } => { #check #encode_label #value })
        });
        let arms: TokenStream = arms.collect();
        let unlisted = parts.unlisted.as_ref().map(|name| {
            let wrong = self.is_among(&parts.discriminator, &label, &parts.labels, true);
            let check = wrong.map(|wrong| quote!(if #wrong { e.fail(#kind::Value); }));
            quote!(#ty::#name(label) => { #check #encode_label })
        });
        quote!(match self { #arms #unlisted })
    }

    fn decode_union(&self, parts: &Parts<'_>, ty: &Ident) -> TokenStream {
        let d = ident("d");
        let mut arms = TokenStream::new();
        let mut default = TokenStream::new();
        for Variant { name, case, shape, single } in &parts.variants {
            let value = self.decode(shape, &d);
            let labels = self.patterns(&parts.discriminator, &case.labels);
            if single.is_some() {
                arms.extend(quote!(#labels => #ty::#name(#value),));
            } else if case.is_default {
                default = quote!(label => #ty::#name { label, value: #value },);
            } else {
                arms.extend(quote!(label @ (#labels) => #ty::#name { label, value: #value },));
            }
        }
        if let Some(name) = &parts.unlisted {
            default = quote!(label => #ty::#name(label),);
        }
        let read = match &parts.discriminator {
            Shape::Number(name) => {
                let name = ident(name);
                quote!(d.get::<#name>()?)
            }
            Shape::Enum(id) => {
                let item = self.item(*id);
                quote!(d.read::<#item>()?)
            }
            shape => self.decode(shape, &d),
        };
        let ok = self.std("Ok");
        quote!(#ok(match #read { #arms #default }))
    }

    fn union_from_view(&self, parts: &Parts<'_>, view: &Ident) -> TokenStream {
        let name = &parts.name;
        let arms = parts.variants.iter().map(|variant| {
            let Variant { name: case, shape, single, .. } = variant;
            let value = self.to_owned(shape, &quote!(value));
            if single.is_some() {
                quote!(#view::#case(value) => #name::#case(#value),)
            } else if self.r#gen.analysis.borrows(shape) {
                quote!(#view::#case { label, value } => #name::#case { label, value: #value },)
            } else {
                quote!(#view::#case { label, value } => #name::#case { label, value },)
            }
        });
        let arms: TokenStream = arms.collect();
        let unlisted =
            parts.unlisted.as_ref().map(|case| quote!(#view::#case(label) => #name::#case(label),));
        quote!(match view { #arms #unlisted })
    }

    fn union_to_view(&self, parts: &Parts<'_>, view: &Ident) -> TokenStream {
        let name = &parts.name;
        let arms = parts.variants.iter().map(|variant| {
            let Variant { name: case, shape, single, .. } = variant;
            let value = self.as_view(shape, &Operand::owned_ref(quote!(value)));
            if single.is_some() {
                quote!(#name::#case(value) => #view::#case(#value),)
            } else {
                let value = if value.to_string() == "value" { value } else { quote!(value: #value) };
                quote!(#name::#case { label, value } => #view::#case { label: *label, #value },)
            }
        });
        let arms: TokenStream = arms.collect();
        let unlisted =
            parts.unlisted.as_ref().map(|case| quote!(#name::#case(label) => #view::#case(*label),));
        quote!(match self { #arms #unlisted })
    }
}
