//! Common code of structs, unions and exceptions: the traits by which they are encoded.

use crate::docs;
use crate::module::{Module, ident};
use crate::shape::Shape;
use crate::types::number;
use isorb_idl::model::DefId;
use proc_macro2::TokenStream;
use quote::quote;

/// The differences between records. In the bodies, the value is `self` or `view`, and `e` and `d`
/// are the encoder and the decoder.
pub(crate) struct Codec {
    /// Writes the owned form: `self` is `&'v S`, or `S` if there is one form.
    pub encode_owned: TokenStream,
    /// Writes the view; empty if there is one form.
    pub encode_view: TokenStream,
    /// An expression of type `CdrResult<Self>`.
    pub decode: TokenStream,
    /// An expression for the owned form of `view`; not used if there is one form.
    pub from_view: TokenStream,
    /// An expression for the view of `self`, which may use `scope`; not used if there is one form.
    pub to_view: TokenStream,
    /// Whether a sequence of it has the same layout in a message as in memory.
    pub plain: bool,
}

impl Module<'_, '_> {
    /// The implementations of `Encode`, `Decode`, `Item`, `Idl` and `Arg`.
    pub(super) fn codec(&self, id: DefId, codec: Codec) -> TokenStream {
        let names = self.r#gen.names.item(id);
        let name = ident(&names.name);
        let [encode, decode, item, encoder, decoder, result] =
            ["Encode", "Decode", "Item", "Encoder", "Decoder", "CdrResult"].map(|name| self.rt(name));
        let Codec { encode_owned, encode_view, decode: decode_body, from_view, to_view, plain } = codec;
        let min = self.r#gen.analysis.min_wire(&Shape::Record(id)).min(u64::from(u32::MAX));
        let min = number(min);
        let e = if encode_owned.is_empty() { quote!(_) } else { quote!(e) };
        let d = if mentions(&decode_body, "d") { quote!(d) } else { quote!(_) };
        if names.view.is_empty() {
            let (item_impl, decode_seq) = if plain {
                (
                    quote! {
                        impl<'v> #item<'v> for #name {
                            fn encode_seq(items: &'v [Self], e: &mut #encoder<'v>) { e.plain_seq(items); }
                            fn encode_array(items: &'v [Self], e: &mut #encoder<'v>) { e.plain_array(items); }
                        }
                    },
                    quote!(fn decode_seq(d: &mut #decoder<'m>) -> #result<&'m [Self]> { d.plain_seq() }),
                )
            } else {
                (quote!(impl #item<'_> for #name {}), TokenStream::new())
            };
            return quote! {
                impl<'v> #encode<'v> for #name {
                    #[inline]
                    fn encode(self, #e: &mut #encoder<'v>) { #encode_owned }
                }
                #item_impl
                impl<'m> #decode<'m> for #name {
                    const MIN_WIRE: usize = #min;
                    #[inline]
                    fn decode(#d: &mut #decoder<'m>) -> #result<Self> { #decode_body }
                    #decode_seq
                }
                ::isorb::by_value!(#name);
            };
        }
        let view = ident(&names.view);
        let [idl, arg] = ["Idl", "Arg"].map(|name| self.rt(name));
        let (ok, full, scope_ty) = (self.std("Ok"), self.rt("Full"), self.rt("Scope"));
        let free = self.r#gen.analysis.lends_view(&Shape::Record(id));
        let (scope, to_view, lent) = if free {
            let (from, doc) = (self.std("From"), docs::line("The view of this value."));
            let lent = quote! {
                impl #name {
                    #doc
                    pub fn view(&self) -> #view<'_> { #to_view }
                }
                impl<'a> #from<&'a #name> for #view<'a> {
                    fn from(value: &'a #name) -> Self { value.view() }
                }
            };
            (quote!(_), quote!(self.view()), lent)
        } else {
            (quote!(scope), to_view, TokenStream::new())
        };
        quote! {
            impl<'v> #encode<'v> for &'v #name {
                fn encode(self, #e: &mut #encoder<'v>) { #encode_owned }
            }
            impl #item<'_> for #name {}
            impl<'v> #encode<'v> for #view<'v> {
                fn encode(self, #e: &mut #encoder<'v>) { #encode_view }
            }
            impl<'v> #item<'v> for #view<'v> {}
            impl<'m> #decode<'m> for #view<'m> {
                const MIN_WIRE: usize = #min;
                fn decode(#d: &mut #decoder<'m>) -> #result<Self> { #decode_body }
            }
            impl #idl for #name {
                type View<'a> = #view<'a>;
                fn from_view(view: #view<'_>) -> Self { #from_view }
                fn view_in<'a>(&'a self, #scope: &'a #scope_ty<'a>) -> #result<#view<'a>, #full> { #ok(#to_view) }
            }
            #lent
            impl<'v> #arg<'v, #name> for &'v #name {}
            impl<'v> #arg<'v, #name> for #view<'v> {}
        }
    }
}

/// Whether the identifier occurs anywhere in the tokens.
pub(super) fn mentions(tokens: &TokenStream, name: &str) -> bool {
    tokens.clone().into_iter().any(|token| match token {
        proc_macro2::TokenTree::Group(group) => mentions(&group.stream(), name),
        proc_macro2::TokenTree::Ident(ident) => ident == name,
        _ => false,
    })
}

/// Whether the lifetime occurs anywhere in the tokens; `name` is without its apostrophe.
pub(super) fn mentions_lifetime(tokens: &TokenStream, name: &str) -> bool {
    let mut after_apostrophe = false;
    tokens.clone().into_iter().any(|token| {
        let was_after = std::mem::replace(
            &mut after_apostrophe,
            matches!(&token, proc_macro2::TokenTree::Punct(punct) if punct.as_char() == '\''),
        );
        match token {
            proc_macro2::TokenTree::Group(group) => mentions_lifetime(&group.stream(), name),
            proc_macro2::TokenTree::Ident(ident) => was_after && ident == name,
            _ => false,
        }
    })
}
