//! From the syntax tree to the model: names, types, constants, and the rules between them.
//!
//! IDL requires declaration before use, so one pass in order of declaration is enough. The pass
//! reports each error and continues with a valid substitute. The model is returned only if there
//! was no error.

mod annotation;
mod arithmetic;
mod constant;
mod constructed;
mod fixed;
mod ids;
mod interface;
mod lookup;
mod scope;
mod types;
mod union;
mod value;

use crate::diagnostic::{Diagnostics, Report};
use crate::limits;
use crate::model::{DefId, DefKind, Definition, Spec};
use crate::pp::Token;
use crate::source::{SourceMap, Span};
use crate::syntax::ast::{Attrs, Decl, DeclKind, Ident, ImportTarget, Item, ScopedName};
use scope::{Scope, ScopeId, ScopeKind, Symbol};
use std::rc::Rc;

/// Builds the model.
pub(crate) fn resolve(
    items: &[Item],
    pragmas: &[Vec<Token>],
    sources: &SourceMap,
    diagnostics: &mut Diagnostics,
) -> Spec {
    let files = sources.files().to_vec();
    let mut resolver = Resolver {
        spec: Spec { files, ..Spec::default() },
        infos: Vec::new(),
        scopes: vec![Scope::new(ScopeKind::File, None, None)],
        stack: vec![ScopeId::FILE],
        prefix: "".into(),
        file_prefixes: Vec::new(),
        early_versions: Vec::new(),
        pragmas,
        sources,
        diagnostics,
        full: false,
    };
    resolver.items(items);
    resolver.assign_early_versions();
    resolver.check_forwards();
    resolver.assign_ids();
    resolver.spec
}

struct Resolver<'a> {
    spec: Spec,
    /// Properties of definitions that are not part of the model, by index.
    infos: Vec<Info>,
    scopes: Vec<Scope>,
    /// The open scopes; the file scope is first.
    stack: Vec<ScopeId>,
    /// The repository id prefix that applies here.
    prefix: Rc<str>,
    /// The prefixes of the including files.
    file_prefixes: Vec<Rc<str>>,
    /// `#pragma version` of names that are not defined yet, with the scopes around them.
    early_versions: Vec<(Vec<ScopeId>, ScopedName, Token)>,
    pragmas: &'a [Vec<Token>],
    sources: &'a SourceMap,
    diagnostics: &'a mut Diagnostics,
    /// The limit of definitions was reached and reported.
    full: bool,
}

/// Properties of a definition that are not in the model.
struct Info {
    span: Span,
    scope: Option<ScopeId>,
    /// The definition has been seen, not only a forward declaration of it.
    complete: bool,
    /// Its definition has begun.
    open: bool,
    /// Cannot leave the process: a local interface, a native, or a type that contains one.
    local: bool,
    /// The nesting depth of its types.
    depth: u32,
    /// Structs and unions that were not complete when a sequence of them became part of this one.
    /// Until they are, it is not complete for signatures either.
    waits: Vec<DefId>,
    /// All direct and indirect bases.
    bases: Vec<DefId>,
    ids: ids::Ids,
}

impl Resolver<'_> {
    fn items(&mut self, items: &[Item]) {
        for item in items {
            match item {
                Item::Decl(decl) => self.decl(decl),
                item => self.event(item),
            }
        }
    }

    /// Markers between declarations: pragmas and changes of file.
    fn event(&mut self, item: &Item) {
        match item {
            Item::Pragma(index) => self.pragma(*index),
            Item::FileBegin => {
                self.file_prefixes.push(std::mem::replace(&mut self.prefix, "".into()));
            }
            Item::FileEnd => {
                if let Some(prefix) = self.file_prefixes.pop() {
                    self.prefix = prefix;
                }
            }
            Item::Decl(_) => {}
        }
    }

    fn decl(&mut self, decl: &Decl) {
        let attrs = &decl.attrs;
        match &decl.kind {
            DeclKind::Module { name, items } => self.module(attrs, name, items),
            DeclKind::Interface { flavor, name, bases, items } => {
                self.interface(attrs, *flavor, name, bases, items)
            }
            DeclKind::InterfaceForward { flavor, name } => {
                self.interface_forward(attrs, *flavor, name);
            }
            DeclKind::Value(value) => self.value(attrs, value),
            DeclKind::ValueForward { abstract_, name } => {
                self.value_forward(attrs, *abstract_, name);
            }
            DeclKind::ValueBox { name, boxed } => self.value_box(attrs, name, boxed),
            DeclKind::StructForward { name } | DeclKind::UnionForward { name } => {
                self.constructed_forward(attrs, name, matches!(decl.kind, DeclKind::UnionForward { .. }));
            }
            DeclKind::Struct { .. } | DeclKind::Union(_) | DeclKind::Enum { .. } => {
                self.constructed(attrs, &decl.kind);
            }
            DeclKind::Exception { name, members } => self.exception(attrs, name, members),
            DeclKind::Typedef { ty, declarators } => self.typedef(attrs, ty, declarators),
            DeclKind::Const { ty, name, value } => self.constant(attrs, ty, name, value),
            DeclKind::Native { name } => {
                let id = self.define(attrs, name, DefKind::Native);
                self.info(id).local = !self.is_builtin(id);
            }
            DeclKind::Operation(operation) => self.operation(attrs, operation),
            DeclKind::Attribute(attribute) => self.attribute(attrs, attribute),
            // The valuetype that contains them handles them.
            DeclKind::State { .. } | DeclKind::Factory { .. } | DeclKind::Members { .. } => {}
            DeclKind::TypeId { target, id } => self.type_id(target, id),
            DeclKind::TypePrefix { target, prefix } => self.type_prefix(target, prefix),
            DeclKind::Import { target } => self.import(target),
        }
    }

    fn module(&mut self, attrs: &Attrs, name: &Ident, items: &[Item]) {
        let id = match self.reopen(name, |kind| matches!(kind, DefKind::Module)) {
            Some(id) => {
                let main = self.is_main(name.span);
                let doc = attrs.doc.as_deref().map(str::to_owned);
                let def = &mut self.spec.defs[id.index()];
                def.in_main_file |= main;
                def.doc = def.doc.take().or(doc);
                id
            }
            None => self.define(attrs, name, DefKind::Module),
        };
        self.info(id).complete = true;
        self.within(id, ScopeKind::Module, |r| r.items(items));
    }

    fn import(&mut self, target: &ImportTarget) {
        // There is no repository to import from: imported definitions must be part of this
        // compilation.
        match target {
            ImportTarget::Name(name) => {
                self.find(name);
            }
            ImportTarget::Id(literal) => {
                let Some((id, _)) = crate::syntax::literal::string(&literal.tokens, self.diagnostics) else {
                    return;
                };
                let known = (0..self.spec.defs.len()).any(|i| self.repository_id(DefId(i as u32)) == id);
                if !known {
                    let report =
                        Report::error(literal.span, format!("nothing here has the repository id `{id}`"));
                    self.diagnostics.push(report.hint("`#include` the file that defines it"));
                }
            }
        }
    }

    /// Makes a definition in the current scope and declares its name there.
    fn define(&mut self, attrs: &Attrs, name: &Ident, kind: DefKind) -> DefId {
        let id = self.add(attrs, name, kind);
        self.declare(name, Symbol::Def(id));
        self.list(id);
        id
    }

    /// Makes a definition without declaring its name.
    fn add(&mut self, attrs: &Attrs, name: &Ident, kind: DefKind) -> DefId {
        if self.spec.defs.len() >= limits::DEFINITIONS && !std::mem::replace(&mut self.full, true) {
            self.diagnostics.error(name.span, "there are too many definitions");
        }
        let id = DefId(self.spec.defs.len() as u32);
        let annotations = self.annotations(&attrs.annotations);
        self.spec.defs.push(Definition {
            name: name.name.to_string(),
            repository_id: String::new(),
            parent: self.owner(),
            contents: Vec::new(),
            location: self.sources.locate(name.span),
            in_main_file: self.is_main(name.span),
            doc: attrs.doc.as_deref().map(str::to_owned),
            annotations,
            kind,
        });
        self.infos.push(Info {
            span: name.span,
            scope: None,
            complete: false,
            open: false,
            local: false,
            depth: 0,
            waits: Vec::new(),
            bases: Vec::new(),
            ids: ids::Ids::at(self.prefix.clone()),
        });
        id
    }

    /// Enters a definition into the contents of its scope.
    fn list(&mut self, id: DefId) {
        match self.spec[id].parent {
            Some(parent) => self.spec.defs[parent.index()].contents.push(id),
            None => self.spec.roots.push(id),
        }
    }

    /// The full definition after a forward declaration; from now on its location is this one.
    fn complete_forward(&mut self, id: DefId, attrs: &Attrs, name: &Ident) {
        let annotations = self.annotations(&attrs.annotations);
        let (location, in_main_file) = (self.sources.locate(name.span), self.is_main(name.span));
        let doc = attrs.doc.as_deref().map(str::to_owned);
        let def = &mut self.spec.defs[id.index()];
        (def.location, def.in_main_file) = (location, in_main_file);
        def.doc = doc.or(def.doc.take());
        def.annotations.extend(annotations);
        let prefix = self.prefix.clone();
        let info = self.info(id);
        info.span = name.span;
        info.ids.prefix = prefix;
    }

    /// Runs `body` in the scope of a definition.
    fn within<T>(&mut self, id: DefId, kind: ScopeKind, body: impl FnOnce(&mut Self) -> T) -> T {
        let scope = match self.info(id).scope {
            Some(scope) => scope,
            None => {
                let scope = self.new_scope(kind, Some(id));
                self.info(id).scope = Some(scope);
                scope
            }
        };
        self.in_scope(scope, body)
    }

    fn in_scope<T>(&mut self, scope: ScopeId, body: impl FnOnce(&mut Self) -> T) -> T {
        let prefix = self.prefix.clone();
        let files = self.file_prefixes.len();
        self.stack.push(scope);
        let result = body(self);
        self.stack.pop();
        // An included file that ends inside a scope that it did not open has set its own prefix
        // back.
        if self.file_prefixes.len() == files {
            self.prefix = prefix;
        }
        result
    }

    /// The definition with this scope.
    fn owner(&self) -> Option<DefId> {
        self.stack.iter().rev().find_map(|&s| self.scopes[s.index()].owner)
    }

    fn info(&mut self, id: DefId) -> &mut Info {
        &mut self.infos[id.index()]
    }

    fn span(&self, id: DefId) -> Span {
        self.infos[id.index()].span
    }

    fn name(&self, id: DefId) -> String {
        self.spec.scoped_name(id)
    }

    fn is_main(&self, span: Span) -> bool {
        self.sources.written(span).file.index() == 0
    }

    /// Its kind, for messages.
    fn what(&self, id: DefId) -> &'static str {
        match self.spec[id].kind {
            DefKind::Module => "a module",
            DefKind::Interface(_) => "an interface",
            DefKind::Value(_) => "a valuetype",
            DefKind::ValueBox(_) => "a boxed valuetype",
            DefKind::Struct(_) => "a struct",
            DefKind::Union(_) => "a union",
            DefKind::Enum(_) => "an enum",
            DefKind::Enumerator(_) => "an enumerator",
            DefKind::Exception(_) => "an exception",
            DefKind::Typedef(_) => "a typedef",
            DefKind::Const(_) => "a constant",
            DefKind::Native => "a native type",
            DefKind::Operation(_) => "an operation",
            DefKind::Attribute(_) => "an attribute",
        }
    }

    /// Reports forward declarations that have no definition at the end of the specification.
    fn check_forwards(&mut self) {
        for index in 0..self.spec.defs.len() {
            let id = DefId(index as u32);
            if self.infos[index].complete || self.is_builtin(id) {
                continue;
            }
            let (span, name) = (self.span(id), self.name(id));
            let report = match self.spec[id].kind {
                DefKind::Struct(_) | DefKind::Union(_) if !self.infos[index].open => {
                    Report::error(span, format!("`{name}` is declared here but never defined"))
                }
                // References to it can be passed on without knowing its operations.
                DefKind::Interface(_) | DefKind::Value(_) if !self.infos[index].open => {
                    Report::warning(span, format!("`{name}` is declared here but never defined"))
                }
                _ => continue,
            };
            self.diagnostics.push(report);
        }
    }
}
