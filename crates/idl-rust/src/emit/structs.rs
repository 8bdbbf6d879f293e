//! Structs.

use super::records::Codec;
use crate::codec::Operand;
use crate::docs;
use crate::module::{Module, ident};
use crate::options::Options;
use crate::shape::{Analysis, Shape};
use crate::types::number;
use isorb_idl::model::{DefId, DefKind, Member, Spec, Type};
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};

/// Refuses values of [`Options::default_value`] for what is no integer member, and values that the
/// member cannot have.
///
/// # Errors
/// A sentence about the first of them.
pub(crate) fn check_defaults(spec: &Spec, options: &Options) -> Result<(), String> {
    let analysis = Analysis::new(spec);
    for (name, value) in options.defaults() {
        let refused = |why: &str| Err(format!("default_value(\"{name}\", {value}): {why}"));
        let parts = name.rsplit_once("::").and_then(|(scope, member)| Some((spec.find(scope)?, member)));
        let Some((id, member)) = parts else { return refused("the IDL has no such struct") };
        let DefKind::Struct(it) = &spec[id].kind else { return refused("this is not a struct's member") };
        let Some(member) = it.members.iter().find(|other| other.name == member) else {
            return refused("the struct has no such member");
        };
        let most = match analysis.shape(&member.ty) {
            Shape::Number("u8") => u8::MAX.into(),
            Shape::Number("i8") => i8::MAX as u32,
            Shape::Number("i16") => i16::MAX as u32,
            Shape::Number("u16") => u16::MAX.into(),
            Shape::Number("i32") => i32::MAX as u32,
            Shape::Number("u32" | "i64" | "u64") => u32::MAX,
            _ => return refused("the member is not an integer"),
        };
        if value > most {
            return refused(&format!("the member is at most {most}"));
        }
    }
    Ok(())
}

impl Module<'_, '_> {
    pub(super) fn structure(&self, id: DefId) -> TokenStream {
        let spec = self.r#gen.spec;
        let doc = docs::doc(&docs::item_with_id(spec, id, &format!("struct {}", spec.scoped_name(id))));
        let members = spec.members(id);
        let default = members.iter().all(|m| self.r#gen.analysis.has_default(&self.shape(&m.ty)));
        self.fields_type(id, &doc, default)
    }

    /// The type, its view and its codec, for a struct or an exception.
    pub(super) fn fields_type(&self, id: DefId, doc: &TokenStream, default: bool) -> TokenStream {
        let analysis = &self.r#gen.analysis;
        let names = self.r#gen.names.item(id);
        let name = ident(&names.name);
        let members = self.r#gen.spec.members(id);
        let fields: Vec<Ident> = names.members.iter().map(|name| ident(name)).collect();
        let docs: Vec<TokenStream> = members.iter().map(|m| self.member_doc(m)).collect();
        let owned = members.iter().map(|m| self.owned(&m.ty));
        let defaults = self.default_values(id, members).filter(|_| default);
        let default = (default && defaults.is_none()).then(|| quote!(, Default));
        if members.iter().any(|m| analysis.is_local(&m.ty)) {
            return quote! { #doc #[derive(Clone)] pub struct #name { #(#docs pub #fields: #owned),* } };
        }
        let plain = analysis.plain(&Shape::Record(id)).is_some();
        let plain_attributes = plain.then(|| {
            quote! {
                #[derive(
                    ::isorb::zerocopy::FromBytes,
                    ::isorb::zerocopy::Immutable,
                    ::isorb::zerocopy::IntoBytes,
                    ::isorb::zerocopy::KnownLayout,
                )]
                #[zerocopy(crate = "::isorb::zerocopy")]
                #[repr(C)]
            }
        });
        let copy = names.view.is_empty().then(|| quote!(, Copy));
        let mut tokens = quote! {
            #doc
            #[derive(Clone #copy, Debug #default, PartialEq)]
            #plain_attributes
            pub struct #name { #(#docs pub #fields: #owned),* }
        };
        if !names.view.is_empty() {
            let view = ident(&names.view);
            let lifetime = quote!('a);
            let views = members.iter().map(|m| self.viewed(&m.ty, &lifetime));
            let doc = docs::line(format!(
                "The view of [`{name}`]: it borrows from a message, a scope, or an owned value."
            ));
            tokens.extend(quote! {
                #doc
                #[derive(Clone, Copy, Debug, PartialEq)]
                pub struct #view<'a> { #(#docs pub #fields: #views),* }
            });
        }
        if plain {
            tokens.extend(self.plain(id, members, &fields));
        }
        if let Some(values) = defaults {
            tokens.extend(quote! {
                impl ::std::default::Default for #name {
                    fn default() -> Self { Self { #(#fields: #values),* } }
                }
            });
        }
        tokens.extend(self.codec(id, self.fields_codec(&name, members, &fields, plain, &names.view)));
        tokens
    }

    /// The values of `Default`, if a member has one of its own.
    fn default_values(&self, id: DefId, members: &[Member]) -> Option<Vec<TokenStream>> {
        let scope = self.r#gen.spec.scoped_name(id);
        let value = |member: &Member| self.r#gen.options.default_of(&format!("{scope}::{}", member.name));
        members.iter().any(|member| value(member).is_some()).then(|| {
            let or_default = quote!(::std::default::Default::default());
            let value = |m| value(m).map(|value| number(value.into()).into_token_stream());
            members.iter().map(|m| value(m).unwrap_or_else(|| or_default.clone())).collect()
        })
    }

    fn fields_codec(
        &self,
        name: &Ident,
        members: &[Member],
        fields: &[Ident],
        plain: bool,
        view: &str,
    ) -> Codec {
        if plain {
            let encode_owned = quote!(e.put(self););
            let (encode_view, from_view, to_view) = Default::default();
            return Codec { encode_owned, encode_view, decode: quote!(d.get()), from_view, to_view, plain };
        }
        let (e, d) = (ident("e"), ident("d"));
        let encode = |place: fn(TokenStream) -> Operand| -> TokenStream {
            let parts = members
                .iter()
                .zip(fields)
                .map(|(m, f)| self.encode(&self.shape(&m.ty), &place(quote!(self.#f)), &e));
            parts.collect()
        };
        let reads = members.iter().map(|m| self.decode(&self.shape(&m.ty), &d));
        let owned =
            members.iter().zip(fields).map(|(m, f)| self.to_owned(&self.shape(&m.ty), &quote!(view.#f)));
        let to_view = (!view.is_empty()).then(|| {
            let view = ident(view);
            let views = members
                .iter()
                .zip(fields)
                .map(|(m, f)| self.as_view(&self.shape(&m.ty), &Operand::owned(quote!(self.#f))));
            quote!(#view { #(#fields: #views),* })
        });
        let one_form = view.is_empty();
        let ok = self.std("Ok");
        Codec {
            encode_owned: encode(if one_form { Operand::view } else { Operand::owned }),
            encode_view: if one_form { TokenStream::new() } else { encode(Operand::view) },
            decode: quote!(#ok(Self { #(#fields: #reads),* })),
            from_view: quote!(#name { #(#fields: #owned),* }),
            to_view: to_view.unwrap_or_default(),
            plain: false,
        }
    }

    fn plain(&self, id: DefId, members: &[Member], fields: &[Ident]) -> TokenStream {
        let plain = self.rt("Plain");
        let name = ident(&self.r#gen.names.item(id).name);
        let align = self.r#gen.analysis.plain(&Shape::Record(id)).map_or(1, |layout| layout.align);
        let align = number(align);
        let swaps = members.iter().zip(fields).filter(|(m, _)| self.swaps(&m.ty)).map(|(_, f)| f);
        let swaps = quote!(#(#plain::swap(&mut self.#swaps);)*);
        quote! {
            impl #plain for #name {
                const ALIGN: usize = #align;
                #[inline]
                fn swap(&mut self) { #swaps }
            }
        }
    }

    /// Whether a member differs in the other byte order.
    fn swaps(&self, ty: &Type) -> bool {
        !matches!(self.r#gen.spec.resolve(ty), Type::Octet | Type::Int8)
    }

    pub(crate) fn shape(&self, ty: &Type) -> Shape {
        self.r#gen.analysis.shape(ty)
    }

    pub(super) fn member_doc(&self, member: &Member) -> TokenStream {
        let mut lines = docs::comment(member.doc.as_deref());
        if !lines.is_empty() {
            lines.push(String::new());
        }
        let ty = docs::type_name(self.r#gen.spec, &member.ty);
        lines.push(format!("IDL: {}", docs::code(&format!("{ty} {}", member.name))));
        docs::doc(&lines)
    }
}
