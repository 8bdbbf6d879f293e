//! Valuetypes and boxed values: a handle, its state, and the code that writes and reads the state.

use crate::codec::Operand;
use crate::docs;
use crate::module::{Module, ident};
use crate::shape::Shape;
use crate::types::number;
use isorb_idl::model::{DefId, DefKind, StateMember, Type, Value};
use proc_macro2::{Ident, TokenStream};
use quote::quote;

impl Module<'_, '_> {
    pub(super) fn value(&self, id: DefId) -> TokenStream {
        let spec = self.r#gen.spec;
        let names = self.r#gen.names.item(id);
        let (name, state) = (ident(&names.name), ident(&names.state));
        let scoped = spec.scoped_name(id);
        let doc = docs::doc(&docs::item_with_id(spec, id, &format!("valuetype {scoped}")));
        let derives = self.value_derives(id);
        let [shared, part] = ["Shared", "Part"].map(|name| self.rt(name));
        let (target, deref) = match &spec[id].kind {
            DefKind::ValueBox(boxed) => (self.owned(&boxed.boxed), quote!(&self.0.part().0)),
            _ => (quote!(#state), quote!(self.0.part())),
        };
        let definition = match &spec[id].kind {
            DefKind::ValueBox(boxed) => self.boxed(id, &name, &state, &boxed.boxed),
            DefKind::Value(value) => self.state(id, value, &name, &state),
            _ => TokenStream::new(),
        };
        quote! {
            #doc
            ///
            /// A shared, read-only value.
            #[derive(#derives)]
            pub struct #name(#shared<dyn #part<#state>>);
            impl ::core::ops::Deref for #name {
                type Target = #target;
                fn deref(&self) -> &#target { #deref }
            }
            #definition
        }
    }

    /// What can be derived for the state: nothing of it where something local is in it.
    fn value_derives(&self, id: DefId) -> TokenStream {
        if self.is_local_value(id) { quote!(Clone) } else { quote!(Clone, Debug, PartialEq) }
    }

    fn is_local_value(&self, id: DefId) -> bool {
        self.r#gen.spec.member_types(id).into_iter().any(|ty| self.r#gen.analysis.is_local(ty))
    }

    /// The state of a boxed value: what is in the box.
    fn boxed(&self, id: DefId, name: &Ident, state: &Ident, ty: &Type) -> TokenStream {
        let owned = self.owned(ty);
        let derives = self.value_derives(id);
        let doc = docs::line(format!("The state of a [`{name}`]."));
        let from = self.std("From");
        let codec = if self.is_local_value(id) {
            self.local_codec(state)
        } else {
            let write = self.encode(&self.shape_of(ty), &Operand::owned(quote!(self.0)), &ident("e"));
            let read = self.read_owned(ty);
            let ok = self.std("Ok");
            self.state_impl(state, &write, &quote!(#ok(Self(#read))))
        };
        let repository_id = &self.r#gen.spec[id].repository_id;
        let none = self.std("None");
        quote! {
            #doc #[derive(#derives)] pub struct #state(pub #owned);
            impl #from<#owned> for #name {
                fn from(boxed: #owned) -> Self { Self::from(#state(boxed)) }
            }
            ::isorb::value!(#name, #state, &[#repository_id], false, false, |_| #none, []);
            #codec
        }
    }

    fn state(&self, id: DefId, value: &Value, name: &Ident, state: &Ident) -> TokenStream {
        let spec = self.r#gen.spec;
        let doc = docs::line(format!("The state of a [`{name}`]."));
        let derives = self.value_derives(id);
        let all = &self.r#gen.names.item(id).members;
        let own = all[all.len() - value.members.len()..].iter().map(|name| ident(name));
        let fields: Vec<(Ident, &StateMember)> = own.zip(&value.members).collect();
        let members = fields.iter().map(|(field, m)| {
            let (doc, ty) = (self.member_doc(&m.member), self.member_type(&m.member.ty));
            quote!(#doc pub #field: #ty)
        });
        let derived = self.derived_types(id);
        let ids = self.truncatable_ids(id);
        if value.abstract_ {
            return quote! {
                #doc #[derive(#derives)] pub struct #state {}
                ::isorb::value!(#name, #state, #ids, #derived);
            };
        }
        let base_field = base_field(all);
        let base = value.base.map(|base| {
            let base_state = self.state_path(base);
            let doc = docs::line("The inherited state.");
            quote!(#doc pub #base_field: #base_state,)
        });
        let deref = value.base.map(|base| {
            let base_state = self.state_path(base);
            quote! {
                impl ::core::ops::Deref for #state {
                    type Target = #base_state;
                    fn deref(&self) -> &#base_state { &self.#base_field }
                }
            }
        });
        let codec = self.state_codec(id, value, state, &base_field, &fields);
        let parts = spec.all_bases(id).into_iter().filter_map(|base| self.base_part(id, base));
        let (custom, chunked) = (value.custom, value.custom || value.truncatable);
        quote! {
            #doc #[derive(#derives)] pub struct #state { #base #(#members),* }
            #deref
            ::isorb::value!(#name, #state, #ids, #custom, #chunked, #derived, [#(#parts),*]);
            #codec
        }
    }

    /// The entry of a base in `value!`: its type, its state, and where that is.
    fn base_part(&self, id: DefId, base: DefId) -> Option<TokenStream> {
        let DefKind::Value(value) = &self.r#gen.spec[base].kind else { return None };
        let (name, state) = (self.item(base), self.state_path(base));
        if value.abstract_ {
            return Some(quote!((#name, #state, |_| &#state {})));
        }
        let mut path = quote!(state);
        let mut at = id;
        while at != base {
            let field = base_field(&self.r#gen.names.item(at).members);
            path = quote!(#path.#field);
            at = match &self.r#gen.spec[at].kind {
                DefKind::Value(Value { base: Some(next), .. }) => *next,
                _ => return None,
            };
        }
        Some(quote!((#name, #state, |state| &#path)))
    }

    fn state_codec(
        &self,
        id: DefId,
        value: &Value,
        state: &Ident,
        base_field: &Ident,
        fields: &[(Ident, &StateMember)],
    ) -> TokenStream {
        if value.custom {
            let marshal = self.rt("CustomMarshal");
            let write = quote!(#marshal::marshal(self, e););
            return self.state_impl(state, &write, &quote!(<Self as #marshal>::unmarshal(d)));
        }
        if self.is_local_value(id) {
            return self.local_codec(state);
        }
        let value_state = self.rt("ValueState");
        let base = value.base.map(|base| (base_field, self.state_path(base)));
        let write_base = base.as_ref().map(|(field, _)| quote!(#value_state::encode_state(&self.#field, e);));
        let read_base =
            base.as_ref().map(|(field, base)| quote!(#field: <#base as #value_state>::decode_state(d)?,));
        let writes = fields.iter().map(|(field, m)| self.write_member(&m.member.ty, &quote!(self.#field)));
        let reads = fields.iter().map(|(field, m)| {
            let read = self.read_member(&m.member.ty);
            quote!(#field: #read)
        });
        let write = quote!(#write_base #(#writes)*);
        let ok = self.std("Ok");
        self.state_impl(state, &write, &quote!(#ok(Self { #read_base #(#reads),* })))
    }

    /// `write` are statements with the encoder `e`, `read` is a `Result` from the decoder `d`.
    fn state_impl(&self, state: &Ident, write: &TokenStream, read: &TokenStream) -> TokenStream {
        let [value_state, encoder, decoder, result] =
            ["ValueState", "Encoder", "Decoder", "CdrResult"].map(|name| self.rt(name));
        let e = ident(if uses(write, "e") { "e" } else { "_" });
        let d = ident(if uses(read, "d") { "d" } else { "_" });
        quote! {
            impl #value_state for #state {
                fn encode_state<'v>(&'v self, #e: &mut #encoder<'v>) { #write }
                fn decode_state(#d: &mut #decoder<'_>) -> #result<Self> { #read }
            }
        }
    }

    /// For a state with something local in it, which cannot be sent.
    fn local_codec(&self, state: &Ident) -> TokenStream {
        let [value_state, encoder, decoder, result, kind] =
            ["ValueState", "Encoder", "Decoder", "CdrResult", "CdrErrorKind"].map(|name| self.rt(name));
        let err = self.std("Err");
        quote! {
            impl #value_state for #state {
                fn encode_state<'v>(&'v self, e: &mut #encoder<'v>) { e.fail(#kind::NotRemotable); }
                fn decode_state(d: &mut #decoder<'_>) -> #result<Self> { #err(d.error(#kind::NotRemotable)) }
            }
        }
    }

    fn shape_of(&self, ty: &Type) -> Shape {
        self.r#gen.analysis.shape(ty)
    }

    /// The state type of a valuetype.
    fn state_path(&self, id: DefId) -> TokenStream {
        self.beside(id, &self.r#gen.names.item(id).state)
    }

    /// Its repository id, and those of the bases to which it may be truncated.
    fn truncatable_ids(&self, id: DefId) -> TokenStream {
        let spec = self.r#gen.spec;
        let mut ids = vec![&spec[id].repository_id];
        let mut at = id;
        while let DefKind::Value(Value { truncatable: true, base: Some(base), .. }) = &spec[at].kind {
            at = *base;
            ids.push(&spec[at].repository_id);
        }
        quote!(&[#(#ids),*])
    }

    /// A function from the repository id to the type, for what derives from this one here.
    fn derived_types(&self, id: DefId) -> TokenStream {
        let spec = self.r#gen.spec;
        let [none, some] = ["None", "Some"].map(|name| self.std(name));
        let value = self.rt("Value");
        let arms: Vec<TokenStream> = spec
            .definitions()
            .filter(|(other, definition)| {
                matches!(&definition.kind, DefKind::Value(value) if !value.abstract_ && value.defined)
                    && *other != id
                    && self.r#gen.place(definition.parent).0.is_none()
                    && spec.all_bases(*other).contains(&id)
            })
            .map(|(other, definition)| {
                let (name, repository_id) = (self.item(other), &definition.repository_id);
                quote!(#repository_id => #some(<#name as #value>::value_type()),)
            })
            .collect();
        if arms.is_empty() { quote!(|_| #none) } else { quote!(|id| match id { #(#arms)* _ => #none }) }
    }

    /// The type of a member of a state: as elsewhere, but values are links.
    fn member_type(&self, ty: &Type) -> TokenStream {
        let shape = self.shape_of(ty);
        if links(&shape) { self.link_type(&shape) } else { self.owned(ty) }
    }

    fn link_type(&self, shape: &Shape) -> TokenStream {
        match shape {
            Shape::Seq(element, _) => {
                let (vec, element) = (self.std("Vec"), self.link_type(element));
                quote!(#vec<#element>)
            }
            Shape::Array(element, n) => {
                let (element, n) = (self.link_type(element), number((*n).into()));
                quote!([#element; #n])
            }
            shape => {
                let (link, target) = (self.rt("Link"), self.handle(shape));
                quote!(#link<#target>)
            }
        }
    }

    /// A statement that writes a member.
    fn write_member(&self, ty: &Type, member: &TokenStream) -> TokenStream {
        let shape = self.shape_of(ty);
        if links(&shape) {
            return self.write_links(&shape, member);
        }
        self.encode(&shape, &Operand::owned(member.clone()), &ident("e"))
    }

    fn write_links(&self, shape: &Shape, items: &TokenStream) -> TokenStream {
        let item = quote!(item);
        match shape {
            Shape::Seq(element, bound) => {
                let each = self.write_links(element, &item);
                let check = bound.map(|n| {
                    let n = number(n.into());
                    quote!(e.check_bound(#items.len(), #n);)
                });
                quote!(#check e.count(#items.len()); for item in &#items { #each })
            }
            Shape::Array(element, _) => {
                let each = self.write_links(element, &item);
                quote!(for item in &#items { #each })
            }
            _ => quote!(#items.encode(e);),
        }
    }

    /// An expression that reads a member; it may return with `?`.
    fn read_member(&self, ty: &Type) -> TokenStream {
        let shape = self.shape_of(ty);
        if links(&shape) { self.read_links(&shape) } else { self.read_owned(ty) }
    }

    fn read_links(&self, shape: &Shape) -> TokenStream {
        match shape {
            Shape::Seq(element, bound) => {
                let (vec, each) = (self.std("Vec"), self.read_links(element));
                let check = bound.map(|n| {
                    let n = number(n.into());
                    quote!(d.check_bound(n, #n)?;)
                });
                let min = number(self.r#gen.analysis.min_wire(element).max(1));
                quote!({
                    let n = d.count(#min)?;
                    #check
                    let mut items = #vec::new();
                    for _ in 0..n { items.push(#each); }
                    items
                })
            }
            Shape::Array(element, _) => {
                let read_array = self.rt("read_array");
                let each = match &**element {
                    Shape::Seq(..) | Shape::Array(..) => {
                        let (ok, each) = (self.std("Ok"), self.read_links(element));
                        quote!(|d| #ok(#each))
                    }
                    element => self.link_reader(element),
                };
                quote!(#read_array(d, #each)?)
            }
            shape => {
                let read = self.link_reader(shape);
                quote!(#read(d)?)
            }
        }
    }

    /// The function that reads a link.
    fn link_reader(&self, shape: &Shape) -> TokenStream {
        let (link, target) = (self.rt("Link"), self.handle(shape));
        quote!(#link::<#target>::decode)
    }

    /// An expression that reads an owned value; it may return with `?`.
    fn read_owned(&self, ty: &Type) -> TokenStream {
        let shape = self.shape_of(ty);
        let d = ident("d");
        match &shape {
            Shape::Text { wide: false, bound: None } => quote!(d.string_owned()?),
            Shape::Text { wide: true, bound: None } => quote!(d.wstring_owned()?),
            shape => {
                let view = self.viewed(ty, &quote!('_));
                let read = self.decode(shape, &d);
                let owned = self.to_owned(shape, &quote!(view));
                quote!({ let view: #view = #read; #owned })
            }
        }
    }
}

/// Whether a member of this type is a link, or links in sequences and arrays.
fn links(shape: &Shape) -> bool {
    match shape {
        Shape::Value(_) | Shape::ValueBase => true,
        Shape::Seq(element, _) | Shape::Array(element, _) => links(element),
        _ => false,
    }
}

/// The field for the inherited state; `members` are the names of all members.
fn base_field(members: &[String]) -> Ident {
    let mut name = String::from("base");
    while members.contains(&name) {
        name.push('_');
    }
    ident(&name)
}

fn uses(code: &TokenStream, name: &str) -> bool {
    use proc_macro2::TokenTree;
    code.clone().into_iter().any(|tree| match tree {
        TokenTree::Ident(ident) => ident == name,
        TokenTree::Group(group) => uses(&group.stream(), name),
        _ => false,
    })
}
