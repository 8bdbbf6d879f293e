//! Enums.

use crate::docs;
use crate::module::{Module, ident};
use crate::types::number;
use isorb_idl::model::{DefId, Enum};
use proc_macro2::TokenStream;
use quote::quote;

impl Module<'_, '_> {
    pub(super) fn enumeration(&self, id: DefId, definition: &Enum) -> TokenStream {
        let spec = self.r#gen.spec;
        let names = self.r#gen.names.item(id);
        let name = ident(&names.name);
        let doc = docs::doc(&docs::item_with_id(spec, id, &format!("enum {}", spec.scoped_name(id))));
        let variants: Vec<_> = names.members.iter().map(|name| ident(name)).collect();
        let ordinals: Vec<_> = (0..variants.len() as u64).map(number).collect();
        let docs = definition.enumerators.iter().enumerate().map(|(i, enumerator)| {
            let doc = docs::doc(&docs::item(spec, *enumerator, &spec[*enumerator].name));
            let default = (i == 0).then(|| quote!(#[default]));
            quote!(#doc #default)
        });
        let [encode, decode, item, encoder, decoder, result, kind] =
            ["Encode", "Decode", "Item", "Encoder", "Decoder", "CdrResult", "CdrErrorKind"]
                .map(|name| self.rt(name));
        let (ok, err) = (self.std("Ok"), self.std("Err"));
        quote! {
            #doc
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
            #[repr(u32)]
            pub enum #name { #(#docs #variants = #ordinals),* }
            impl<'v> #encode<'v> for #name {
                #[inline]
                fn encode(self, e: &mut #encoder<'v>) { e.put(self as u32); }
            }
            impl #item<'_> for #name {}
            impl<'m> #decode<'m> for #name {
                const MIN_WIRE: usize = 4;
                #[inline]
                fn decode(d: &mut #decoder<'m>) -> #result<Self> {
                    match d.get::<u32>()? {
                        #(#ordinals => #ok(#name::#variants),)*
                        _ => #err(d.error(#kind::Value)),
                    }
                }
            }
            ::isorb::by_value!(#name);
        }
    }
}
