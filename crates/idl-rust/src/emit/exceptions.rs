//! User exceptions.

use crate::docs;
use crate::module::{Module, ident};
use crate::shape::Shape;
use isorb_idl::model::DefId;
use proc_macro2::TokenStream;
use quote::quote;

impl Module<'_, '_> {
    pub(super) fn exception(&self, id: DefId) -> TokenStream {
        let spec = self.r#gen.spec;
        let scoped = spec.scoped_name(id);
        let doc = docs::doc(&docs::item_with_id(spec, id, &format!("exception {scoped}")));
        let definition = self.fields_type(id, &doc, false);
        let name = ident(&self.r#gen.names.item(id).name);
        let repository_id = &spec[id].repository_id;
        let display = self.exception_text(id, &scoped);
        let members = spec.members(id);
        // A local object has no `Debug` that shows its members.
        let debug = members.iter().any(|m| self.r#gen.analysis.is_local(&m.ty)).then(|| {
            quote! {
                impl ::core::fmt::Debug for #name {
                    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                        f.write_str(#scoped)
                    }
                }
            }
        });
        quote! {
            #definition
            impl #name {
                /// The repository id, by which the exception is known on the wire.
                pub const ID: &'static str = #repository_id;
            }
            #debug
            impl ::core::fmt::Display for #name {
                fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result { #display }
            }
            impl ::core::error::Error for #name {}
        }
    }

    /// The exception's name, and those of its members that have a text of their own.
    fn exception_text(&self, id: DefId, scoped: &str) -> TokenStream {
        let names = self.r#gen.names.item(id);
        let members = self.r#gen.spec.members(id);
        let shown = members.iter().zip(&names.members).filter(|(m, _)| {
            matches!(
                self.shape(&m.ty),
                Shape::Text { .. }
                    | Shape::Number(_)
                    | Shape::Bool
                    | Shape::Char
                    | Shape::WChar
                    | Shape::Fixed(..)
            )
        });
        let shown: Vec<_> = shown.collect();
        if shown.is_empty() {
            return quote!(f.write_str(#scoped));
        }
        let parts: Vec<String> = shown.iter().map(|(m, _)| format!("{}: {{}}", m.name)).collect();
        let format = format!("{scoped} ({})", parts.join(", "));
        let fields = shown.iter().map(|(_, field)| ident(field));
        quote!(::core::write!(f, #format, #(self.#fields),*))
    }
}
