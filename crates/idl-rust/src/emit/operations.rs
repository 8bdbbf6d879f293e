//! The module of an interface besides its own types: its description, and for each operation the
//! error, the server side and the client side. Derived interfaces use inherited operations as they
//! are.

use super::records::{mentions, mentions_lifetime};
use crate::codec::Operand;
use crate::docs;
use crate::hash;
use crate::lints;
use crate::lowered::{Op, OpParam, all_ops, own_ops};
use crate::module::{Module, ident};
use crate::names::Space;
use crate::names::case::snake;
use crate::shape::Shape;
use crate::types::{Form, number};
use isorb_idl::model::{DefId, Direction, Interface};
use proc_macro2::{Ident, TokenStream};
use quote::quote;

/// Exceptions of this many octets make clippy warn of a large error; its own limit is 128 for the
/// whole error.
const LARGE_ERROR: u64 = 96;

impl Module<'_, '_> {
    /// Everything for the operations of interface `id`; `self` is the module of that interface.
    pub(super) fn operations(&self, id: DefId, interface: &Interface) -> TokenStream {
        let mut tokens = TokenStream::new();
        if !interface.local {
            tokens.extend(self.description(id));
        }
        let ops = own_ops(self.r#gen.spec, id);
        for (i, op) in ops.iter().enumerate() {
            tokens.extend(self.error(op, &ops[..i]));
            if !interface.local {
                tokens.extend(self.serve(id, op));
                tokens.extend(self.call(op));
                tokens.extend(self.begin(id, op));
                tokens.extend(self.reply(op));
            }
        }
        tokens
    }

    fn description(&self, id: DefId) -> TokenStream {
        let spec = self.r#gen.spec;
        let [interface, operations] = ["Interface", "Operations"].map(|name| self.rt(name));
        let name = ident(&self.r#gen.names.item(id).interface);
        let repository_id = &spec[id].repository_id;
        let bases = spec.all_bases(id).into_iter().map(|base| &spec[base].repository_id);
        let ops = all_ops(spec, id);
        let in_place = ops.iter().enumerate().filter(|(_, (_, op))| self.serves_in_place(op));
        let in_place: Vec<_> = in_place.map(|(index, _)| number(index as u64)).collect();
        let in_place = (!in_place.is_empty()).then(|| quote!(.reading_in_place(&[#(#in_place),*])));
        let names: Vec<String> = ops.into_iter().map(|(_, op)| op.wire).collect();
        let hash::Table { seed, slots } = hash::table(&names);
        let seed = number(seed.into());
        let slots = slots.into_iter().map(|slot| match slot {
            hash::EMPTY => quote!(0xffff),
            slot => {
                let slot = number(slot.into());
                quote!(#slot)
            }
        });
        let doc = docs::line("Repository ids and operations of the interface, inherited ones included.");
        quote! {
            #doc
            pub static #name: #interface = #interface {
                id: #repository_id,
                bases: &[#(#bases),*],
                operations: #operations::new(&[#(#names),*], #seed, &[#(#slots),*])#in_place,
            };
        }
    }

    /// The error of an operation with `raises`: an enum, or an alias of the enum of an earlier
    /// operation with the same exceptions.
    fn error(&self, op: &Op, before: &[Op]) -> TokenStream {
        let exceptions = &op.raises;
        if exceptions.is_empty() {
            return TokenStream::new();
        }
        let spec = self.r#gen.spec;
        let name = ident(&self.r#gen.names.op(op).error);
        let doc = docs::line(format!("The errors of {}.", docs::code(&spec.scoped_name(op.def))));
        let same = before.iter().find(|other| {
            let others = &other.raises;
            others.len() == exceptions.len() && others.iter().all(|id| exceptions.contains(id))
        });
        if let Some(same) = same {
            let same = ident(&self.r#gen.names.op(same).error);
            return quote!(#doc pub type #name = #same;);
        }
        let system = self.rt("SystemException");
        let variants = self.error_variants(op);
        let types: Vec<_> = exceptions.iter().map(|id| self.item(*id)).collect();
        let docs = exceptions.iter().map(|id| docs::line(format!("{}.", docs::code(&spec.scoped_name(*id)))));
        let local =
            exceptions.iter().any(|id| spec.members(*id).iter().any(|m| self.r#gen.analysis.is_local(&m.ty)));
        let derives = if local { quote!(Clone) } else { quote!(Clone, PartialEq) };
        let sizes: Vec<u64> =
            exceptions.iter().map(|id| self.r#gen.analysis.size(&Shape::Record(*id))).collect();
        let large = sizes.iter().any(|size| *size >= LARGE_ERROR).then(lints::large_error_mark);
        let uneven = self::uneven(&sizes);
        quote! {
            #doc
            #large
            #uneven
            #[derive(#derives)]
            pub enum #name {
                #(#docs #variants(#types),)*
                /// A standard exception, from the ORB or from the servant.
                System(#system),
            }
            ::isorb::operation_error!(#name, [#(#variants(#types)),*]);
        }
    }

    /// The variants of an operation's exceptions, with the exceptions' names.
    pub(super) fn error_variants(&self, op: &Op) -> Vec<Ident> {
        let mut space = Space::default();
        space.claim("System");
        op.raises.iter().map(|id| ident(&space.claim(&self.r#gen.names.item(*id).name))).collect()
    }

    /// The type that an operation's methods return, with `success`.
    pub(super) fn outcome(&self, owner: DefId, op: &Op, success: TokenStream) -> TokenStream {
        let result = self.rt("Result");
        if op.raises.is_empty() {
            return quote!(#result<#success>);
        }
        let error = self.inside(owner, &self.r#gen.names.op(op).error);
        quote!(#result<#success, #error>)
    }

    /// Reads the arguments, calls the servant, writes the reply.
    fn serve(&self, id: DefId, op: &Op) -> TokenStream {
        let names = self.r#gen.names.op(op);
        let locals = Locals::new(op, &["servant", "cx", "d", "e", "exception", "result"]);
        let [servant, cx, d, e, exception, result_name] = locals.ours();
        let [upcall, decoder, encoder, result, outcome] =
            ["Upcall", "Decoder", "Encoder", "Result", "Outcome"].map(|name| self.rt(name));
        let (ok, err) = (self.std("Ok"), self.std("Err"));
        let sized = self.std("Sized");
        let generic = self.generic(Some(id));
        let interface = self.item(id);
        let method = ident(&names.method);
        let mut reads = TokenStream::new();
        let mut arguments = Vec::new();
        for (param, name) in op.params.iter().zip(&locals.params) {
            if param.direction == Direction::Out {
                continue;
            }
            if param.direction == Direction::InOut {
                let ty = self.viewed(&param.ty, &quote!('_));
                let read = self.decode(&self.shape(&param.ty), &d);
                reads.extend(quote!(let mut #name: #ty = #read;));
                arguments.push(quote!(&mut #name));
            } else {
                let ty = self.received(&param.ty, &quote!('_));
                let read = self.decode_received(&param.ty, &d);
                reads.extend(quote!(let #name: #ty = #read;));
                arguments.push(quote!(#name));
            }
        }
        let call = quote!(#interface::#method(#servant, #cx, #(#arguments),*));
        let given = tuple(locals.returned(op, &result_name, |p| p.direction == Direction::Out));
        let mut writes = TokenStream::new();
        let all = locals.returned(op, &result_name, |p| p.direction != Direction::In);
        for (name, ty) in all.iter().zip(op.returned()) {
            writes.extend(self.encode(&self.shape(ty), &Operand::view(quote!(#name)), &e));
        }
        let body = if op.raises.is_empty() {
            let is_unit = op.tuple().is_empty();
            let call = if is_unit { quote!(#call?;) } else { quote!(let #given = #call?;) };
            quote!(#call #writes #ok(#outcome::Results))
        } else {
            let error = ident(&names.error);
            let variants = self.error_variants(op);
            let arms = op.raises.iter().copied().zip(variants).map(|(id, variant)| {
                let ty = self.item(id);
                let encode = self.rt("Encode");
                // A fixed-size exception is sent as a value. Another one lives in the scope until
                // the reply is sent.
                let value = if self.r#gen.analysis.borrows(&Shape::Record(id)) {
                    quote!(#cx.keep(#exception)?)
                } else {
                    quote!(#exception)
                };
                quote! {
                    #err(#error::#variant(#exception)) => {
                        #e.string(#ty::ID);
                        #encode::encode(#value, #e);
                        #ok(#outcome::Exception)
                    }
                }
            });
            quote! {
                match #call {
                    #ok(#given) => { #writes #ok(#outcome::Results) }
                    #(#arms)*
                    #err(#error::System(#exception)) => #err(#exception),
                }
            }
        };
        let body = quote!(#reads #body);
        let d = if mentions(&reads, &d.to_string()) { quote!(#d) } else { quote!(_) };
        let e = if mentions(&body, &e.to_string()) { quote!(#e) } else { quote!(_) };
        let name = ident(&names.serve);
        let text = format!(
            "Serves {}: reads the arguments, calls the servant, writes the reply.",
            docs::code(&op.wire)
        );
        let doc = docs::doc(&[
            text,
            String::new(),
            "# Errors".to_owned(),
            "The servant's error; MARSHAL for malformed arguments.".to_owned(),
        ]);
        quote! {
            #doc
            pub fn #name<'u, #generic: #interface + ?#sized>(
                #servant: &'u #generic,
                #cx: #upcall<'u>,
                #d: &mut #decoder<'u>,
                #e: &mut #encoder<'u>,
            ) -> #result<#outcome> { #body }
        }
    }

    /// Sends the arguments and reads the reply into the caller's scope.
    fn call(&self, op: &Op) -> TokenStream {
        let names = self.r#gen.names.op(op);
        let locals = Locals::new(op, &["object", "scope", "e", "d", "id"]);
        let [object, scope, e, d, id] = locals.ours();
        let [object_ty, encoder, operation] = ["Object", "Encoder", "Operation"].map(|name| self.rt(name));
        let argument_lifetime = quote!('a);
        let mut params = Vec::new();
        let mut writes = TokenStream::new();
        for (param, name) in op.params.iter().zip(&locals.params) {
            if param.direction == Direction::Out {
                continue;
            }
            let shape = self.shape(&param.ty);
            let form = self.form(&shape);
            if param.direction == Direction::InOut && form == Form::View {
                // The owned form has no view without allocation, so each caller passes the code
                // that writes its own.
                let fun = self.std("Fn");
                params.push(quote!(#name: &dyn #fun(&mut #encoder<'a>)));
                writes.extend(quote!(#name(#e);));
                continue;
            }
            match form {
                // The method is generic here; this is one type, with a short lifetime.
                Form::Reference => {
                    let (encode, option) = (self.rt("Encode"), self.std("Option"));
                    params.push(quote!(#name: #option<&'a #object_ty>));
                    writes.extend(quote!(#encode::encode(#name, #e);));
                }
                Form::Generic => {
                    let ty = self.argument(&param.ty, &argument_lifetime);
                    params.push(quote!(#name: #ty));
                    writes.extend(if matches!(shape, Shape::Seq(..)) {
                        let arg = self.rt("SeqArg");
                        quote!(#arg::encode_arg(&#name, #e);)
                    } else {
                        let encode = self.rt("Encode");
                        quote!(#encode::encode(#name, #e);)
                    });
                }
                _ => {
                    let ty = self.argument(&param.ty, &argument_lifetime);
                    params.push(quote!(#name: #ty));
                    writes.extend(self.encode(&shape, &Operand::view(quote!(#name)), &e));
                }
            }
        }
        let params = quote!(#(#params),*);
        let borrows = mentions_lifetime(&params, "a");
        let lifetime = borrows.then(|| quote!('a));
        let of = lifetime.clone().unwrap_or_else(|| quote!('_));
        let e = if writes.is_empty() { quote!(_) } else { quote!(#e) };
        let write = quote!(&|#e: &mut #encoder<#of>| { #writes });
        let (name, static_name) = (ident(&names.call), ident(&names.operation));
        let (wire, oneway) = (&op.wire, op.oneway);
        let static_doc = docs::line(format!("The request of {}.", docs::code(wire)));
        let description = quote! {
            #static_doc
            static #static_name: #operation = #operation { name: #wire, oneway: #oneway };
        };
        let doc = docs::doc(&[
            format!("Calls {} on an object.", docs::code(wire)),
            String::new(),
            "# Errors".to_owned(),
            "The errors of the reference's method.".to_owned(),
        ]);
        if op.oneway {
            let result = self.rt("Result");
            let lifetimes = lifetime.map(|lifetime| quote!(<#lifetime>));
            return quote! {
                #doc
                pub fn #name #lifetimes(#object: &#object_ty, #params) -> #result<()> {
                    #object.send(&#static_name, #write)
                }
                #description
            };
        }
        let outcome = self.outcome(self.owner(op), op, tuple(self.returned_types(op, &quote!('s))));
        let scope_ty = self.rt("Scope");
        let lifetimes = lifetime.map(|lifetime| quote!(, #lifetime));
        let read = self.read_reply(op, &d, &id);
        let invoke = ident(if self.returns_in_place(op) { "invoke_in_place" } else { "invoke" });
        quote! {
            #doc
            pub fn #name<'s #lifetimes>(#object: &#object_ty, #scope: &'s #scope_ty<'s>, #params) -> #outcome {
                #object.#invoke(&#static_name, #scope, #write)?#read
            }
            #description
        }
    }

    /// The interface that contains an operation.
    fn owner(&self, op: &Op) -> DefId {
        // Operations and attributes are in an interface or value.
        self.r#gen.spec[op.def].parent.unwrap_or(op.def)
    }

    /// The method to call on a reply.
    pub(super) fn read_reply(&self, op: &Op, d: &Ident, id: &Ident) -> TokenStream {
        let ok = self.std("Ok");
        let returned = op.returned();
        let results = match returned.as_slice() {
            [] => quote!(|_| #ok(())),
            [one] => {
                let read = match received_out(op) {
                    true => self.decode_received_result(one, d),
                    false => self.decode_result(&self.shape(one), d),
                };
                quote!(|#d| #read)
            }
            _ => {
                let reads = self.decode_returned(op, d);
                quote!(|#d| #ok((#(#reads),*)))
            }
        };
        if op.raises.is_empty() {
            return quote!(.results(#results));
        }
        let error = ident(&self.r#gen.names.op(op).error);
        let (some, none) = (self.std("Some"), self.std("None"));
        let arms = op.raises.iter().copied().zip(self.error_variants(op)).map(|(exception, variant)| {
            let ty = self.item(exception);
            let shape = Shape::Record(exception);
            let value = if self.r#gen.analysis.borrows(&shape) {
                let idl = self.rt("Idl");
                quote!(<#ty as #idl>::from_view(#d.read()?))
            } else {
                quote!(#d.read()?)
            };
            quote!(#ty::ID => #ok(#some(#error::#variant(#value))),)
        });
        quote!(.raises(#results, |#id, #d| match #id { #(#arms)* _ => #ok(#none) }))
    }

    /// A name for a type parameter that is unused in the Rust module of `scope`.
    pub(super) fn generic(&self, scope: Option<DefId>) -> Ident {
        let mut space = self.r#gen.names.space(scope).clone();
        ident(&space.claim_type("S"))
    }
}

/// Whether the only value that a call receives is a result or `out` value, rather than `inout`.
fn received_out(op: &Op) -> bool {
    op.outs().all(|param| param.direction == Direction::Out)
}

/// The lint attribute for an enum with one variant much larger than the others; clippy's limit is
/// 200 bytes more.
pub(super) fn uneven(sizes: &[u64]) -> Option<TokenStream> {
    let mut sizes = sizes.to_vec();
    sizes.sort_unstable();
    let largest = sizes.pop()?;
    let second = sizes.pop().unwrap_or(0);
    (largest - second >= 150).then(|| quote!(#[allow(clippy::large_enum_variant)]))
}

/// A value, type or pattern of several: none, one, or a tuple.
pub(super) fn tuple<T: quote::ToTokens>(parts: Vec<T>) -> TokenStream {
    match parts.as_slice() {
        [one] => quote!(#one),
        parts => quote!((#(#parts),*)),
    }
}

/// The names in a generated function: those of the parameters, and generated ones, which change on
/// a clash.
pub(super) struct Locals {
    /// One for each parameter.
    pub params: Vec<Ident>,
    space: Space,
    ours: Vec<Ident>,
}

impl Locals {
    pub fn new(op: &Op, ours: &[&str]) -> Locals {
        let mut space = Space::default();
        let params = op.params.iter().map(|p| ident(&space.claim(&snake(&p.name)))).collect();
        let ours = ours.iter().map(|name| ident(&space.claim(name))).collect();
        Locals { params, space, ours }
    }

    /// Generated names, in the order of their creation.
    pub fn ours<const N: usize>(&self) -> [Ident; N] {
        std::array::from_fn(|i| self.ours[i].clone())
    }

    /// Creates a name.
    pub fn fresh(&mut self, wanted: &str) -> Ident {
        ident(&self.space.claim(wanted))
    }

    /// The name of the result if there is one, then those of the parameters that `which` selects.
    pub fn returned(&self, op: &Op, result: &Ident, which: impl Fn(&OpParam) -> bool) -> Vec<Ident> {
        let result = (op.result != isorb_idl::model::Type::Void).then(|| result.clone());
        let params =
            op.params.iter().zip(&self.params).filter(|(p, _)| which(p)).map(|(_, name)| name.clone());
        result.into_iter().chain(params).collect()
    }
}
