//! Rust modules of generated code: paths from one module to items of another, and imports.

use crate::names::{Names, Space};
use crate::options::Options;
use crate::shape::Analysis;
use isorb_idl::model::{DefId, DefKind, Spec};
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// A name as a token.
pub(crate) fn ident(name: &str) -> Ident {
    format_ident!("{name}")
}

/// Precomputed input of the generation.
#[derive(Debug)]
pub(crate) struct Gen<'s> {
    pub spec: &'s Spec,
    pub options: &'s Options,
    pub analysis: Analysis<'s>,
    pub names: Names,
}

impl<'s> Gen<'s> {
    pub fn new(spec: &'s Spec, options: &'s Options) -> Self {
        let analysis = Analysis::new(spec);
        let names = Names::new(spec, &analysis);
        Gen { spec, options, analysis, names }
    }

    /// The path of an IDL module that another crate (or the run-time) already has.
    pub fn external(&self, id: DefId) -> Option<&'s str> {
        matches!(self.spec[id].kind, DefKind::Module)
            .then(|| self.options.external(&self.spec.scoped_name(id), self.is_standard(id)))
            .flatten()
    }

    /// Whether all of a module comes from included files, that of module CORBA from the ORB's own
    /// orb.idl: InterfaceRepository.idl adds to it what `isorb::corba` does not have.
    fn is_standard(&self, id: DefId) -> bool {
        let standard = |id: &DefId| {
            let file = self.spec.file(self.spec[*id].location.file);
            file.is_standard && file.path.ends_with("orb.idl")
        };
        let definition = &self.spec[id];
        !definition.in_main_file && (definition.name != "CORBA" || definition.contents.iter().all(standard))
    }

    /// The Rust module for the contents of `scope`: the external path if it is not in this output,
    /// and its path there.
    pub fn place(&self, scope: Option<DefId>) -> (Option<&'s str>, Vec<&str>) {
        let mut path = Vec::new();
        let mut at = scope;
        while let Some(id) = at {
            if let Some(root) = self.external(id) {
                path.reverse();
                return (Some(root), path);
            }
            path.push(self.names.item(id).module.as_str());
            at = self.spec[id].parent;
        }
        path.reverse();
        (None, path)
    }
}

/// A Rust module under construction.
#[derive(Debug)]
pub(crate) struct Module<'g, 's> {
    pub r#gen: &'g Gen<'s>,
    path: Vec<&'g str>,
    /// `None` at the top of the output, which is included into a module of the user and must not
    /// import anything.
    space: Option<&'g Space>,
    imports: RefCell<BTreeSet<&'static str>>,
}

impl<'g, 's> Module<'g, 's> {
    /// The module for the contents of `scope`.
    pub fn new(r#gen: &'g Gen<'s>, scope: Option<DefId>) -> Self {
        let space = scope.map(|_| r#gen.names.space(scope));
        Module { r#gen, path: r#gen.place(scope).1, space, imports: RefCell::default() }
    }

    /// An item of the run-time, imported if its name is free here.
    pub fn rt(&self, name: &'static str) -> TokenStream {
        let ident = ident(name);
        match self.space {
            Some(space) if !space.contains(name) => {
                self.imports.borrow_mut().insert(name);
                quote!(#ident)
            }
            _ => quote!(::isorb::generated::#ident),
        }
    }

    /// An item of the prelude, by its full path if its name is used here.
    pub fn std(&self, name: &'static str) -> TokenStream {
        let bare = ident(name);
        if self.space.is_some_and(|space| !space.contains(name)) {
            return quote!(#bare);
        }
        match name {
            "Option" => quote!(::core::option::Option),
            "Some" => quote!(::core::option::Option::Some),
            "None" => quote!(::core::option::Option::None),
            "Ok" => quote!(::core::result::Result::Ok),
            "Err" => quote!(::core::result::Result::Err),
            "String" => quote!(::std::string::String),
            "Vec" => quote!(::std::vec::Vec),
            "From" => quote!(::core::convert::From),
            "Send" => quote!(::core::marker::Send),
            "Sync" => quote!(::core::marker::Sync),
            "Sized" => quote!(::core::marker::Sized),
            "Fn" => quote!(::core::ops::Fn),
            name => unreachable!("{name} is not among the names that generated code takes from the prelude"),
        }
    }

    /// The `use` for all requested items so far.
    pub fn imports(&self) -> TokenStream {
        let imports = self.imports.borrow();
        let mut names: Vec<Ident> = imports.iter().map(|name| ident(name)).collect();
        match names.len() {
            0 => TokenStream::new(),
            1 => {
                let name = names.remove(0);
                quote!(use ::isorb::generated::#name;)
            }
            _ => quote!(use ::isorb::generated::{#(#names),*};),
        }
    }

    /// A definition: type, trait, constant.
    pub fn item(&self, id: DefId) -> TokenStream {
        match self.r#gen.spec[id].kind {
            DefKind::Enumerator(ref e) => {
                let of = self.item(e.enum_);
                let name = ident(&self.r#gen.names.item(id).name);
                quote!(#of::#name)
            }
            _ => self.path(self.r#gen.spec[id].parent, &self.r#gen.names.item(id).name),
        }
    }

    /// The view of a definition.
    pub fn view(&self, id: DefId) -> TokenStream {
        self.path(self.r#gen.spec[id].parent, &self.r#gen.names.item(id).view)
    }

    /// The reference type of an interface.
    pub fn reference(&self, id: DefId) -> TokenStream {
        self.path(self.r#gen.spec[id].parent, &self.r#gen.names.item(id).reference)
    }

    /// The item of that name beside a definition.
    pub fn beside(&self, id: DefId, name: &str) -> TokenStream {
        self.path(self.r#gen.spec[id].parent, name)
    }

    /// The item of that name in the module of a definition.
    pub fn inside(&self, id: DefId, name: &str) -> TokenStream {
        self.path(Some(id), name)
    }

    /// The path to `name` in the Rust module for the contents of `scope`.
    fn path(&self, scope: Option<DefId>, name: &str) -> TokenStream {
        let name = ident(name);
        let (root, to) = self.r#gen.place(scope);
        if let Some(root) = root {
            let root: TokenStream = root.parse().unwrap_or_default();
            let to = to.iter().map(|part| ident(part));
            return quote!(#root::#(#to::)*#name);
        }
        let common = self.path.iter().zip(&to).take_while(|(a, b)| a == b).count();
        let up = self.path[common..].iter().map(|_| ident("super"));
        let down = to[common..].iter().map(|part| ident(part));
        quote!(#(#up::)*#(#down::)*#name)
    }
}
