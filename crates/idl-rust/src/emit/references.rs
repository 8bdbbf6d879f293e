//! The reference type of an interface: the client side.

use super::operations::{Locals, tuple};
use crate::codec::Operand;
use crate::docs;
use crate::lowered::{Op, OpParam, all_ops};
use crate::module::{Module, ident};
use crate::names::Methods;
use crate::shape::Shape;
use crate::types::{Form, number};
use isorb_idl::model::{DefId, DefKind, Direction};
use proc_macro2::{Ident, TokenStream};
use quote::quote;

impl Module<'_, '_> {
    pub(super) fn reference_type(&self, id: DefId) -> TokenStream {
        let spec = self.r#gen.spec;
        let names = self.r#gen.names.item(id);
        let name = ident(&names.reference);
        let object = self.rt("Object");
        let scoped = spec.scoped_name(id);
        let doc = docs::doc(&[
            format!("A reference to an object with the interface {}; never nil.", docs::code(&scoped)),
            String::new(),
            format!("Repository id: {}", docs::code(&spec[id].repository_id)),
        ]);
        let interface = self.inside(id, &names.interface);
        let bases: Vec<_> = spec.all_bases(id).into_iter().map(|base| self.reference(base)).collect();
        let traits = ident(if self.is_abstract(id) { "abstract_reference" } else { "reference" });
        let ops = all_ops(spec, id);
        let defined = matches!(&spec[id].kind, DefKind::Interface(i) if i.defined);
        let serves = defined.then(|| self.serves(id, &name, &ops));
        let methods: TokenStream = ops
            .iter()
            .zip(self.r#gen.names.methods(id))
            .map(|((owner, op), methods)| self.methods(*owner, op, methods))
            .collect();
        let methods = (!methods.is_empty()).then(|| quote!(impl #name { #methods }));
        quote! {
            #doc
            #[derive(Clone, Debug, PartialEq, Eq, Hash)]
            pub struct #name(#object);
            ::isorb::#traits!(#name, #interface, [#(#bases),*]);
            #serves
            #methods
        }
    }

    /// The dispatch of requests to a servant.
    fn serves(&self, id: DefId, name: &Ident, ops: &[(DefId, Op)]) -> TokenStream {
        let [serves, upcall, decoder, encoder, result, outcome, bad_operation] =
            ["Serves", "Upcall", "Decoder", "Encoder", "Result", "Outcome", "bad_operation"]
                .map(|name| self.rt(name));
        let err = self.std("Err");
        let interface = self.item(id);
        let generic = self.generic(self.r#gen.spec[id].parent);
        let arms = ops.iter().enumerate().map(|(i, (owner, op))| {
            let i = number(i as u64);
            let serve = self.inside(*owner, &self.r#gen.names.op(op).serve);
            quote!(#i => #serve(servant, cx, d, e),)
        });
        let arms: TokenStream = arms.collect();
        let names =
            if ops.is_empty() { ["_", "_", "_", "_", "_"] } else { ["servant", "operation", "cx", "d", "e"] };
        let [servant, operation, cx, d, e] = names.map(|name| match name {
            "_" => quote!(_),
            name => {
                let name = ident(name);
                quote!(#name)
            }
        });
        let body = if ops.is_empty() {
            quote!(#err(#bad_operation()))
        } else {
            quote!(match operation { #arms _ => #err(#bad_operation()) })
        };
        quote! {
            impl<#generic: #interface> #serves<#generic> for #name {
                fn dispatch<'u>(
                    #servant: &'u #generic,
                    #operation: u16,
                    #cx: #upcall<'u>,
                    #d: &mut #decoder<'u>,
                    #e: &mut #encoder<'u>,
                ) -> #result<#outcome> { #body }
            }
        }
    }

    fn methods(&self, owner: DefId, op: &Op, methods: &Methods) -> TokenStream {
        let owned = self.owned_method(owner, op, methods);
        let scoped = (!methods.scoped.is_empty()).then(|| self.scoped_method(owner, op, methods));
        let asynchronous = self.asynchronous_methods(owner, op, methods);
        quote!(#owned #scoped #asynchronous)
    }

    /// The method that returns owned values.
    fn owned_method(&self, owner: DefId, op: &Op, methods: &Methods) -> TokenStream {
        let analysis = &self.r#gen.analysis;
        let mut locals = Locals::new(op, &["scope", "result", "e"]);
        let [scope, result, e] = locals.ours();
        let call = self.inside(owner, &self.r#gen.names.op(op).call);
        let name = ident(&methods.owned);
        // An argument without fixed type determines the lifetime of all, but an `inout` value is
        // borrowed for less.
        let reborrows =
            op.params.iter().any(|p| p.direction == Direction::InOut && self.form_of(p) != Form::Value);
        let named =
            op.params.iter().filter(|p| p.direction == Direction::In).any(|p| match self.form_of(p) {
                Form::Generic => !reborrows,
                form => form == Form::Reference,
            });
        let lifetime = if named { quote!('a) } else { quote!('_) };
        let lifetimes = named.then(|| quote!(<'a>));
        let mut params = Vec::new();
        let mut arguments = Vec::new();
        for (param, name) in op.params.iter().zip(&locals.params) {
            let form = self.form_of(param);
            match param.direction {
                Direction::Out => {}
                Direction::In => {
                    let ty = if reborrows && form == Form::Generic {
                        self.owned_argument(&param.ty)
                    } else {
                        self.argument(&param.ty, &lifetime)
                    };
                    params.push(quote!(#name: #ty));
                    arguments.push(self.pass(param, quote!(#name)));
                }
                Direction::InOut => {
                    let ty = self.owned(&param.ty);
                    params.push(quote!(#name: &mut #ty));
                    arguments.push(match form {
                        Form::Value => quote!(*#name),
                        Form::Borrowed => quote!(#name),
                        Form::Reference => self.pass(param, quote!(#name.as_ref())),
                        Form::Handle => quote!(#name.as_ref()),
                        Form::Generic => quote!(&*#name),
                        Form::View => {
                            let write =
                                self.encode(&self.shape(&param.ty), &Operand::owned_ref(quote!(#name)), &e);
                            quote!(&|#e| { let #name = &*#name; #write })
                        }
                    });
                }
            }
        }
        let types = op.tuple().into_iter().map(|ty| self.owned(ty)).collect();
        let outcome = self.outcome(owner, op, tuple(types));
        let doc = self.operation_doc(op, "");
        if op.oneway {
            let body = quote!(#call(&self.0, #(#arguments),*));
            return quote!(#doc pub fn #name #lifetimes(&self, #(#params),*) -> #outcome { #body });
        }
        let call_scope = self.rt("call_scope");
        let invoke = quote!(#call(&self.0, #scope, #(#arguments),*));
        let returned: Vec<Shape> = op.returned().into_iter().map(|ty| self.shape(ty)).collect();
        let has_inout = op.params.iter().any(|p| p.direction == Direction::InOut);
        let body = if !has_inout && !returned.iter().any(|shape| analysis.borrows(shape)) {
            invoke
        } else {
            let ok = self.std("Ok");
            let (pattern, assignments, values) = self.take_apart(op, &mut locals, &result, true);
            quote!({ let #pattern = #invoke?; #assignments #ok(#values) })
        };
        quote! {
            #doc
            pub fn #name #lifetimes(&self, #(#params),*) -> #outcome { #call_scope(|#scope| #body) }
        }
    }

    /// The method that returns views in the caller's scope.
    fn scoped_method(&self, owner: DefId, op: &Op, methods: &Methods) -> TokenStream {
        let mut locals = Locals::new(op, &["scope", "result", "e"]);
        let [scope, result, e] = locals.ours();
        let call = self.inside(owner, &self.r#gen.names.op(op).call);
        let name = ident(&methods.scoped);
        let scope_ty = self.rt("Scope");
        let takes = |form| op.params.iter().any(|p| p.direction == Direction::In && self.form_of(p) == form);
        let (generic, reference) = (takes(Form::Generic), takes(Form::Reference));
        let has_inout = op.params.iter().any(|p| p.direction == Direction::InOut);
        let lifetime = if generic || reference { quote!('a) } else { quote!('_) };
        // The value of an `inout` view is sent with the other arguments, so it must live as long.
        let lifetimes = match (generic, has_inout) {
            (true, true) => quote!(<'a, 's: 'a>),
            _ if generic || reference => quote!(<'a, 's>),
            _ => quote!(<'s>),
        };
        let mut params = Vec::new();
        let mut arguments = Vec::new();
        let mut copies = TokenStream::new();
        let names = locals.params.clone();
        for (param, name) in op.params.iter().zip(&names) {
            match param.direction {
                Direction::Out => {}
                Direction::In => {
                    let ty = self.argument(&param.ty, &lifetime);
                    params.push(quote!(#name: #ty));
                    arguments.push(self.pass(param, quote!(#name)));
                }
                Direction::InOut => {
                    let ty = self.viewed(&param.ty, &quote!('s));
                    params.push(quote!(#name: &mut #ty));
                    arguments.push(match self.form_of(param) {
                        Form::View => {
                            let write =
                                self.encode(&self.shape(&param.ty), &Operand::view(quote!(#name)), &e);
                            quote!(&|#e| { let #name = *#name; #write })
                        }
                        // Copied first: its target outlives the view, which is replaced.
                        Form::Borrowed => {
                            let old = locals.fresh(&format!("old_{name}"));
                            copies.extend(quote!(let #old = *#name;));
                            quote!(#old)
                        }
                        _ => self.pass(param, quote!(*#name)),
                    });
                }
            }
        }
        let types = op.tuple().into_iter().map(|ty| self.received(ty, &quote!('s))).collect();
        let outcome = self.outcome(owner, op, tuple(types));
        let note = format!("Like [`Self::{}`], with results that borrow from `{scope}`.", methods.owned);
        let doc = self.operation_doc(op, &note);
        let invoke = quote!(#call(&self.0, #scope, #(#arguments),*));
        let body = if has_inout {
            let ok = self.std("Ok");
            let (pattern, assignments, values) = self.take_apart(op, &mut locals, &result, false);
            quote!(#copies let #pattern = #invoke?; #assignments #ok(#values))
        } else {
            invoke
        };
        quote! {
            #doc
            pub fn #name #lifetimes(&self, #scope: &'s #scope_ty<'s>, #(#params),*) -> #outcome { #body }
        }
    }

    /// A pattern for the returned values, statements that store the `inout` values, and the value
    /// of the method.
    fn take_apart(
        &self,
        op: &Op,
        locals: &mut Locals,
        result: &Ident,
        owned: bool,
    ) -> (TokenStream, TokenStream, TokenStream) {
        let convert = |shape: &Shape, name: &Ident| {
            if owned { self.to_owned(shape, &quote!(#name)) } else { quote!(#name) }
        };
        let mut pattern = Vec::new();
        let mut assignments = TokenStream::new();
        let mut values = Vec::new();
        if op.result != isorb_idl::model::Type::Void {
            pattern.push(result.clone());
            values.push(convert(&self.shape(&op.result), result));
        }
        let params = locals.params.clone();
        for (param, name) in op.params.iter().zip(&params) {
            let shape = self.shape(&param.ty);
            match param.direction {
                Direction::In => {}
                Direction::Out => {
                    pattern.push(name.clone());
                    values.push(convert(&shape, name));
                }
                Direction::InOut => {
                    let new = locals.fresh(&format!("new_{name}"));
                    let value = convert(&shape, &new);
                    assignments.extend(quote!(*#name = #value;));
                    pattern.push(new);
                }
            }
        }
        (tuple(pattern), assignments, tuple(values))
    }

    /// An argument of the function: references as objects, other types unchanged.
    pub(super) fn pass(&self, param: &OpParam, value: TokenStream) -> TokenStream {
        if self.form_of(param) != Form::Reference {
            return value;
        }
        let (arg, target) = (self.rt("RefArg"), self.handle(&self.shape(&param.ty)));
        quote!(#arg::<#target>::object_arg(#value))
    }

    fn form_of(&self, param: &OpParam) -> Form {
        self.form(&self.shape(&param.ty))
    }
}
