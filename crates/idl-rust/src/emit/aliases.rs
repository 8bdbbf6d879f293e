//! Typedefs and natives.

use crate::docs;
use crate::module::{Module, ident};
use isorb_idl::model::{DefId, Typedef};
use proc_macro2::TokenStream;
use quote::quote;

impl Module<'_, '_> {
    pub(super) fn alias(&self, id: DefId, definition: &Typedef) -> TokenStream {
        let spec = self.r#gen.spec;
        let names = self.r#gen.names.item(id);
        let name = ident(&names.name);
        let ty = docs::type_name(spec, &definition.ty);
        let doc = docs::doc(&docs::item_with_id(spec, id, &format!("typedef {ty} {}", spec[id].name)));
        let owned = self.owned(&definition.ty);
        let alias = quote!(#doc pub type #name = #owned;);
        if names.view.is_empty() || self.r#gen.analysis.is_local(&definition.ty) {
            return alias;
        }
        let view = ident(&names.view);
        let viewed = self.viewed(&definition.ty, &quote!('a));
        let doc = docs::line(format!("The view of {}.", docs::code(&names.name)));
        quote!(#alias #doc pub type #view<'a> = #viewed;)
    }

    /// A native is defined by the program: an opaque type that threads share.
    pub(super) fn native(&self, id: DefId) -> TokenStream {
        let spec = self.r#gen.spec;
        let name = ident(&self.r#gen.names.item(id).name);
        let doc = docs::doc(&docs::item(spec, id, &format!("native {}", spec.scoped_name(id))));
        let (send, sync) = (self.std("Send"), self.std("Sync"));
        quote!(#doc pub type #name = ::std::sync::Arc<dyn ::core::any::Any + #send + #sync>;)
    }
}
