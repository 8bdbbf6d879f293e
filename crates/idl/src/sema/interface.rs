//! Interfaces, inheritance, operations, attributes (CORBA 3.3 part 1, clauses 7.8, 7.13 and 7.14).

use super::Resolver;
use super::scope::{ScopeKind, Symbol};
use super::types::TypeContext;
use crate::diagnostic::Report;
use crate::limits;
use crate::model::{Attribute, DefId, DefKind, Direction, Interface, Operation, Param, Type};
use crate::rule::Rule;
use crate::source::Span;
use crate::syntax::ast::{
    AttributeDecl, Attrs, Flavor, Ident, Item, OperationDecl, ParamDecl, ScopedName, StringLiteral, TypeExpr,
    TypeKind,
};
use crate::syntax::literal;
use std::collections::HashMap;

impl Resolver<'_> {
    pub(super) fn interface_forward(&mut self, attrs: &Attrs, flavor: Flavor, name: &Ident) -> DefId {
        match self.reopen(name, |kind| matches!(kind, DefKind::Interface(_))) {
            Some(id) => {
                self.check_flavor(id, flavor, name);
                id
            }
            None => {
                let id = self.define(attrs, name, undefined(flavor));
                self.info(id).local = flavor == Flavor::Local && !self.is_builtin(id);
                id
            }
        }
    }

    /// All declarations of an interface agree on `local` and `abstract`.
    fn check_flavor(&mut self, id: DefId, flavor: Flavor, name: &Ident) {
        let DefKind::Interface(before) = &self.spec[id].kind else { return };
        if (before.local, before.abstract_) != (flavor == Flavor::Local, flavor == Flavor::Abstract) {
            let word = |local, abstract_| match (local, abstract_) {
                (true, _) => "local",
                (_, true) => "abstract",
                _ => "neither local nor abstract",
            };
            let message =
                format!("`{}` was declared {} before", name.name, word(before.local, before.abstract_));
            let report = Report::error(name.span, message).also(self.span(id), "previous declaration");
            self.diagnostics.push(report);
        }
    }

    pub(super) fn interface(
        &mut self,
        attrs: &Attrs,
        flavor: Flavor,
        name: &Ident,
        bases: &[ScopedName],
        items: &[Item],
    ) {
        let forward = self.reopen(name, |kind| matches!(kind, DefKind::Interface(i) if !i.defined));
        let id = match forward.filter(|id| !self.infos[id.index()].open) {
            Some(id) => {
                self.check_flavor(id, flavor, name);
                self.complete_forward(id, attrs, name);
                id
            }
            None => self.define(attrs, name, undefined(flavor)),
        };
        self.info(id).open = true;
        self.info(id).local = flavor == Flavor::Local && !self.is_builtin(id);
        let bases = self.bases(flavor, name, bases);
        if let DefKind::Interface(interface) = &mut self.spec.defs[id.index()].kind {
            interface.defined = true;
            interface.bases = bases;
        }
        self.close_over_bases(id, name);
        self.within(id, ScopeKind::Interface, |r| r.items(items));
        self.info(id).complete = true;
    }

    /// The direct bases of an interface, checked one by one.
    fn bases(&mut self, flavor: Flavor, derived: &Ident, names: &[ScopedName]) -> Vec<DefId> {
        let mut bases = Vec::new();
        for name in names {
            let Some(id) = self.find_interface(name) else { continue };
            let DefKind::Interface(base) = &self.spec[id].kind else { continue };
            let problem = if flavor == Flavor::Abstract && !base.abstract_ {
                Some(format!("abstract interface `{}` can only derive from abstract ones", derived.name))
            } else if flavor != Flavor::Local && base.local {
                Some(format!("`{}` is not local, so it cannot derive from local `{name}`", derived.name))
            } else if bases.contains(&id) {
                Some(format!("`{name}` is named twice as a base"))
            } else {
                None
            };
            match problem {
                Some(problem) => {
                    let report = Report::error(name.span, problem).also(self.span(id), "the base");
                    self.diagnostics.push(report);
                }
                None => bases.push(id),
            }
        }
        bases
    }

    /// An interface that can be derived from or supported.
    pub(super) fn find_interface(&mut self, name: &ScopedName) -> Option<DefId> {
        let found = self.find(name)?;
        let id = self.spec.resolve(&Type::Named(found)).def().unwrap_or(found);
        match &self.spec[id].kind {
            DefKind::Interface(i) if i.defined && self.infos[id.index()].complete => Some(id),
            DefKind::Interface(_) => {
                let message = format!("`{name}` is not defined yet, so nothing can derive from it");
                let report = Report::error(name.span, message).also(self.span(id), "only declared so far");
                self.diagnostics.push(report);
                None
            }
            _ => {
                let message = format!("`{name}` is {}, not an interface", self.what(id));
                self.diagnostics.push(Report::error(name.span, message).also(self.span(id), "defined here"));
                None
            }
        }
    }

    /// Collects all bases and checks that their definitions do not clash.
    pub(super) fn close_over_bases(&mut self, id: DefId, name: &Ident) {
        let direct = self.spec.direct_bases(id);
        let mut all = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for &base in &direct {
            let above = self.infos[base.index()].bases.iter().copied().chain([base]);
            all.extend(above.filter(|&b| seen.insert(b)));
        }
        if all.len() > limits::BASES {
            self.diagnostics
                .error(name.span, format!("`{}` has more than {} bases", name.name, limits::BASES));
            all.clear();
            match &mut self.spec.defs[id.index()].kind {
                DefKind::Interface(i) => i.bases.clear(),
                DefKind::Value(v) => {
                    v.base = None;
                    v.abstract_bases.clear();
                    v.supports.clear();
                }
                _ => {}
            }
        }
        if direct.len() > 1 {
            self.check_bases_agree(name, &all);
        }
        self.info(id).bases = all;
    }

    /// Two bases must not have an operation or attribute of the same name.
    fn check_bases_agree(&mut self, name: &Ident, bases: &[DefId]) {
        let mut first: HashMap<&str, (Span, DefId)> = HashMap::new();
        let mut clashes = Vec::new();
        for &base in bases {
            let Some(scope) = self.infos[base.index()].scope else { continue };
            for (key, entry) in &self.scopes[scope.index()].names {
                if !self.is_inherited_for_good(entry.what) {
                    continue;
                }
                if let Some((span, other)) = first.insert(key, (entry.span, base)) {
                    clashes.push((entry.span, span, entry.name.clone(), other, base));
                }
            }
        }
        // The table has no order of its own.
        clashes.sort_by_key(|(span, ..)| (span.file, span.start));
        for (span, other_span, member, other, base) in clashes {
            let (a, b) = (self.name(other), self.name(base));
            let message = format!("`{}` inherits `{member}` from both `{a}` and `{b}`", name.name);
            let report = Report::error(name.span, message);
            self.diagnostics
                .push(report.also(other_span, format!("in `{a}`")).also(span, format!("in `{b}`")));
        }
    }

    pub(super) fn operation(&mut self, attrs: &Attrs, decl: &OperationDecl) {
        let result = self.result(&decl.result);
        let kind = DefKind::Operation(Operation {
            oneway: decl.oneway.is_some(),
            result: result.clone().unwrap_or(Type::Void),
            params: Vec::new(),
            raises: Vec::new(),
            context: Vec::new(),
        });
        let id = self.define(attrs, &decl.name, kind);
        self.info(id).complete = true;
        let scope = self.new_scope(ScopeKind::Operation, None);
        let (params, raises) = self.in_scope(scope, |r| (r.params(&decl.params), r.raises(&decl.raises)));
        let context = decl.context.iter().filter_map(|c| self.context(c)).collect();
        if let Some(oneway) = decl.oneway {
            self.check_oneway(oneway, decl);
        }
        if let Some(ty) = &result {
            self.check_remote(ty, decl.result.span, "a result");
        }
        if let DefKind::Operation(operation) = &mut self.spec.defs[id.index()].kind {
            (operation.params, operation.raises, operation.context) = (params, raises, context);
        }
    }

    fn result(&mut self, expr: &TypeExpr) -> Option<Type> {
        match expr.kind {
            TypeKind::Basic(Type::Void) => Some(Type::Void),
            _ => self.ty(expr, TypeContext::Signature),
        }
    }

    fn check_oneway(&mut self, oneway: Span, decl: &OperationDecl) {
        if !matches!(decl.result.kind, TypeKind::Basic(Type::Void)) {
            let report = Report::error(decl.result.span, "a oneway operation returns nothing")
                .also(oneway, "declared here");
            self.diagnostics.push(report.hint("its result must be `void`"));
        }
        for param in decl.params.iter().filter(|p| p.direction != Direction::In) {
            let report = Report::error(param.direction_span, "all parameters of a oneway operation are `in`");
            self.diagnostics.push(report.also(oneway, "declared here"));
        }
        if let Some(first) = decl.raises.first() {
            let report = Report::error(first.span, "a oneway operation cannot raise user exceptions");
            self.diagnostics.push(report.also(oneway, "declared here"));
        }
    }

    pub(super) fn params(&mut self, params: &[ParamDecl]) -> Vec<Param> {
        let mut out = Vec::new();
        for param in params {
            let ty = self.ty(&param.ty, TypeContext::Signature);
            self.declare(&param.name, Symbol::Part("parameter"));
            let annotations = self.annotations(&param.attrs.annotations);
            let Some(ty) = ty else { continue };
            self.check_remote(&ty, param.ty.span, "a parameter");
            out.push(Param {
                direction: param.direction,
                name: param.name.name.to_string(),
                ty,
                annotations,
                location: self.sources.locate(param.name.span),
            });
        }
        out
    }

    /// Types in the signature of a remote operation must be able to leave the process.
    fn check_remote(&mut self, ty: &Type, span: Span, what: &str) {
        if !self.is_local(ty) || !self.is_in_remote_interface() {
            return;
        }
        let message = format!("`{}` is local, so it cannot be {what} here", self.spec.type_name(ty));
        let report = Report::error(span, message);
        self.diagnostics.push(report.hint("only operations of a `local interface` can pass it"));
    }

    fn is_in_remote_interface(&self) -> bool {
        let owner = self.owner().map(|id| &self.spec[id].kind);
        matches!(owner, Some(DefKind::Interface(i)) if !i.local)
    }

    pub(super) fn raises(&mut self, names: &[ScopedName]) -> Vec<DefId> {
        let mut raises = Vec::new();
        for name in names {
            let Some(id) = self.find(name) else { continue };
            // The modules of CORBA itself raise a native to mean any exception.
            if !matches!(self.spec[id].kind, DefKind::Exception(_) | DefKind::Native) {
                let message = format!("`{name}` is {}, not an exception", self.what(id));
                self.diagnostics.push(Report::error(name.span, message).also(self.span(id), "defined here"));
            } else if raises.contains(&id) {
                let message = format!("`{name}` is named twice");
                self.diagnostics.push(Report::lenient(Rule::RaisedTwice, name.span, message));
            } else {
                self.check_remote(&Type::Named(id), name.span, "raised");
                raises.push(id);
            }
        }
        raises
    }

    /// A string of a context clause: a letter, then letters, digits, `.` and `_`, perhaps a final
    /// `*`.
    fn context(&mut self, literal: &StringLiteral) -> Option<String> {
        let (text, wide) = literal::string(&literal.tokens, self.diagnostics)?;
        let stem = text.strip_suffix('*').unwrap_or(&text);
        let good = stem.starts_with(|c: char| c.is_ascii_alphabetic())
            && stem.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_'));
        if !good || wide {
            let report = Report::error(literal.span, format!("`{text}` is no context name"));
            self.diagnostics
                .push(report.hint("a letter, then letters, digits, `.` and `_`, perhaps a final `*`"));
            return None;
        }
        Some(text)
    }

    pub(super) fn attribute(&mut self, attrs: &Attrs, decl: &AttributeDecl) {
        let ty = self.ty(&decl.ty, TypeContext::Signature);
        if let Some(ty) = &ty {
            self.check_remote(ty, decl.ty.span, "an attribute");
        }
        let get_raises = self.raises(&decl.get_raises);
        let set_raises = self.raises(&decl.set_raises);
        for name in &decl.names {
            let kind = DefKind::Attribute(Attribute {
                readonly: decl.readonly,
                ty: ty.clone().unwrap_or(Type::Long),
                get_raises: get_raises.clone(),
                set_raises: set_raises.clone(),
            });
            let id = self.define(attrs, name, kind);
            self.info(id).complete = true;
        }
    }
}

fn undefined(flavor: Flavor) -> DefKind {
    DefKind::Interface(Interface {
        local: flavor == Flavor::Local,
        abstract_: flavor == Flavor::Abstract,
        bases: Vec::new(),
        defined: false,
    })
}
