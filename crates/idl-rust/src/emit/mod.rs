//! One function for each kind of definition: from the model to Rust items.

mod aliases;
mod asynchronous;
mod constants;
mod enums;
mod exceptions;
mod interfaces;
mod locals;
mod operations;
mod records;
mod references;
pub(crate) mod structs;
mod type_codes;
mod unions;
mod values;

use crate::docs;
use crate::module::{Module, ident};
use isorb_idl::model::{DefId, DefKind};
use proc_macro2::TokenStream;
use quote::quote;

impl<'g, 's> Module<'g, 's> {
    /// All items for the contents of `scope`.
    pub fn contents(&self, scope: Option<DefId>) -> TokenStream {
        let spec = self.r#gen.spec;
        spec.contents(scope).iter().map(|id| self.definition(*id)).collect()
    }

    fn definition(&self, id: DefId) -> TokenStream {
        let item = match &self.r#gen.spec[id].kind {
            DefKind::Module if self.r#gen.external(id).is_some() => return TokenStream::new(),
            DefKind::Module => return self.idl_module(id),
            DefKind::Interface(i) if i.local => self.local_interface(id),
            DefKind::Interface(_) => self.interface(id),
            DefKind::Value(_) | DefKind::ValueBox(_) => self.value(id),
            DefKind::Struct(_) => self.structure(id),
            DefKind::Union(u) => self.union(id, u),
            DefKind::Enum(e) => self.enumeration(id, e),
            DefKind::Exception(_) => self.exception(id),
            DefKind::Typedef(t) => self.alias(id, t),
            DefKind::Const(c) => self.constant(id, c),
            DefKind::Native => self.native(id),
            DefKind::Enumerator(_) | DefKind::Operation(_) | DefKind::Attribute(_) => TokenStream::new(),
        };
        let any = self.any_support(id);
        let inner = self.inner_module(id);
        quote!(#item #any #inner)
    }

    fn idl_module(&self, id: DefId) -> TokenStream {
        let inner = Module::new(self.r#gen, Some(id));
        let contents = inner.contents(Some(id));
        let imports = inner.imports();
        let name = ident(&self.r#gen.names.item(id).module);
        let signature = format!("module {}", self.r#gen.spec.scoped_name(id));
        let doc = docs::doc(&docs::item(self.r#gen.spec, id, &signature));
        quote!(#doc pub mod #name { #imports #contents })
    }

    /// The module for definitions inside an interface, value, struct or union, and for the code of
    /// its operations.
    fn inner_module(&self, id: DefId) -> TokenStream {
        let names = self.r#gen.names.item(id);
        if names.module.is_empty() {
            return TokenStream::new();
        }
        let inner = Module::new(self.r#gen, Some(id));
        let contents = inner.contents(Some(id));
        let operations = match &self.r#gen.spec[id].kind {
            DefKind::Interface(i) => inner.operations(id, i),
            _ => TokenStream::new(),
        };
        if contents.is_empty() && operations.is_empty() {
            return TokenStream::new();
        }
        let imports = inner.imports();
        let name = ident(&names.module);
        let doc = docs::line(format!("Types and code of {}.", docs::code(&self.r#gen.spec.scoped_name(id))));
        quote!(#doc pub mod #name { #imports #contents #operations })
    }
}
