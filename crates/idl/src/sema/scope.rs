//! Scopes and the rules for declarations in them (CORBA 3.3 part 1, clause 7.20).

use super::Resolver;
use crate::diagnostic::Report;
use crate::model::{DefId, DefKind};
use crate::source::Span;
use crate::syntax::ast::Ident;
use std::collections::HashMap;
use std::rc::Rc;

/// Index of a scope.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ScopeId(u32);

impl ScopeId {
    pub const FILE: ScopeId = ScopeId(0);

    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The kind of a scope, as far as rules differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ScopeKind {
    File,
    Module,
    /// An interface or valuetype.
    Interface,
    /// A struct, union or exception.
    Constructed,
    Operation,
}

impl ScopeKind {
    fn is_module(self) -> bool {
        matches!(self, ScopeKind::File | ScopeKind::Module)
    }
}

pub(super) struct Scope {
    pub kind: ScopeKind,
    pub owner: Option<DefId>,
    /// The name of the owner in lower case, which nothing directly inside may have.
    name: Option<Rc<str>>,
    /// By identifier in lower case.
    pub names: HashMap<Rc<str>, Entry>,
}

pub(super) struct Entry {
    /// In its original spelling.
    pub name: Rc<str>,
    pub span: Span,
    pub what: Symbol,
}

/// The meaning of a name in a scope.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Symbol {
    Def(DefId),
    /// A member, parameter, case or factory: nothing that can be referred to.
    Part(&'static str),
    /// A definition from an outer scope; its use here introduced the name into this scope.
    Used(DefId),
}

impl Scope {
    pub fn new(kind: ScopeKind, owner: Option<DefId>, name: Option<Rc<str>>) -> Self {
        Scope { kind, owner, name, names: HashMap::new() }
    }
}

/// Identifiers that differ in case only are the same for all checks.
pub(super) fn fold(name: &str) -> Rc<str> {
    name.to_ascii_lowercase().into()
}

impl Resolver<'_> {
    pub(super) fn new_scope(&mut self, kind: ScopeKind, owner: Option<DefId>) -> ScopeId {
        // An operation's name is also reserved in its own scope, but a parameter may have it.
        let name = owner.filter(|_| kind != ScopeKind::Operation).map(|id| fold(&self.spec[id].name));
        self.scopes.push(Scope::new(kind, owner, name));
        ScopeId(self.scopes.len() as u32 - 1)
    }

    pub(super) fn current(&self) -> &Scope {
        let top = self.stack.last().copied().unwrap_or(ScopeId::FILE);
        &self.scopes[top.index()]
    }

    fn current_mut(&mut self) -> &mut Scope {
        let top = self.stack.last().copied().unwrap_or(ScopeId::FILE);
        &mut self.scopes[top.index()]
    }

    /// Declares a name in the current scope; a clash is reported.
    pub(super) fn declare(&mut self, name: &Ident, what: Symbol) {
        let key = fold(&name.name);
        let scope = self.current();
        if scope.name.as_ref() == Some(&key) {
            let message = format!("`{}` has the name of the scope that it stands in", name.name);
            let mut report = Report::error(name.span, message);
            if let Some(owner) = scope.owner {
                report = report.also(self.span(owner), "the scope");
            }
            return self.diagnostics.push(report);
        }
        if let Some(entry) = scope.names.get(&key) {
            let report = clash(name, entry);
            return self.diagnostics.push(report);
        }
        if scope.kind == ScopeKind::Interface {
            self.check_inherited(name, &key, what);
        }
        let entry = Entry { name: name.name.clone(), span: name.span, what };
        self.current_mut().names.insert(key, entry);
    }

    /// An operation, attribute or state member of a base cannot be redefined.
    fn check_inherited(&mut self, name: &Ident, key: &str, what: Symbol) {
        let Some(owner) = self.current().owner else { return };
        if what == Symbol::Part("factory") {
            return;
        }
        for &base in &self.infos[owner.index()].bases {
            let Some(scope) = self.infos[base.index()].scope else { continue };
            let Some(entry) = self.scopes[scope.index()].names.get(key) else { continue };
            if self.is_inherited_for_good(entry.what) {
                let message =
                    format!("`{}` is already inherited from `{}`", name.name, self.spec.scoped_name(base));
                let report = Report::error(name.span, message).also(entry.span, "defined here");
                return self.diagnostics.push(report);
            }
        }
    }

    /// Whether a derived interface or value must not reuse the name.
    pub(super) fn is_inherited_for_good(&self, what: Symbol) -> bool {
        match what {
            Symbol::Def(id) => matches!(self.spec[id].kind, DefKind::Operation(_) | DefKind::Attribute(_)),
            Symbol::Part(part) => part == "state member",
            Symbol::Used(_) => false,
        }
    }

    /// The earlier declaration of the same name in this scope, if it may be continued here.
    pub(super) fn reopen(&mut self, name: &Ident, accept: impl Fn(&DefKind) -> bool) -> Option<DefId> {
        let entry = self.current().names.get(&fold(&name.name))?;
        match entry.what {
            Symbol::Def(id) if entry.name == name.name && accept(&self.spec[id].kind) => Some(id),
            _ => None,
        }
    }

    /// Records that `name` was used, unqualified, in the current scope, and means `id` from the
    /// scope at `found` in the stack. The name then keeps its meaning in all scopes up to the
    /// outermost one that is no module.
    pub(super) fn introduce(&mut self, name: &Ident, id: DefId, found: usize) {
        let key = fold(&name.name);
        for at in (0..self.stack.len()).rev() {
            let scope = &mut self.scopes[self.stack[at].index()];
            let innermost = at + 1 == self.stack.len();
            if scope.kind.is_module() && !innermost {
                break;
            }
            if at >= found && !scope.names.contains_key(&key) {
                let entry = Entry { name: name.name.clone(), span: name.span, what: Symbol::Used(id) };
                scope.names.insert(key.clone(), entry);
            }
            if scope.kind.is_module() || at <= found {
                break;
            }
        }
    }
}

fn clash(name: &Ident, entry: &Entry) -> Report {
    let same = entry.name == name.name;
    let (new, old) = (&name.name, &entry.name);
    if let Symbol::Used(_) = entry.what {
        let message = if same {
            format!("`{new}` was used in this scope with another meaning")
        } else {
            format!("`{new}` differs in case only from `{old}`, which was used in this scope")
        };
        let report = Report::error(name.span, message).also(entry.span, "used here");
        return report
            .hint("a name keeps its meaning in a scope once it was used there; choose another name");
    }
    let message = if same {
        format!("`{new}` is already defined in this scope")
    } else {
        format!("`{new}` differs in case only from `{old}`, which is defined in this scope")
    };
    Report::error(name.span, message).also(entry.span, "previous definition")
}
