//! Types as they are written in Rust.

use crate::module::{Module, ident};
use crate::shape::Shape;
use isorb_idl::model::{DefId, DefKind, Type};
use proc_macro2::{Literal, TokenStream};
use quote::quote;

/// How a client hands an argument over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A `Copy` value.
    Value,
    /// Something that the owned form dereferences to: `&str`, `&Any`, a slice of items with one
    /// form.
    Borrowed,
    /// `impl RefArg<'a, IRef>`.
    Reference,
    /// `Option<&'a V>`.
    Handle,
    /// `impl Arg<'a, T>`: whatever can be sent as a `T`.
    Generic,
    /// The view, where items have two forms and code of their own.
    View,
}

impl Module<'_, '_> {
    /// The owned form, aliases by their names.
    pub fn owned(&self, ty: &Type) -> TokenStream {
        match ty {
            Type::Named(id) if matches!(self.r#gen.spec[*id].kind, DefKind::Typedef(_)) => self.item(*id),
            Type::Sequence { element, .. } => {
                let (vec, element) = (self.std("Vec"), self.owned(element));
                quote!(#vec<#element>)
            }
            Type::Array { element, dims } => array(self.owned(element), dims),
            ty => self.owned_shape(&self.r#gen.analysis.shape(ty)),
        }
    }

    /// The view with that lifetime, aliases by their names.
    pub fn viewed(&self, ty: &Type, lifetime: &TokenStream) -> TokenStream {
        if !self.r#gen.analysis.borrows(&self.r#gen.analysis.shape(ty)) {
            return self.owned(ty);
        }
        match ty {
            Type::Named(id) if matches!(self.r#gen.spec[*id].kind, DefKind::Typedef(_)) => {
                // Through a plain alias of a reference or string the reader is better served by the
                // type itself.
                let shape = self.r#gen.analysis.shape(ty);
                if matches!(shape, Shape::Text { .. } | Shape::Any | Shape::TypeCode) || shape.is_handle() {
                    return self.view_shape(&shape, lifetime);
                }
                let view = self.view(*id);
                quote!(#view<#lifetime>)
            }
            Type::Sequence { element, .. } => {
                let element = self.viewed(element, lifetime);
                if lifetime.to_string() == "'_" { quote!(&[#element]) } else { quote!(&#lifetime [#element]) }
            }
            Type::Array { element, dims } => array(self.viewed(element, lifetime), dims),
            ty => self.view_shape(&self.r#gen.analysis.shape(ty), lifetime),
        }
    }

    /// The owned form of a shape.
    pub fn owned_shape(&self, shape: &Shape) -> TokenStream {
        match shape {
            Shape::Void => quote!(()),
            Shape::Number(name) => {
                let name = ident(name);
                quote!(#name)
            }
            Shape::Bool => quote!(bool),
            Shape::Char | Shape::WChar => quote!(char),
            Shape::LongDouble => self.rt("LongDouble"),
            Shape::Fixed(digits, scale) => {
                let fixed = self.rt("Fixed");
                let (digits, scale) = (number((*digits).into()), number((*scale).into()));
                quote!(#fixed<#digits, #scale>)
            }
            Shape::Text { .. } => self.std("String"),
            Shape::Seq(element, _) => {
                let (vec, element) = (self.std("Vec"), self.owned_shape(element));
                quote!(#vec<#element>)
            }
            Shape::Array(element, n) => {
                let (element, n) = (self.owned_shape(element), number((*n).into()));
                quote!([#element; #n])
            }
            Shape::Enum(id) | Shape::Record(id) | Shape::Native(id) => self.item(*id),
            Shape::Local(id) => {
                let interface = self.item(*id);
                quote!(::std::sync::Arc<dyn #interface>)
            }
            Shape::Any => self.rt("Any"),
            Shape::TypeCode => self.rt("TypeCode"),
            handle => {
                let (option, target) = (self.std("Option"), self.handle(handle));
                quote!(#option<#target>)
            }
        }
    }

    /// The view of a shape.
    pub fn view_shape(&self, shape: &Shape, lifetime: &TokenStream) -> TokenStream {
        let borrow = if lifetime.to_string() == "'_" { quote!(&) } else { quote!(&#lifetime) };
        match shape {
            Shape::Text { .. } => quote!(#borrow str),
            Shape::Seq(element, _) => {
                let element = self.view_shape(element, lifetime);
                quote!(#borrow [#element])
            }
            Shape::Array(element, n) => {
                let (element, n) = (self.view_shape(element, lifetime), number((*n).into()));
                quote!([#element; #n])
            }
            Shape::Any | Shape::TypeCode => {
                let owned = self.owned_shape(shape);
                quote!(#borrow #owned)
            }
            Shape::Record(id) if self.r#gen.analysis.borrows(shape) => {
                let view = self.view(*id);
                quote!(#view<#lifetime>)
            }
            shape if shape.is_handle() => {
                let (option, target) = (self.std("Option"), self.handle(shape));
                quote!(#option<#borrow #target>)
            }
            shape => self.owned_shape(shape),
        }
    }

    /// What is inside the `Option` of a reference or value.
    pub fn handle(&self, shape: &Shape) -> TokenStream {
        match shape {
            Shape::Reference(id) => self.reference(*id),
            Shape::Value(id) => self.item(*id),
            Shape::Object => self.rt("Object"),
            Shape::ValueBase => self.rt("ValueBase"),
            _ => self.rt("AbstractBase"),
        }
    }

    /// How a client hands over an argument of this shape.
    pub fn form(&self, shape: &Shape) -> Form {
        let analysis = &self.r#gen.analysis;
        match shape {
            Shape::Text { .. } | Shape::Any | Shape::TypeCode => Form::Borrowed,
            Shape::Reference(id) if self.is_abstract(*id) => Form::Handle,
            Shape::Reference(_) | Shape::Object => Form::Reference,
            Shape::Seq(element, _) if !analysis.borrows(element) => Form::Borrowed,
            Shape::Seq(element, bound) if bound.is_none() && !analysis.needs_code(element, true) => {
                Form::Generic
            }
            Shape::Seq(..) => Form::View,
            Shape::Record(_) if analysis.borrows(shape) => Form::Generic,
            Shape::Array(element, _) if analysis.borrows(element) => Form::View,
            shape if shape.is_handle() => Form::Handle,
            _ => Form::Value,
        }
    }

    /// Whether it is an abstract interface.
    pub fn is_abstract(&self, id: DefId) -> bool {
        matches!(&self.r#gen.spec[id].kind, DefKind::Interface(i) if i.abstract_)
    }

    /// The type of a client's parameter.
    pub fn argument(&self, ty: &Type, lifetime: &TokenStream) -> TokenStream {
        let shape = self.r#gen.analysis.shape(ty);
        match self.form(&shape) {
            Form::Reference => {
                let (arg, target) = (self.rt("RefArg"), self.handle(&shape));
                quote!(impl #arg<#lifetime, #target>)
            }
            Form::Generic => match self.r#gen.spec.resolve(ty) {
                Type::Sequence { element, .. } => {
                    let (arg, element) = (self.rt("SeqArg"), self.owned(element));
                    quote!(impl #arg<#lifetime, #element>)
                }
                _ => {
                    let (arg, owned) = (self.rt("Arg"), self.owned(ty));
                    quote!(impl #arg<#lifetime, #owned>)
                }
            },
            _ => self.viewed(ty, lifetime),
        }
    }

    /// One concrete type for a [`Form::Generic`] parameter: a reference to the owned form.
    pub fn owned_argument(&self, ty: &Type) -> TokenStream {
        match self.r#gen.spec.resolve(ty) {
            Type::Sequence { element, .. } => {
                let element = self.owned(element);
                quote!(&[#element])
            }
            _ => {
                let owned = self.owned(ty);
                quote!(&#owned)
            }
        }
    }
}

/// A number without a type suffix.
pub(crate) fn number(n: u64) -> Literal {
    Literal::u64_unsuffixed(n)
}

fn array(element: TokenStream, dims: &[u32]) -> TokenStream {
    dims.iter().rev().fold(element, |inner, n| {
        let n = number((*n).into());
        quote!([#inner; #n])
    })
}
