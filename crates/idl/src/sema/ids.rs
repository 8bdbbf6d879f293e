//! Repository ids (CORBA 3.3 part 1, clause 14.7): prefixes, versions, and explicit ids.

use super::Resolver;
use crate::diagnostic::Report;
use crate::model::{DefId, DefKind};
use crate::pp::{Kind, Token};
use crate::rule::Rule;
use crate::source::Span;
use crate::syntax::ast::{Ident, ScopedName, StringLiteral, TypePrefixTarget};
use crate::syntax::literal;
use std::collections::HashMap;
use std::rc::Rc;

/// The parts of a definition's repository id.
pub(super) struct Ids {
    /// `#pragma prefix` at the place of the definition.
    pub prefix: Rc<str>,
    /// `#pragma version`
    version: Option<(String, Span)>,
    /// `#pragma ID` or `typeid`
    id: Option<(String, Span)>,
    /// `typeprefix`, which also applies to all definitions inside.
    type_prefix: Option<(String, Span)>,
}

impl Ids {
    pub fn at(prefix: Rc<str>) -> Self {
        Ids { prefix, version: None, id: None, type_prefix: None }
    }
}

impl Resolver<'_> {
    pub(super) fn pragma(&mut self, index: u32) {
        let Some((kind, rest)) = self.pragmas.get(index as usize).and_then(|tokens| tokens.split_first())
        else {
            return;
        };
        match &*kind.text {
            "prefix" => match rest {
                [text] if text.kind == Kind::String => {
                    let Some((prefix, _)) = literal::string(std::slice::from_ref(text), self.diagnostics)
                    else {
                        return;
                    };
                    if self.check_prefix(&prefix, text.span) {
                        self.prefix = prefix.into();
                    }
                }
                [first, .., last] | [first @ last] if first.kind == Kind::Ident => {
                    let span = first.span.to(last.span);
                    let prefix: String = rest.iter().map(|token| &*token.text).collect();
                    let message = "`#pragma prefix` wants its prefix in quotes";
                    let report = Report::lenient(Rule::BarePrefix, span, message);
                    self.diagnostics.push(report.hint(format!("write `#pragma prefix \"{prefix}\"`")));
                    if self.check_prefix(&prefix, span) {
                        self.prefix = prefix.into();
                    }
                }
                _ => self
                    .diagnostics
                    .error(kind.span, "`#pragma prefix` needs one string: `#pragma prefix \"company.com\"`"),
            },
            "ID" => match rest.split_last() {
                Some((text, name)) if text.kind == Kind::String => {
                    let (Some(id), Some(name)) =
                        (self.pragma_target(name, kind.span), literal_of(text, self))
                    else {
                        return;
                    };
                    self.check_format(&name, text.span, Report::warning);
                    self.set_id(id, name, text.span);
                }
                _ => self.diagnostics.error(
                    kind.span,
                    "`#pragma ID` needs a name and a string: `#pragma ID A::B \"IDL:x:1.0\"`",
                ),
            },
            "version" => match rest.split_last() {
                Some((number, name)) if number.kind == Kind::Number => {
                    let Some(name) = self.pragma_name(name, kind.span) else { return };
                    match self.peek(&name) {
                        Some(id) => self.set_version(id, number),
                        // The definition may follow.
                        None => self.early_versions.push((self.stack.clone(), name, number.clone())),
                    }
                }
                _ => self.diagnostics.error(
                    kind.span,
                    "`#pragma version` needs a name and a number: `#pragma version A::B 1.2`",
                ),
            },
            _ => {}
        }
    }

    /// Gives definitions the versions of pragmas that stand before them.
    pub(super) fn assign_early_versions(&mut self) {
        for (stack, name, number) in std::mem::take(&mut self.early_versions) {
            let stack = std::mem::replace(&mut self.stack, stack);
            let found = self.peek(&name);
            self.stack = stack;
            match found {
                Some(id) => {
                    let message = format!("the version of `{name}` stands before its definition");
                    let report = Report::lenient(Rule::EarlyVersion, name.span, message);
                    self.diagnostics.push(report.also(self.span(id), "defined here"));
                    self.set_version(id, &number);
                }
                None => self.not_a_target(&name),
            }
        }
    }

    fn check_prefix(&mut self, prefix: &str, span: Span) -> bool {
        let good = prefix.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '/'));
        if !good || prefix.starts_with(['/', '-', '_', '.']) || prefix.ends_with('/') {
            let report = Report::error(span, format!("`{prefix}` cannot be a prefix"));
            self.diagnostics.push(
                report.hint("letters, digits, `.`, `-`, `_` and `/`, beginning with a letter or digit"),
            );
            return false;
        }
        true
    }

    /// The definition that a pragma names, which is found without being introduced into the scope.
    fn pragma_target(&mut self, tokens: &[Token], at: Span) -> Option<DefId> {
        let name = self.pragma_name(tokens, at)?;
        let found = self.peek(&name);
        if found.is_none() {
            self.not_a_target(&name);
        }
        found
    }

    fn not_a_target(&mut self, name: &ScopedName) {
        let report = Report::error(name.span, format!("`{name}` is not defined"));
        self.diagnostics
            .push(report.hint("the pragma must stand behind the definition, or a forward declaration"));
    }

    fn pragma_name(&mut self, tokens: &[Token], at: Span) -> Option<ScopedName> {
        let absolute = tokens.first().is_some_and(|t| t.is("::"));
        let rest = &tokens[usize::from(absolute)..];
        let mut parts = Vec::new();
        for (i, token) in rest.iter().enumerate() {
            match (i % 2, token.kind) {
                (0, Kind::Ident) => {
                    let name: Rc<str> = token.text.strip_prefix('_').unwrap_or(&token.text).into();
                    parts.push(Ident { name, span: token.span });
                }
                (1, Kind::Punct) if token.is("::") && i + 1 < rest.len() => {}
                _ => {
                    self.diagnostics.error(token.span, "this is not expected in the name");
                    return None;
                }
            }
        }
        let (Some(first), Some(last)) = (tokens.first(), parts.last()) else {
            self.diagnostics.error(at, "the name of a definition is missing");
            return None;
        };
        let span = first.span.to(last.span);
        Some(ScopedName { absolute, parts, span })
    }

    pub(super) fn type_id(&mut self, target: &ScopedName, literal: &StringLiteral) {
        let (Some(id), Some((text, _))) =
            (self.find(target), literal::string(&literal.tokens, self.diagnostics))
        else {
            return;
        };
        if let Some((_, before)) = &self.infos[id.index()].ids.id {
            let report = Report::error(target.span, format!("`{target}` has a repository id already"));
            self.diagnostics.push(report.also(*before, "given here"));
            return;
        }
        self.check_format(&text, literal.span, Report::error);
        self.set_id(id, text, literal.span);
    }

    /// A pragma may set any string, so an unusual one is only a warning.
    fn check_format(&mut self, text: &str, span: Span, report: fn(Span, String) -> Report) {
        let format = text.split_once(':');
        let good = format.is_some_and(|(format, body)| !format.is_empty() && !body.is_empty());
        if !good || text.contains(|c: char| c.is_control() || c == ' ') {
            let report = report(span, format!("`{text}` is no repository id"));
            self.diagnostics
                .push(report.hint("it has a format, a colon and the rest: `IDL:company.com/Type:1.0`"));
        }
    }

    fn set_id(&mut self, id: DefId, text: String, span: Span) {
        let ids = &mut self.infos[id.index()].ids;
        let problem = match (&ids.id, &ids.version) {
            (Some((before, at)), _) if *before != text => Some(("has another repository id already", *at)),
            (None, Some((version, at))) if !text.ends_with(&format!(":{version}")) => {
                Some(("has another version already", *at))
            }
            _ => None,
        };
        if let Some((problem, before)) = problem {
            let message = format!("`{}` {problem}", self.name(id));
            return self.diagnostics.push(Report::error(span, message).also(before, "given here"));
        }
        ids.id.get_or_insert((text, span));
    }

    fn set_version(&mut self, id: DefId, number: &Token) {
        let parts = number.text.split_once('.');
        let good =
            parts.is_some_and(|(major, minor)| major.parse::<u16>().is_ok() && minor.parse::<u16>().is_ok());
        if !good {
            let report = Report::error(number.span, format!("`{}` is no version", number.text));
            return self.diagnostics.push(report.hint("a version is two numbers with a point: `1.0`"));
        }
        let version = number.text.to_string();
        let ids = &mut self.infos[id.index()].ids;
        let problem = match (&ids.id, &ids.version) {
            (Some((before, at)), _) if !before.ends_with(&format!(":{version}")) => {
                Some(("has a repository id with another version", *at))
            }
            (_, Some((before, at))) if *before != version => Some(("has another version already", *at)),
            _ => None,
        };
        if let Some((problem, before)) = problem {
            let message = format!("`{}` {problem}", self.name(id));
            return self.diagnostics.push(Report::error(number.span, message).also(before, "given here"));
        }
        ids.version.get_or_insert((version, number.span));
    }

    pub(super) fn type_prefix(&mut self, target: &TypePrefixTarget, literal: &StringLiteral) {
        let Some((prefix, _)) = literal::string(&literal.tokens, self.diagnostics) else { return };
        if !self.check_prefix(&prefix, literal.span) {
            return;
        }
        let name = match target {
            TypePrefixTarget::File => {
                self.prefix = prefix.into();
                return;
            }
            TypePrefixTarget::Name(name) => name,
        };
        let Some(id) = self.find(name) else { return };
        if !matches!(self.spec[id].kind, DefKind::Module | DefKind::Interface(_) | DefKind::Value(_)) {
            let message = format!(
                "`{name}` is {}; only modules, interfaces and valuetypes have a prefix",
                self.what(id)
            );
            return self
                .diagnostics
                .push(Report::error(name.span, message).also(self.span(id), "defined here"));
        }
        let ids = &mut self.infos[id.index()].ids;
        match &ids.type_prefix {
            // A module that is opened in several files repeats the pragma in each.
            Some((before, _)) if *before == prefix => {}
            Some((_, before)) => {
                let report = Report::error(literal.span, format!("`{name}` has another prefix already"));
                self.diagnostics.push(report.also(*before, "given here"));
            }
            None => ids.type_prefix = Some((prefix, literal.span)),
        }
    }

    /// The repository id of a definition as far as it is known now.
    pub(super) fn repository_id(&self, id: DefId) -> String {
        let ids = &self.infos[id.index()].ids;
        if let Some((text, _)) = &ids.id {
            return text.clone();
        }
        let mut scopes = std::iter::successors(Some(id), |&at| self.spec[at].parent);
        let type_prefix = scopes.find_map(|at| self.infos[at.index()].ids.type_prefix.as_ref());
        let prefix = type_prefix.map_or(&*ids.prefix, |(prefix, _)| prefix.as_str());
        let slash = if prefix.is_empty() { "" } else { "/" };
        let version = ids.version.as_ref().map_or("1.0", |(version, _)| version);
        format!("IDL:{prefix}{slash}{}:{version}", self.spec.path(id).join("/"))
    }

    /// Gives every definition its final repository id, and checks that no explicit id is used
    /// twice.
    pub(super) fn assign_ids(&mut self) {
        let mut by_hand: HashMap<String, DefId> = HashMap::new();
        for index in 0..self.spec.defs.len() {
            let id = DefId(index as u32);
            let text = self.repository_id(id);
            if let Some((_, span)) = &self.infos[index].ids.id {
                let span = *span;
                if let Some(other) = by_hand.insert(text.clone(), id) {
                    let message =
                        format!("`{}` has the repository id of `{}`", self.name(id), self.name(other));
                    let report = Report::error(span, message).also(self.span(other), "which is defined here");
                    self.diagnostics.push(report);
                }
            }
            self.spec.defs[index].repository_id = text;
        }
    }
}

fn literal_of(token: &Token, resolver: &mut Resolver<'_>) -> Option<String> {
    literal::string(std::slice::from_ref(token), resolver.diagnostics).map(|(text, _)| text)
}
