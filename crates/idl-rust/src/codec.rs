//! Statements that write a value, and expressions that read one.
//!
//! Uses the traits of `isorb-cdr` where they suffice. If a type's Rust form does not determine its
//! IDL type (wide text, bounds), or an owned form has no `Encode`, it writes loops and checks.

use crate::module::Module;
use crate::shape::Shape;
use crate::types::number;
use proc_macro2::{Ident, TokenStream};
use quote::quote;

/// An expression to be written, and whether it is a reference.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    expr: TokenStream,
    /// The expression is a `&T` where `T` is the form.
    by_ref: bool,
    /// `T` is the owned form rather than the view.
    owned: bool,
}

impl Operand {
    pub fn view(expr: TokenStream) -> Operand {
        Operand { expr, by_ref: false, owned: false }
    }

    pub fn owned(expr: TokenStream) -> Operand {
        Operand { expr, by_ref: false, owned: true }
    }

    /// An expression that is a reference to the owned form.
    pub fn owned_ref(expr: TokenStream) -> Operand {
        Operand { expr, by_ref: true, owned: true }
    }

    /// As a value that is `Copy`.
    pub fn value(&self) -> TokenStream {
        let expr = &self.expr;
        if self.by_ref { quote!(*#expr) } else { quote!(#expr) }
    }

    /// As a reference.
    fn borrow(&self) -> TokenStream {
        let expr = &self.expr;
        if self.by_ref { quote!(#expr) } else { quote!(&#expr) }
    }

    /// The argument of `Encode`: views by value, owned values by reference.
    fn encodable(&self) -> TokenStream {
        if self.owned { self.borrow() } else { self.value() }
    }

    /// A receiver for a method call, which dereferences by itself.
    fn receiver(&self) -> &TokenStream {
        &self.expr
    }
}

impl Module<'_, '_> {
    /// Statements that write `operand` to the encoder named `e`.
    pub fn encode(&self, shape: &Shape, operand: &Operand, e: &Ident) -> TokenStream {
        let analysis = &self.r#gen.analysis;
        match shape {
            Shape::Void => TokenStream::new(),
            Shape::Number(_) => {
                let value = operand.value();
                quote!(#e.put(#value);)
            }
            Shape::WChar => {
                let value = operand.value();
                quote!(#e.wchar(#value);)
            }
            Shape::Char => {
                let value = operand.value();
                quote!(#e.char(#value);)
            }
            Shape::Text { wide, bound } => {
                // A reference to a view or a `String` becomes a `&str` by itself.
                let text = if operand.by_ref { operand.expr.clone() } else { operand.encodable() };
                let check = bound.map(|n| {
                    let (text, n) = (operand.receiver(), number(n.into()));
                    quote!(#e.check_bound(#text.chars().count(), #n);)
                });
                if *wide { quote!(#check #e.wstring(#text);) } else { quote!(#check #e.string(#text);) }
            }
            Shape::Seq(element, bound) => {
                let items = operand.receiver();
                let check = bound.map(|n| {
                    let n = number(n.into());
                    quote!(#e.check_bound(#items.len(), #n);)
                });
                if analysis.needs_code(element, operand.owned) {
                    let each = self.encode_each(element, operand, e);
                    quote!(#check #e.count(#items.len()); #each)
                } else {
                    let (encode, items) = (self.rt("Encode"), operand.encodable());
                    quote!(#check #encode::encode(#items, #e);)
                }
            }
            Shape::Array(..) if analysis.plain(shape).is_some() => {
                let value = operand.value();
                quote!(#e.put(#value);)
            }
            Shape::Array(element, _) if analysis.needs_code(shape, operand.owned) => {
                self.encode_each(element, operand, e)
            }
            // An array without views is `Copy` and has `Encode` itself, in both forms.
            Shape::Array(..) => {
                let (encode, value) = (self.rt("Encode"), operand.value());
                quote!(#encode::encode(#value, #e);)
            }
            shape if shape.is_handle() && operand.owned => {
                let (encode, handle) = (self.rt("Encode"), operand.receiver());
                quote!(#encode::encode(#handle.as_ref(), #e);)
            }
            shape => {
                let value = if analysis.borrows(shape) { operand.encodable() } else { operand.value() };
                let encode = self.rt("Encode");
                quote!(#encode::encode(#value, #e);)
            }
        }
    }

    fn encode_each(&self, element: &Shape, operand: &Operand, e: &Ident) -> TokenStream {
        let item = quote!(item);
        let (items, each) = if operand.owned {
            (operand.borrow(), Operand::owned_ref(item))
        } else {
            // Likewise for a slice, which is a reference, and for an array, which is a value.
            let items = operand.receiver();
            (quote!(#items.iter()), Operand { expr: item, by_ref: true, owned: false })
        };
        let body = self.encode(element, &each, e);
        quote!(for item in #items { #body })
    }

    /// An expression for the view that is read from the decoder named `d`; it may return with `?`.
    pub fn decode(&self, shape: &Shape, d: &Ident) -> TokenStream {
        if let Some(call) = self.decode_call(shape, d) {
            return quote!(#call?);
        }
        let (statements, value) = self.decode_parts(shape, d);
        if statements.is_empty() { value } else { quote!({ #statements #value }) }
    }

    /// The same as an expression of type `Result`.
    pub fn decode_result(&self, shape: &Shape, d: &Ident) -> TokenStream {
        if let Some(call) = self.decode_call(shape, d) {
            return call;
        }
        let ok = self.std("Ok");
        let (statements, value) = self.decode_parts(shape, d);
        if statements.is_empty() { quote!(#ok(#value)) } else { quote!({ #statements #ok(#value) }) }
    }

    /// The single call that reads it, if there is one.
    fn decode_call(&self, shape: &Shape, d: &Ident) -> Option<TokenStream> {
        let analysis = &self.r#gen.analysis;
        Some(match shape {
            Shape::Number(_) => quote!(#d.get()),
            Shape::Array(..) if analysis.plain(shape).is_some() => quote!(#d.get()),
            Shape::Bool if self.r#gen.options.lenient_booleans => {
                quote!(#d.get::<u8>().map(|octet| octet != 0))
            }
            Shape::Bool => quote!(#d.boolean()),
            Shape::Char => quote!(#d.char()),
            Shape::WChar => quote!(#d.wchar()),
            Shape::Text { wide: false, bound: None } => quote!(#d.string()),
            Shape::Text { wide: true, bound: None } => quote!(#d.wstring()),
            Shape::Seq(element, None) if analysis.needs_code(element, false) => {
                let min = number(analysis.min_wire(element).max(1));
                let read = self.decode_result(element, d);
                quote!(#d.views(#min, |#d| #read))
            }
            shape if !analysis.needs_code(shape, false) => quote!(#d.read()),
            _ => return None,
        })
    }

    fn decode_parts(&self, shape: &Shape, d: &Ident) -> (TokenStream, TokenStream) {
        match shape {
            Shape::Text { wide, bound: Some(n) } => {
                let n = number((*n).into());
                let read = if *wide { quote!(wstring) } else { quote!(string) };
                (quote!(let text = #d.#read()?; #d.check_bound(text.chars().count(), #n)?;), quote!(text))
            }
            Shape::Seq(element, Some(n)) => {
                let n = number((*n).into());
                let unbounded = self.decode(&Shape::Seq(element.clone(), None), d);
                let ty = self.view_shape(&Shape::Seq(element.clone(), None), &quote!('_));
                (quote!(let items: #ty = #unbounded; #d.check_bound(items.len(), #n)?;), quote!(items))
            }
            Shape::Array(element, n) => {
                let read = self.decode(element, d);
                if *n == 1 {
                    return (TokenStream::new(), quote!([#read]));
                }
                let length = number((*n).into());
                let statements = quote! {
                    let first = #read;
                    let mut items = [first; #length];
                    for item in &mut items[1..] { *item = #read; }
                };
                (statements, quote!(items))
            }
            shape => {
                let read = self.decode(shape, d);
                (TokenStream::new(), read)
            }
        }
    }

    /// An expression for the owned form of the view `view`.
    ///
    /// Written out instead of `Idl::from_view` on sequences, since rustc compiles nested ones much
    /// faster.
    pub fn to_owned(&self, shape: &Shape, view: &TokenStream) -> TokenStream {
        let analysis = &self.r#gen.analysis;
        if !analysis.borrows(shape) {
            return view.clone();
        }
        match shape {
            Shape::Text { .. } => quote!(#view.to_owned()),
            Shape::Any | Shape::TypeCode => quote!(#view.clone()),
            Shape::Seq(element, _) if !analysis.borrows(element) => quote!(#view.to_vec()),
            Shape::Seq(element, _) => {
                let item = self.item_to_owned(element);
                quote!(#view.iter().map(|item| #item).collect())
            }
            Shape::Array(element, _) => match &**element {
                Shape::Record(id) => {
                    let (idl, record) = (self.rt("Idl"), self.item(*id));
                    quote!(#view.map(<#record as #idl>::from_view))
                }
                element => {
                    let item = self.to_owned(element, &quote!(item));
                    quote!(#view.map(|item| #item))
                }
            },
            Shape::Record(id) => {
                let (idl, record) = (self.rt("Idl"), self.item(*id));
                quote!(<#record as #idl>::from_view(#view))
            }
            _ => quote!(#view.cloned()),
        }
    }

    /// An expression for the view of an owned value; it may use `scope` and return with `?`, unless
    /// the type lends its view.
    pub fn as_view(&self, shape: &Shape, operand: &Operand) -> TokenStream {
        let analysis = &self.r#gen.analysis;
        let receiver = operand.receiver();
        match shape {
            shape if !analysis.borrows(shape) => operand.value(),
            Shape::Text { .. } => quote!(#receiver.as_str()),
            Shape::Any | Shape::TypeCode => operand.borrow(),
            shape if !analysis.lends_view(shape) => {
                let (idl, value) = (self.rt("Idl"), operand.borrow());
                quote!(#idl::view_in(#value, scope)?)
            }
            Shape::Seq(..) => quote!(#receiver.as_slice()),
            Shape::Array(element, _) => {
                let item = self.as_view(element, &Operand::owned_ref(quote!(item)));
                quote!(#receiver.each_ref().map(|item| #item))
            }
            Shape::Record(_) => quote!(#receiver.view()),
            _ => quote!(#receiver.as_ref()),
        }
    }

    /// Like [`Module::to_owned`] for `item`, a reference to a view.
    fn item_to_owned(&self, element: &Shape) -> TokenStream {
        match element {
            Shape::Record(_) => self.to_owned(element, &quote!(*item)),
            // `to_owned` and `clone` would otherwise copy the reference.
            Shape::Text { .. } | Shape::Any | Shape::TypeCode => self.to_owned(element, &quote!((*item))),
            _ => self.to_owned(element, &quote!(item)),
        }
    }
}
