//! Lines that begin with `#`.

use super::Preprocessor;
use super::lexer;
use super::macros::{Macro, Params};
use super::token::{Kind, Token};
use crate::diagnostic::Report;
use crate::limits;
use crate::source::Span;

/// An open `#if`.
pub(super) struct Conditional {
    pub span: Span,
    /// The group that is being read is active.
    pub active: bool,
    /// A group of it was active, so no further one will be.
    taken: bool,
    /// All of it is inside a group that is left out.
    dead: bool,
    seen_else: bool,
}

impl Preprocessor<'_> {
    /// Handles one directive; `line` is its text after the `#`.
    pub(super) fn directive(&mut self, line: &[Token], hash: Span, depth: usize) {
        let Some((name, rest)) = line.split_first() else { return };
        match &*name.text {
            "if" | "ifdef" | "ifndef" => self.begin_if(name, rest),
            "elif" => self.elif(name, rest),
            "else" => self.begin_else(name),
            "endif" => {
                if self.conditionals.pop().is_none() {
                    self.out.diagnostics.error(name.span, "`#endif` without an `#if`");
                }
            }
            _ if !self.is_active() => {}
            "define" => self.define(name, rest),
            "undef" => match rest.first().filter(|t| t.kind == Kind::Ident) {
                Some(target) => self.macros.undefine(&target.text),
                None => self.out.diagnostics.error(name.span, "`#undef` needs the name of a macro"),
            },
            "include" => self.include(name, rest, depth),
            "pragma" => self.pragma(name, rest),
            "error" => {
                let report = Report::error(name.span, format!("`#error`: {}", words(rest)));
                self.out.diagnostics.push(report);
            }
            "warning" => {
                let report = Report::warning(name.span, format!("`#warning`: {}", words(rest)));
                self.out.diagnostics.push(report);
            }
            // Line markers of another preprocessor: positions in this very text are what people
            // look for.
            "line" | "ident" => {}
            _ if name.kind == Kind::Number => {}
            other => {
                let report = Report::error(hash.to(name.span), format!("unknown directive `#{other}`"));
                self.out.diagnostics.push(report);
            }
        }
    }

    fn begin_if(&mut self, name: &Token, rest: &[Token]) {
        if self.conditionals.len() >= limits::CONDITIONAL_DEPTH {
            return self.stop(name.span, "conditionals are nested too deeply");
        }
        let dead = !self.is_active();
        let active = !dead
            && match &*name.text {
                "if" => self.condition(name.span, rest),
                kind => match rest.first().filter(|t| t.kind == Kind::Ident) {
                    Some(target) => self.may_expand(&target.text) == (kind == "ifdef"),
                    None => {
                        self.out.diagnostics.error(name.span, format!("`#{kind}` needs the name of a macro"));
                        false
                    }
                },
            };
        self.conditionals.push(Conditional {
            span: name.span,
            active,
            taken: active,
            dead,
            seen_else: false,
        });
    }

    fn elif(&mut self, name: &Token, rest: &[Token]) {
        let Some(open) = self.conditionals.last_mut() else {
            return self.out.diagnostics.error(name.span, "`#elif` without an `#if`");
        };
        if open.seen_else {
            self.out.diagnostics.error(name.span, "`#elif` after `#else`");
            return;
        }
        open.active = false;
        if !open.dead && !open.taken {
            let active = self.condition(name.span, rest);
            if let Some(open) = self.conditionals.last_mut() {
                (open.active, open.taken) = (active, active);
            }
        }
    }

    fn begin_else(&mut self, name: &Token) {
        let Some(open) = self.conditionals.last_mut() else {
            return self.out.diagnostics.error(name.span, "`#else` without an `#if`");
        };
        if std::mem::replace(&mut open.seen_else, true) {
            return self.out.diagnostics.error(name.span, "a second `#else` for the same `#if`");
        }
        open.active = !open.dead && !open.taken;
        open.taken = true;
    }

    fn define(&mut self, directive: &Token, rest: &[Token]) {
        let Some((name, rest)) = rest.split_first().filter(|(t, _)| t.kind == Kind::Ident) else {
            return self.out.diagnostics.error(directive.span, "`#define` needs the name of a macro");
        };
        if &*name.text == "defined" {
            return self.out.diagnostics.error(name.span, "`defined` cannot be a macro");
        }
        let made = match rest.first() {
            // Only a parenthesis that touches the name begins parameters.
            Some(open) if open.is("(") && !open.spaced => match self.params(&rest[1..]) {
                Some((params, used)) => Macro::function(name.span, params, rest[1 + used..].to_vec()),
                None => {
                    let message = format!("the parameters of macro `{}` are not well formed", name.text);
                    return self.out.diagnostics.error(name.span, message);
                }
            },
            _ => Macro::object(name.span, rest.to_vec()),
        };
        if let Some(old) = self.macros.define(name.text.clone(), made) {
            let report =
                Report::warning(name.span, format!("macro `{}` is redefined differently", name.text));
            self.out.diagnostics.push(report.also(old.span, "previous definition"));
        }
    }

    /// Reads `a, b)` or `a, ...)`; returns the parameters and how many tokens they took.
    fn params(&self, tokens: &[Token]) -> Option<(Params, usize)> {
        let mut params = Params { names: Vec::new(), variadic: false };
        let mut at = 0;
        if tokens.first()?.is(")") {
            return Some((params, 1));
        }
        loop {
            let name = tokens.get(at)?;
            if name.is("...") {
                params.names.push("__VA_ARGS__".into());
                params.variadic = true;
            } else if name.kind == Kind::Ident && !params.names.contains(&name.text) {
                params.names.push(name.text.clone());
            } else {
                return None;
            }
            let separator = tokens.get(at + 1)?;
            at += 2;
            if separator.is(")") {
                return Some((params, at));
            }
            if !separator.is(",") || params.variadic {
                return None;
            }
        }
    }

    fn pragma(&mut self, name: &Token, rest: &[Token]) {
        if rest.first().is_some_and(|t| t.is_word("once")) {
            self.once.insert(name.span.file);
            return;
        }
        // Names and strings of these pragmas may come from macros. Other pragmas are left as they
        // are.
        let ours = |t: &Token| ["prefix", "ID", "version", "isorb"].iter().any(|w| t.is_word(w));
        let Some((kind, arguments)) = rest.split_first().filter(|(kind, _)| ours(kind)) else { return };
        let mut tokens = vec![kind.clone()];
        match kind.is_word("isorb") {
            true => tokens.extend_from_slice(arguments),
            false => tokens.extend(self.expand(arguments, 0)),
        }
        self.out.pragmas.push(tokens);
        let index = self.out.pragmas.len() as u32 - 1;
        self.emit(std::iter::once(Token::marker(Kind::Pragma(index), name.span)));
    }
}

/// The text of a directive, for messages.
fn words(tokens: &[Token]) -> String {
    let mut text = String::new();
    for token in tokens {
        if !text.is_empty() && token.spaced {
            text.push(' ');
        }
        text.push_str(&token.text);
        if text.len() > 200 {
            text.push_str(" ...");
            break;
        }
    }
    text
}

impl Preprocessor<'_> {
    /// Replaces `defined X` and `defined(X)` by 1 or 0.
    pub(super) fn resolve_defined(&mut self, tokens: &[Token]) -> Vec<Token> {
        let mut out = Vec::new();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            at += 1;
            if !token.is_word("defined") {
                out.push(token.clone());
                continue;
            }
            let parenthesised = tokens.get(at).is_some_and(|t| t.is("("));
            let name = tokens.get(at + usize::from(parenthesised)).filter(|t| lexer::is_identifier(&t.text));
            let closed = !parenthesised || tokens.get(at + 2).is_some_and(|t| t.is(")"));
            match name.filter(|_| closed) {
                Some(name) => {
                    let value = if self.may_expand(&name.text) { "1" } else { "0" };
                    out.push(Token { kind: Kind::Number, text: value.into(), ..token.clone() });
                    at += if parenthesised { 3 } else { 1 };
                }
                None => {
                    self.out.diagnostics.error(token.span, "`defined` needs the name of a macro");
                    return vec![Token { kind: Kind::Number, text: "0".into(), ..token.clone() }];
                }
            }
        }
        out
    }
}
