//! From names to definitions (CORBA 3.3 part 1, clause 7.20).

use super::Resolver;
use super::scope::{ScopeId, ScopeKind, Symbol, fold};
use crate::diagnostic::Report;
use crate::model::{DefId, DefKind, Type};
use crate::rule::Rule;
use crate::source::Span;
use crate::syntax::ast::{Ident, ScopedName};
use crate::syntax::keyword::{Reserved, reserved};
use std::collections::HashSet;

/// The result of a search in one scope.
enum SearchResult {
    Def(DefId),
    Part(&'static str, Span),
    /// Several bases define that name differently.
    Ambiguous(Vec<DefId>),
}

impl Resolver<'_> {
    /// Finds the definition of a name; reports an error and returns `None` if there is none.
    pub(super) fn find(&mut self, name: &ScopedName) -> Option<DefId> {
        let (first, rest) = name.parts.split_first()?;
        let mut id = if name.absolute {
            match self.search(ScopeId::FILE, &first.name) {
                Some(hit) => self.accept(first, hit)?,
                None => return self.not_found(first, None),
            }
        } else {
            let hit = (0..self.stack.len())
                .rev()
                .find_map(|at| Some((at, self.search(self.stack[at], &first.name)?)));
            let Some((at, hit)) = hit else { return self.not_found(first, None) };
            let id = self.accept(first, hit)?;
            self.introduce(first, id, at);
            id
        };
        for part in rest {
            let Some(scope) = self.infos[id.index()].scope else {
                let (what, outer) = (self.what(id), self.name(id));
                let message = match self.spec[id].kind {
                    DefKind::Interface(_) | DefKind::Value(_) | DefKind::Struct(_) | DefKind::Union(_) => {
                        format!("`{outer}` is not defined yet, so `{}` cannot be found in it", part.name)
                    }
                    _ => format!("`{outer}` is {what} and holds no names"),
                };
                let report = Report::error(part.span, message).also(self.span(id), "declared here");
                self.diagnostics.push(report);
                return None;
            };
            id = match self.search(scope, &part.name) {
                Some(hit) => self.accept(part, hit)?,
                None => return self.not_found(part, Some((scope, id))),
            };
        }
        Some(id)
    }

    /// Whether a name would be found, without reporting or introducing anything.
    pub(super) fn peek(&self, name: &ScopedName) -> Option<DefId> {
        let (first, rest) = name.parts.split_first()?;
        let start = if name.absolute { 1 } else { self.stack.len() };
        let only = |hit| match hit {
            SearchResult::Def(id) => Some(id),
            SearchResult::Part(..) | SearchResult::Ambiguous(_) => None,
        };
        let hit = self.stack[..start].iter().rev().find_map(|&scope| self.search(scope, &first.name))?;
        rest.iter().try_fold(only(hit)?, |id, part| {
            let scope = self.infos[id.index()].scope?;
            only(self.search(scope, &part.name)?)
        })
    }

    /// Whether a name, of whatever kind, is visible here.
    pub(super) fn is_visible(&self, name: &Ident) -> bool {
        self.stack.iter().any(|&scope| self.search(scope, &name.name).is_some())
    }

    /// Searches one scope and, for interfaces and values, its bases.
    fn search(&self, scope: ScopeId, name: &str) -> Option<SearchResult> {
        let key = fold(name);
        let here = &self.scopes[scope.index()];
        match here.names.get(&key).map(|entry| (entry.what, entry.span)) {
            Some((Symbol::Def(id) | Symbol::Used(id), _)) => return Some(SearchResult::Def(id)),
            Some((Symbol::Part(part), span)) => return Some(SearchResult::Part(part, span)),
            None => {}
        }
        if here.kind != ScopeKind::Interface {
            return None;
        }
        // A definition in a base hides those in its own bases, so the search ends there.
        let mut found = Vec::new();
        let mut seen = HashSet::new();
        let mut todo = self.spec.direct_bases(here.owner?);
        while let Some(base) = todo.pop() {
            if !seen.insert(base) {
                continue;
            }
            let Some(scope) = self.infos[base.index()].scope else { continue };
            match self.scopes[scope.index()].names.get(&key).map(|entry| entry.what) {
                Some(Symbol::Def(id)) => found.push(id),
                _ => todo.extend(self.spec.direct_bases(base)),
            }
        }
        found.sort();
        found.dedup();
        match found.as_slice() {
            [] => None,
            [one] => Some(SearchResult::Def(*one)),
            _ => Some(SearchResult::Ambiguous(found)),
        }
    }

    fn accept(&mut self, name: &Ident, hit: SearchResult) -> Option<DefId> {
        match hit {
            SearchResult::Def(id) => {
                if self.spec[id].name != *name.name {
                    let message =
                        format!("`{}` is spelled `{}` where it is defined", name.name, self.spec[id].name);
                    let report = Report::lenient(Rule::Case, name.span, message);
                    let report = report.also(self.span(id), "defined here");
                    self.diagnostics
                        .push(report.hint("IDL wants every use to have the case of the definition"));
                }
                Some(id)
            }
            SearchResult::Part(part, span) => {
                let message = format!("`{}` is a {part} and cannot be referred to", name.name);
                self.diagnostics.push(Report::error(name.span, message).also(span, "declared here"));
                None
            }
            SearchResult::Ambiguous(ids) => {
                let mut report =
                    Report::error(name.span, format!("`{}` is ambiguous: several bases have one", name.name));
                for &id in ids.iter().take(4) {
                    report = report.also(self.span(id), format!("`{}`", self.name(id)));
                }
                self.diagnostics.push(report.hint("write it with its scope, as in `Base::Name`"));
                None
            }
        }
    }

    fn not_found(&mut self, name: &Ident, inside: Option<(ScopeId, DefId)>) -> Option<DefId> {
        let message = match inside {
            Some((_, outer)) => format!("`{}` is not defined in `{}`", name.name, self.name(outer)),
            None => format!("`{}` is not defined", name.name),
        };
        let mut report = Report::error(name.span, message);
        // The comparison with all visible names is slow, so it is made only for errors that are
        // shown.
        if !self.diagnostics.is_full() {
            let scopes: Vec<ScopeId> = inside.map_or_else(|| self.stack.clone(), |(scope, _)| vec![scope]);
            if let Some(similar) = self.similar(&name.name, &scopes) {
                report = report.hint(format!("did you mean `{similar}`?"));
            } else if let Reserved::ByCase(keyword) = reserved(&name.name) {
                report = report.hint(format!("did you mean `{keyword}`?"));
            } else if &*name.name == "CORBA" && inside.is_none() {
                report = report.hint("write `#include <orb.idl>` to use CORBA's own types");
            } else if inside.is_none() {
                report = report.hint("names must be defined, or declared forward, before they are used");
            }
        }
        self.diagnostics.push(report);
        None
    }

    fn similar(&self, name: &str, scopes: &[ScopeId]) -> Option<String> {
        let all = scopes.iter().rev().flat_map(|s| self.scopes[s.index()].names.values());
        let defs = all.filter(|entry| matches!(entry.what, Symbol::Def(_))).take(10_000);
        let near = defs.map(|entry| (distance(name, &entry.name), &entry.name));
        // The name itself is compared too, so that the choice does not depend on the order in the
        // table.
        near.filter(|(d, _)| *d <= 2 && *d < name.len() / 2 + 1).min().map(|(_, name)| name.to_string())
    }

    /// The types that CORBA defines but IDL cannot express: `CORBA::TypeCode` and
    /// `CORBA::AbstractBase`.
    pub(super) fn builtin(&self, name: &ScopedName) -> Option<Type> {
        let parts: Vec<&str> = name.parts.iter().map(|p| &*p.name).collect();
        let in_corba = || {
            let owner = self.stack.get(1).and_then(|s| self.scopes[s.index()].owner);
            !name.absolute && owner.is_some_and(|id| self.spec[id].name == "CORBA")
        };
        let last = match parts.as_slice() {
            ["CORBA", last] => last,
            [last] if in_corba() => last,
            _ => return None,
        };
        builtin_type(last)
    }

    /// Whether a definition is CORBA's own declaration of such a type.
    pub(super) fn is_builtin(&self, id: DefId) -> bool {
        self.builtin_of(id).is_some()
    }

    pub(super) fn builtin_of(&self, id: DefId) -> Option<Type> {
        let def = &self.spec[id];
        let parent = &self.spec[def.parent?];
        let declared = matches!(def.kind, DefKind::Interface(_) | DefKind::Native);
        if declared && parent.parent.is_none() && parent.name == "CORBA" {
            builtin_type(&def.name)
        } else {
            None
        }
    }
}

fn builtin_type(name: &str) -> Option<Type> {
    match name {
        "TypeCode" => Some(Type::TypeCode),
        "AbstractBase" => Some(Type::AbstractBase),
        _ => None,
    }
}

/// The edit distance between two names, capped: anything above 2 is 3.
fn distance(a: &str, b: &str) -> usize {
    if a.len().abs_diff(b.len()) > 2 || a.len() > 100 {
        return 3;
    }
    let (a, b): (Vec<u8>, Vec<u8>) = (a.to_ascii_lowercase().into(), b.to_ascii_lowercase().into());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let change = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(corner + 1);
        }
    }
    row[b.len()].min(3)
}
