//! Sequences that are received where the peer lent them, if the output is to have them
//! ([`Options::receive_in_place`](crate::Options::receive_in_place)).
//!
//! A parameter or result of such a typedef is `Lent<'_, T>` where it is received: the servant's
//! `in` parameters, and what a call returns. Where it is sent it stays a slice.

use crate::lowered::Op;
use crate::module::Module;
use crate::options::Options;
use crate::shape::{Analysis, Shape};
use isorb_idl::model::{DefKind, Direction, Spec, Type};
use proc_macro2::{Ident, TokenStream};
use quote::quote;

/// Types that are looked through for values; deeper ones count as values.
const DEPTH: u32 = 16;

/// Refuses names that are no typedef of an unbounded sequence of plain elements.
///
/// # Errors
/// A sentence about the first of them.
pub(crate) fn check(spec: &Spec, options: &Options) -> Result<(), String> {
    let analysis = Analysis::new(spec);
    for name in options.in_place() {
        let refused = |why: &str| Err(format!("receive_in_place(\"{name}\"): {why}"));
        let Some(id) = spec.find(name) else { return refused("the IDL has no such type") };
        let DefKind::Typedef(_) = &spec[id].kind else { return refused("this is not a typedef") };
        match analysis.shape(&Type::Named(id)) {
            Shape::Seq(element, None) if analysis.plain(&element).is_some() => {}
            _ => {
                return refused(
                    "it takes an unbounded sequence of octets, numbers, or structures of them without padding",
                );
            }
        }
    }
    Ok(())
}

impl Module<'_, '_> {
    /// The elements of a type that is received in place.
    fn elements_in_place(&self, ty: &Type) -> Option<Shape> {
        let Type::Named(id) = ty else { return None };
        if !self.r#gen.options.in_place().any(|name| self.r#gen.spec.find(name) == Some(*id)) {
            return None;
        }
        match self.shape(ty) {
            Shape::Seq(element, None) if self.r#gen.analysis.plain(&element).is_some() => Some(*element),
            _ => None,
        }
    }

    fn is_in_place(&self, ty: &Type) -> bool {
        self.elements_in_place(ty).is_some()
    }

    /// The type of a received parameter or result.
    pub(crate) fn received(&self, ty: &Type, lifetime: &TokenStream) -> TokenStream {
        match self.elements_in_place(ty) {
            Some(element) => {
                let (lent, element) = (self.rt("Lent"), self.owned_shape(&element));
                quote!(#lent<#lifetime, #element>)
            }
            None => self.viewed(ty, lifetime),
        }
    }

    /// The types that a call receives, in order: the result, then `inout` and `out` values.
    pub(crate) fn returned_types(&self, op: &Op, lifetime: &TokenStream) -> Vec<TokenStream> {
        let returned = received_values(op).into_iter();
        returned
            .map(|(ty, out)| if out { self.received(ty, lifetime) } else { self.viewed(ty, lifetime) })
            .collect()
    }

    /// Reads a received parameter, as an expression that may return with `?`.
    pub(crate) fn decode_received(&self, ty: &Type, d: &Ident) -> TokenStream {
        if self.is_in_place(ty) { quote!(#d.read()?) } else { self.decode(&self.shape(ty), d) }
    }

    /// Reads the value that a call receives, as an expression of type `Result`.
    pub(crate) fn decode_received_result(&self, ty: &Type, d: &Ident) -> TokenStream {
        if self.is_in_place(ty) { quote!(#d.read()) } else { self.decode_result(&self.shape(ty), d) }
    }

    /// The values that a call receives, as expressions that may return with `?`.
    pub(crate) fn decode_returned(&self, op: &Op, d: &Ident) -> Vec<TokenStream> {
        let returned = received_values(op).into_iter();
        returned
            .map(|(ty, out)| if out { self.decode_received(ty, d) } else { self.decode(&self.shape(ty), d) })
            .collect()
    }

    /// Whether the server reads arguments of an operation where the client lent them.
    pub(crate) fn serves_in_place(&self, op: &Op) -> bool {
        let mut params = op.params.iter().filter(|p| p.direction != Direction::Out);
        op.params.iter().any(|p| p.direction == Direction::In && self.is_in_place(&p.ty))
            && params.all(|p| !self.holds_values(&self.shape(&p.ty), DEPTH))
    }

    /// Whether a client reads results of an operation where the server lent them.
    pub(crate) fn returns_in_place(&self, op: &Op) -> bool {
        let returned = received_values(op);
        returned.iter().any(|(ty, out)| *out && self.is_in_place(ty))
            && returned.iter().all(|(ty, _)| !self.holds_values(&self.shape(ty), DEPTH))
    }

    /// Whether a value can have valuetypes: their indirections need the message in one piece.
    fn holds_values(&self, shape: &Shape, depth: u32) -> bool {
        let deeper = |shape: &Shape| depth == 0 || self.holds_values(shape, depth - 1);
        match shape {
            Shape::Value(_) | Shape::ValueBase | Shape::AbstractBase | Shape::Any => true,
            Shape::Reference(id) => self.is_abstract(*id),
            Shape::Seq(element, _) | Shape::Array(element, _) => deeper(element),
            Shape::Record(id) => {
                self.r#gen.spec.member_types(*id).into_iter().any(|ty| deeper(&self.shape(ty)))
            }
            _ => false,
        }
    }
}

/// The types that a call receives, each with whether it is a result or `out` value.
fn received_values(op: &Op) -> Vec<(&Type, bool)> {
    let result = (op.result != Type::Void).then_some((&op.result, true));
    let outs = op.outs().map(|p| (&p.ty, p.direction == Direction::Out));
    result.into_iter().chain(outs).collect()
}
