//! The servant trait of an interface.

use super::operations::{Locals, tuple};
use crate::docs;
use crate::lowered::{Op, Role, own_ops};
use crate::module::{Module, ident};
use isorb_idl::model::{DefId, DefKind, Direction, Interface};
use proc_macro2::TokenStream;
use quote::quote;

impl Module<'_, '_> {
    pub(super) fn interface(&self, id: DefId) -> TokenStream {
        let reference = self.reference_type(id);
        let DefKind::Interface(Interface { defined: true, .. }) = &self.r#gen.spec[id].kind else {
            return reference;
        };
        let methods: TokenStream =
            own_ops(self.r#gen.spec, id).iter().map(|op| self.servant_method(id, op)).collect();
        let definition = self.interface_trait(id, methods);
        quote!(#definition #reference)
    }

    /// The trait with its methods.
    pub(super) fn interface_trait(&self, id: DefId, methods: TokenStream) -> TokenStream {
        let spec = self.r#gen.spec;
        let name = ident(&self.r#gen.names.item(id).name);
        let DefKind::Interface(interface) = &spec[id].kind else { return TokenStream::new() };
        let kind = match interface {
            Interface { local: true, .. } => "local interface",
            Interface { abstract_: true, .. } => "abstract interface",
            _ => "interface",
        };
        let bases: Vec<String> = interface.bases.iter().map(|base| spec.scoped_name(*base)).collect();
        let colon = if bases.is_empty() { "" } else { " : " };
        let signature = format!("{kind} {}{colon}{}", spec.scoped_name(id), bases.join(", "));
        let mut lines = docs::item_with_id(spec, id, &signature);
        lines.push(String::new());
        lines.push(
            if interface.local {
                "Never leaves the process."
            } else {
                "The interface as a servant implements it."
            }
            .to_owned(),
        );
        let doc = docs::doc(&lines);
        let bounds = if interface.bases.is_empty() {
            let (send, sync) = (self.std("Send"), self.std("Sync"));
            quote!(#send + #sync + 'static)
        } else {
            let bases = interface.bases.iter().map(|base| self.item(*base));
            quote!(#(#bases)+*)
        };
        quote!(#doc pub trait #name: #bounds { #methods })
    }

    fn servant_method(&self, owner: DefId, op: &Op) -> TokenStream {
        let name = ident(&self.r#gen.names.op(op).method);
        let locals = Locals::new(op, &["cx"]);
        let [cx] = locals.ours();
        let upcall = self.rt("Upcall");
        let borrows = op.returned().into_iter().any(|ty| self.r#gen.analysis.borrows(&self.shape(ty)));
        let (generics, receiver, lifetime) = if borrows {
            (quote!(<'u>), quote!(&'u self), quote!('u))
        } else {
            (TokenStream::new(), quote!(&self), quote!('_))
        };
        let params = op.params.iter().zip(&locals.params).filter_map(|(param, name)| match param.direction {
            Direction::In => {
                let ty = self.received(&param.ty, &lifetime);
                Some(quote!(#name: #ty))
            }
            Direction::InOut => {
                let ty = self.viewed(&param.ty, &lifetime);
                Some(quote!(#name: &mut #ty))
            }
            Direction::Out => None,
        });
        let success = tuple(op.tuple().into_iter().map(|ty| self.viewed(ty, &lifetime)).collect());
        let outcome = self.outcome(owner, op, success);
        let doc = self.operation_doc(op, "");
        quote!(#doc fn #name #generics(#receiver, #cx: #upcall<#lifetime>, #(#params),*) -> #outcome;)
    }

    /// The comment, the signature in IDL and the errors of an operation.
    pub(super) fn operation_doc(&self, op: &Op, note: &str) -> TokenStream {
        let spec = self.r#gen.spec;
        let mut lines = docs::item(spec, op.def, &self.signature(op));
        if !note.is_empty() {
            lines.push(String::new());
            lines.push(note.to_owned());
        }
        lines.push(String::new());
        lines.push("# Errors".to_owned());
        let raised: Vec<String> =
            op.raises.iter().copied().map(|id| docs::code(&spec.scoped_name(id))).collect();
        lines.push(match raised.as_slice() {
            [] => "A system exception.".to_owned(),
            raised => format!("{}, or a system exception.", raised.join(", ")),
        });
        docs::doc(&lines)
    }

    fn signature(&self, op: &Op) -> String {
        let spec = self.r#gen.spec;
        let name = &spec[op.def].name;
        match (op.role, &spec[op.def].kind) {
            (Role::Operation, DefKind::Operation(o)) => {
                let oneway = if o.oneway { "oneway " } else { "" };
                let params = o.params.iter().map(|p| {
                    format!("{} {} {}", docs::direction(p.direction), docs::type_name(spec, &p.ty), p.name)
                });
                let params = params.collect::<Vec<_>>().join(", ");
                format!("{oneway}{} {name}({params})", docs::type_name(spec, &o.result))
            }
            (_, DefKind::Attribute(a)) => {
                let readonly = if a.readonly { "readonly " } else { "" };
                format!("{readonly}attribute {} {name}", docs::type_name(spec, &a.ty))
            }
            _ => name.clone(),
        }
    }
}
