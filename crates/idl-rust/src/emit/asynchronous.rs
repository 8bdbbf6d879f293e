//! Calls that are begun and waited for later, if the output is to have them
//! ([`Options::asynchronous`](crate::Options)).

use super::operations::{Locals, tuple};
use crate::codec::Operand;
use crate::docs;
use crate::lowered::{Op, OpParam};
use crate::module::{Module, ident};
use crate::names::Methods;
use crate::shape::Shape;
use crate::types::Form;
use isorb_idl::model::{DefId, Direction};
use proc_macro2::{Ident, TokenStream};
use quote::quote;

/// The operation with `inout` parameters as `in`: their new values come with the results.
fn sent(op: &Op) -> impl Iterator<Item = (usize, &OpParam)> {
    op.params.iter().enumerate().filter(|(_, param)| param.direction != Direction::Out)
}

impl Module<'_, '_> {
    /// The functions of an operation in its interface's module: one begins the call, one reads the
    /// reply.
    pub(super) fn begin(&self, owner: DefId, op: &Op) -> TokenStream {
        if !self.r#gen.options.asynchronous || op.oneway {
            return TokenStream::new();
        }
        let names = self.r#gen.names.op(op);
        let locals = Locals::new(op, &["object", "e", "d", "id", "reply"]);
        let [object, e, d, id, reply] = locals.ours();
        let [object_ty, encoder, pending, result, reply_ty] =
            ["Object", "Encoder", "PendingCall", "Result", "Reply"].map(|name| self.rt(name));
        let (mut params, mut writes) = (Vec::new(), TokenStream::new());
        for (at, param) in sent(op) {
            let (name, shape) = (&locals.params[at], self.r#gen.analysis.shape(&param.ty));
            let form = self.form(&shape);
            params.push(match form {
                Form::Reference => {
                    let option = self.std("Option");
                    quote!(#name: #option<&'a #object_ty>)
                }
                _ => {
                    let ty = self.argument(&param.ty, &quote!('a));
                    quote!(#name: #ty)
                }
            });
            writes.extend(match form {
                Form::Generic if matches!(shape, Shape::Seq(..)) => {
                    let arg = self.rt("SeqArg");
                    quote!(#arg::encode_arg(&#name, #e);)
                }
                Form::Generic | Form::Reference => {
                    let encode = self.rt("Encode");
                    quote!(#encode::encode(#name, #e);)
                }
                _ => self.encode(&shape, &Operand::view(quote!(#name)), &e),
            });
        }
        let params = quote!(#(#params),*);
        let lifetime = super::records::mentions_lifetime(&params, "a").then(|| quote!('a));
        let of = lifetime.clone().unwrap_or_else(|| quote!('_));
        let lifetimes = lifetime.map(|lifetime| quote!(<#lifetime>));
        let e = if writes.is_empty() { quote!(_) } else { quote!(#e) };
        let [begin, read, operation] = [&names.begin, &names.read, &names.operation].map(|name| ident(name));
        let wire = docs::code(&op.wire);
        let begin_doc = errors(&format!("Begins a call of {wire}."), "Those that are known by then.");
        let read_doc = errors(
            &format!("Reads the reply to {wire}, with the new values of `inout` parameters."),
            "The errors of the reference's method.",
        );
        let outcome = self.outcome(owner, op, tuple(self.returned_types(op, &quote!('s))));
        let reading = self.read_reply(op, &d, &id);
        let reply_lifetime = quote!(<'s>);
        quote! {
            #begin_doc
            pub fn #begin #lifetimes(#object: &#object_ty, #params) -> #result<#pending> {
                #object.begin(&#operation, &|#e: &mut #encoder<#of>| { #writes })
            }
            #read_doc
            pub fn #read #reply_lifetime(#reply: #reply_ty<'s>) -> #outcome { #reply #reading }
        }
    }

    /// The function of an operation in its interface's module that sends a deferred reply.
    pub(super) fn reply(&self, op: &Op) -> TokenStream {
        if !self.r#gen.options.asynchronous || op.oneway {
            return TokenStream::new();
        }
        let names = self.r#gen.names.op(op);
        let locals = Locals::new(op, &["deferred", "e", "exception", "reply", "result"]);
        let [deferred, e, exception, reply, result_name] = locals.ours();
        let [deferred_ty, encoder, result, outcome, system] =
            ["Deferred", "Encoder", "Result", "Outcome", "SystemException"].map(|name| self.rt(name));
        let (ok, err) = (self.std("Ok"), self.std("Err"));
        let all = locals.returned(op, &result_name, |p| p.direction != Direction::In);
        let (mut types, mut writes) = (Vec::new(), TokenStream::new());
        for (name, ty) in all.iter().zip(op.returned()) {
            types.push(self.viewed(ty, &quote!('a)));
            writes.extend(self.encode(&self.shape(ty), &Operand::view(quote!(#name)), &e));
        }
        let given = tuple(all);
        let arms = op.raises.iter().zip(self.error_variants(op)).map(|(id, variant)| {
            let (ty, error, encode) = (self.item(*id), ident(&names.error), self.rt("Encode"));
            let value = match self.r#gen.analysis.borrows(&Shape::Record(*id)) {
                true => quote!(#exception),
                false => quote!(*#exception),
            };
            quote! {
                #err(#error::#variant(#exception)) => {
                    #e.string(#ty::ID);
                    #encode::encode(#value, #e);
                    #ok(#outcome::Exception)
                }
            }
        });
        let (error, system_arm) = if op.raises.is_empty() {
            (system, quote!(#err(#exception) => #err(#exception.clone())))
        } else {
            let error = ident(&names.error);
            (quote!(#error), quote!(#err(#error::System(#exception)) => #err(#exception.clone())))
        };
        let success = tuple(types);
        let unused = writes.is_empty() && op.raises.is_empty();
        let e = if unused { quote!(_) } else { quote!(#e) };
        let name = ident(&names.reply);
        let wire = docs::code(&op.wire);
        let doc = errors(
            &format!(
                "Sends the deferred reply to {wire}: the results, with the new values of `inout` parameters in \
                 the order of the IDL, or an exception."
            ),
            "As `Deferred::reply`.",
        );
        quote! {
            #doc
            pub fn #name<'a>(
                #deferred: #deferred_ty,
                #reply: #result<#success, &'a #error>,
            ) -> #result<()> {
                #deferred.reply(|#e: &mut #encoder<'a>| match #reply {
                    #ok(#given) => { #writes #ok(#outcome::Results) }
                    #(#arms)*
                    #system_arm,
                })
            }
        }
    }

    /// The methods of a reference for an operation: one returns the pending call, one is a future.
    pub(super) fn asynchronous_methods(&self, owner: DefId, op: &Op, methods: &Methods) -> TokenStream {
        if !self.r#gen.options.asynchronous || op.oneway {
            return TokenStream::new();
        }
        let mut locals = Locals::new(op, &["reply"]);
        let [reply] = locals.ours();
        let names = self.r#gen.names.op(op);
        let [begin_call, read] = [&names.begin, &names.read].map(|name| self.inside(owner, name));
        let [begin, future] = [&methods.begin, &methods.future].map(|name| ident(name));
        let named = sent(op)
            .any(|(_, param)| matches!(self.form(&self.shape(&param.ty)), Form::Generic | Form::Reference));
        let lifetime = if named { quote!('a) } else { quote!('_) };
        let lifetimes = named.then(|| quote!(<'a>));
        let (mut params, mut arguments, mut passed) = (Vec::new(), Vec::new(), Vec::new());
        for (at, param) in sent(op) {
            let name = locals.params[at].clone();
            let ty = self.argument(&param.ty, &lifetime);
            params.push(quote!(#name: #ty));
            arguments.push(self.pass(param, quote!(#name)));
            passed.push(name);
        }
        let returned = op.returned();
        let owned = tuple(returned.iter().map(|ty| self.owned(ty)).collect());
        let values: Vec<Ident> = (0..returned.len()).map(|at| locals.fresh(&format!("value_{at}"))).collect();
        let given = tuple(values.iter().map(|name| quote!(#name)).collect());
        let copies =
            values.iter().zip(&returned).map(|(name, ty)| self.to_owned(&self.shape(ty), &quote!(#name)));
        let copies = tuple(copies.collect());
        let borrows = returned.iter().any(|ty| self.r#gen.analysis.borrows(&self.shape(ty)));
        let ok = self.std("Ok");
        let reading = if borrows {
            quote!(|#reply| { let #given = #read(#reply)?; #ok(#copies) })
        } else {
            quote!(#read)
        };
        let [result_ty, pending] = ["Result", "Pending"].map(|name| self.rt(name));
        let error = (!op.raises.is_empty()).then(|| {
            let error = self.inside(owner, &names.error);
            quote!(, #error)
        });
        let outcome = self.outcome(owner, op, owned.clone());
        let note = format!(
            "Begins [`Self::{}`], without waiting. The results have the new values of `inout` parameters \
             among those of `out` parameters.",
            methods.owned
        );
        let begin_doc = self.operation_doc(op, &note);
        let future_doc = self.operation_doc(op, &format!("[`Self::{}`] as a future.", methods.owned));
        quote! {
            #begin_doc
            pub fn #begin #lifetimes(&self, #(#params),*) -> #result_ty<#pending<#owned #error>> {
                #ok(#pending::new(#begin_call(&self.0, #(#arguments),*)?, #reading))
            }
            #future_doc
            pub async fn #future #lifetimes(&self, #(#params),*) -> #outcome {
                self.#begin(#(#passed),*)?.await
            }
        }
    }
}

fn errors(what: &str, which: &str) -> TokenStream {
    docs::doc(&[what.to_owned(), String::new(), "# Errors".to_owned(), which.to_owned()])
}
