//! Local interfaces: traits on owned values, called directly.

use super::operations::{Locals, tuple};
use crate::lowered::{Op, OpParam, own_ops};
use crate::module::{Module, ident};
use crate::shape::Shape;
use isorb_idl::model::{DefId, Direction, Type};
use proc_macro2::TokenStream;
use quote::quote;

impl Module<'_, '_> {
    pub(super) fn local_interface(&self, id: DefId) -> TokenStream {
        let methods = own_ops(self.r#gen.spec, id).iter().map(|op| self.local_method(id, op)).collect();
        self.interface_trait(id, methods)
    }

    fn local_method(&self, owner: DefId, op: &Op) -> TokenStream {
        let name = ident(&self.r#gen.names.op(op).method);
        let locals = Locals::new(op, &[]);
        let params = op.params.iter().zip(&locals.params).filter_map(|(param, name)| {
            let ty = self.local_parameter(param)?;
            Some(quote!(#name: #ty))
        });
        let success = tuple(op.tuple().into_iter().map(|ty| self.owned(ty)).collect());
        let outcome = self.outcome(owner, op, success);
        let doc = self.operation_doc(op, "");
        quote!(#doc fn #name(&self, #(#params),*) -> #outcome;)
    }

    fn local_parameter(&self, param: &OpParam) -> Option<TokenStream> {
        let owned = self.owned(&param.ty);
        match param.direction {
            Direction::Out => None,
            Direction::InOut => Some(quote!(&mut #owned)),
            Direction::In => Some(match self.shape(&param.ty) {
                Shape::Text { .. } => quote!(&str),
                Shape::Seq(..) => match self.r#gen.spec.resolve(&param.ty) {
                    Type::Sequence { element, .. } => {
                        let element = self.owned(element);
                        quote!(&[#element])
                    }
                    _ => quote!(&#owned),
                },
                shape if shape.is_handle() => self.view_shape(&shape, &quote!('_)),
                Shape::Local(_) | Shape::Native(_) => owned,
                shape if self.r#gen.analysis.borrows(&shape) || self.r#gen.analysis.is_local(&param.ty) => {
                    quote!(&#owned)
                }
                _ => owned,
            }),
        }
    }
}
