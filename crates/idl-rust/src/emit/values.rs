//! Valuetypes and boxed values, which can be sent only as null.

use crate::docs;
use crate::module::{Module, ident};
use isorb_idl::model::{DefId, DefKind};
use proc_macro2::{Ident, TokenStream};
use quote::quote;

impl Module<'_, '_> {
    pub(super) fn value(&self, id: DefId) -> TokenStream {
        let spec = self.r#gen.spec;
        let names = self.r#gen.names.item(id);
        let name = ident(&names.name);
        let scoped = spec.scoped_name(id);
        let doc = docs::doc(&docs::item_with_id(spec, id, &format!("valuetype {scoped}")));
        let (state, definition) = match &spec[id].kind {
            DefKind::ValueBox(boxed) => (self.owned(&boxed.boxed), TokenStream::new()),
            _ => {
                let state = ident(&names.state);
                (quote!(#state), self.state(id, &name, &state))
            }
        };
        let shows = !spec.member_types(id).into_iter().any(|ty| self.r#gen.analysis.is_local(ty));
        let derives = if shows { quote!(Clone, Debug, PartialEq) } else { quote!(Clone) };
        let from = self.std("From");
        quote! {
            #doc
            ///
            /// A shared, read-only value. Sending one that is not null, or receiving one, is not
            /// supported yet.
            #[derive(#derives)]
            pub struct #name(::std::sync::Arc<#state>);
            #definition
            impl #from<#state> for #name {
                fn from(state: #state) -> Self { Self(::std::sync::Arc::new(state)) }
            }
            impl ::core::ops::Deref for #name {
                type Target = #state;
                fn deref(&self) -> &#state { &self.0 }
            }
            ::isorb::value!(#name);
        }
    }

    fn state(&self, id: DefId, value: &Ident, state: &Ident) -> TokenStream {
        let members = self.r#gen.spec.all_state(id);
        let fields = self.r#gen.names.item(id).members.iter().map(|name| ident(name));
        let docs = members.iter().map(|m| self.member_doc(&m.member));
        let types = members.iter().map(|m| self.owned(&m.member.ty));
        let local = members.iter().any(|m| self.r#gen.analysis.is_local(&m.member.ty));
        let derives = if local { quote!(Clone) } else { quote!(Clone, Debug, PartialEq) };
        let doc = docs::line(format!("The state of a [`{value}`]."));
        quote!(#doc #[derive(#derives)] pub struct #state { #(#docs pub #fields: #types),* })
    }
}
