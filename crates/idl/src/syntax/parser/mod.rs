//! A recursive descent parser that goes on after an error.
//!
//! A rule that fails has already reported why; its caller skips to the next `;` or closing brace of
//! the same level and continues there, so that one run shows most of what is wrong.

mod definition;
mod expression;
mod interface;
mod types;
mod value;

use super::ast::{AnnotationExpr, Attrs, Expr, Ident, Item, ScopedName, StringLiteral};
use super::keyword::{Reserved, reserved};
use crate::diagnostic::{Diagnostics, Report};
use crate::limits;
use crate::pp::{Kind, Token};
use crate::source::Span;

/// A rule failed, and its error is reported.
#[derive(Debug)]
pub(crate) struct Failed;

pub(crate) type Parsed<T> = Result<T, Failed>;

/// Parses a whole specification. `tokens` ends in [`Kind::End`], or is empty.
pub(crate) fn parse(tokens: Vec<Token>, diagnostics: &mut Diagnostics) -> Vec<Item> {
    let Some(end) = tokens.last().filter(|t| t.kind == Kind::End).cloned() else { return Vec::new() };
    let mut parser = Parser { tokens, end, at: 0, depth: 0, angles: 0, events: Vec::new(), diagnostics };
    parser.absorb_events();
    let mut items = Vec::new();
    loop {
        items.append(&mut parser.list(Parser::definition));
        if parser.token().kind == Kind::End {
            return items;
        }
        // The list stopped at a brace that closes nothing.
        parser.error_here("this `}` closes nothing");
        parser.bump();
        if parser.at(";") {
            parser.bump();
        }
    }
}

struct Parser<'a> {
    tokens: Vec<Token>,
    end: Token,
    at: usize,
    depth: usize,
    /// Open `<` around the current expression, where `>>` is two closing brackets.
    angles: usize,
    /// Pragmas and file changes that were passed and wait for the next place where definitions
    /// stand.
    events: Vec<Item>,
    diagnostics: &'a mut Diagnostics,
}

impl Parser<'_> {
    fn token(&self) -> &Token {
        self.tokens.get(self.at).unwrap_or(&self.end)
    }

    /// The token `n` places on, not counting pragmas and file changes.
    fn ahead(&self, n: usize) -> &Token {
        let rest = self.tokens.get(self.at..).unwrap_or_default();
        rest.iter().filter(|t| !is_event(t)).nth(n).unwrap_or(&self.end)
    }

    fn bump(&mut self) -> Token {
        let token = self.token().clone();
        self.at += 1;
        self.absorb_events();
        token
    }

    fn absorb_events(&mut self) {
        while let Some(token) = self.tokens.get(self.at) {
            match token.kind {
                Kind::Pragma(index) => self.events.push(Item::Pragma(index)),
                Kind::FileBegin => self.events.push(Item::FileBegin),
                Kind::FileEnd => self.events.push(Item::FileEnd),
                _ => break,
            }
            self.at += 1;
        }
    }

    /// Whether the next token is this operator or bracket.
    fn at(&self, punct: &str) -> bool {
        self.token().is(punct)
    }

    /// Whether the next token is this keyword.
    fn at_word(&self, word: &str) -> bool {
        self.token().is_word(word)
    }

    fn eat(&mut self, punct: &str) -> bool {
        let found = self.at(punct);
        if found {
            self.bump();
        }
        found
    }

    fn eat_word(&mut self, word: &str) -> Option<Span> {
        self.at_word(word).then(|| self.bump().span)
    }

    fn expect(&mut self, punct: &'static str) -> Parsed<Span> {
        if self.at(punct) { Ok(self.bump().span) } else { self.unexpected(&format!("`{punct}`")) }
    }

    /// `;`, where forgetting it at the end of a line does not disturb what follows.
    fn semicolon(&mut self) -> Parsed<()> {
        if self.eat(";") {
            return Ok(());
        }
        let next = self.token();
        let harmless = next.starts_line || next.is("}");
        let previous = self.previous_end();
        let found = describe(next);
        let report = Report::error(previous, format!("expected `;`, found {found}"));
        self.diagnostics.push(report.label("a `;` is missing here"));
        if harmless { Ok(()) } else { Err(Failed) }
    }

    /// The position just behind the last token that was read.
    fn previous_end(&self) -> Span {
        let before = self.tokens.get(..self.at).unwrap_or(&self.tokens);
        before.iter().rev().find(|t| !is_event(t)).map_or(self.token().span, |t| t.span.at_end())
    }

    fn unexpected<T>(&mut self, wanted: &str) -> Parsed<T> {
        let token = self.token();
        let (span, found) = (token.span, describe(token));
        self.diagnostics.error(span, format!("expected {wanted}, found {found}"));
        Err(Failed)
    }

    fn error_here(&mut self, message: impl Into<String>) {
        let span = self.token().span;
        self.diagnostics.error(span, message);
    }

    /// Runs a rule one level deeper.
    fn nested<T>(&mut self, rule: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= limits::NESTING {
            self.error_here("this is nested too deeply");
            return Err(Failed);
        }
        self.depth += 1;
        let result = rule(self);
        self.depth -= 1;
        result
    }

    /// Items up to a closing brace or the end, which is left for the caller.
    fn list(&mut self, rule: fn(&mut Self) -> Parsed<Option<Item>>) -> Vec<Item> {
        let mut items = Vec::new();
        loop {
            items.append(&mut self.events);
            if self.at("}") || self.token().kind == Kind::End {
                return items;
            }
            let before = self.at;
            match rule(self) {
                Ok(item) => items.extend(item),
                Err(Failed) => self.recover(),
            }
            if self.at == before {
                // A rule must consume a token. If it does not, the token is skipped.
                self.bump();
            }
        }
    }

    /// `{ items }`
    fn braced(&mut self, rule: fn(&mut Self) -> Parsed<Option<Item>>) -> Parsed<Vec<Item>> {
        let open = self.expect("{")?;
        let items = self.list(rule);
        self.close(open)?;
        Ok(items)
    }

    /// `}` for the `{` at `open`.
    fn close(&mut self, open: Span) -> Parsed<()> {
        if self.eat("}") {
            return Ok(());
        }
        let (span, found) = (self.token().span, describe(self.token()));
        let report = Report::error(span, format!("expected `}}`, found {found}"));
        self.diagnostics.push(report.also(open, "to close this"));
        Err(Failed)
    }

    /// Skips to behind the next `;` or to the `}` that closes the current list.
    fn recover(&mut self) {
        let mut open = 0_usize;
        loop {
            let token = self.token();
            if token.kind == Kind::End {
                return;
            }
            match &*token.text {
                "{" if token.kind == Kind::Punct => open += 1,
                "}" if token.kind == Kind::Punct && open == 0 => return,
                "}" if token.kind == Kind::Punct => {
                    open -= 1;
                    if open == 0 {
                        self.bump();
                        self.eat(";");
                        return;
                    }
                }
                ";" if token.kind == Kind::Punct && open == 0 => {
                    self.bump();
                    return;
                }
                // A word that can only begin a definition, at the start of a line: a `;` was
                // probably forgotten.
                "module" | "interface" | "struct" | "union" | "typedef" | "exception" | "valuetype"
                    if token.starts_line && open == 0 && token.kind == Kind::Ident =>
                {
                    return;
                }
                _ => {}
            }
            self.bump();
        }
    }

    /// `rule, rule, ...`: at least one.
    fn comma_separated<T>(&mut self, rule: fn(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut list = vec![rule(self)?];
        while self.eat(",") {
            list.push(rule(self)?);
        }
        Ok(list)
    }

    /// An identifier that is being declared.
    fn name(&mut self) -> Parsed<Ident> {
        let reserved = reserved(&self.token().text);
        let ident = self.identifier("a name")?;
        let name = &ident.name;
        let report = match reserved {
            Reserved::Soft => Report::warning(ident.span, format!("`{name}` is a keyword since CORBA 3")),
            Reserved::ByCase(keyword) => {
                Report::error(ident.span, format!("`{name}` differs from keyword `{keyword}` in case only"))
            }
            Reserved::Yes | Reserved::No => return Ok(ident),
        };
        self.diagnostics.push(report.hint(format!("write `_{name}` to use it as a name")));
        Ok(ident)
    }

    /// An identifier, declared or used.
    fn identifier(&mut self, wanted: &str) -> Parsed<Ident> {
        let token = self.token().clone();
        if token.kind != Kind::Ident {
            return self.unexpected(wanted);
        }
        if let Some(inner) = token.text.strip_prefix('_') {
            if !inner.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
                self.diagnostics.error(token.span, format!("`{}` is no identifier", token.text));
                return Err(Failed);
            }
            self.bump();
            return Ok(self.ascii(Ident { name: inner.into(), span: token.span }));
        }
        match reserved(&token.text) {
            Reserved::Yes => {
                let report =
                    Report::error(token.span, format!("expected {wanted}, found keyword `{}`", token.text));
                self.diagnostics.push(report.hint(format!("write `_{}` to use it as a name", token.text)));
                return Err(Failed);
            }
            // A name that was declared with an underscore is used without.
            Reserved::ByCase(_) | Reserved::No | Reserved::Soft => {}
        }
        self.bump();
        Ok(self.ascii(Ident { name: token.text, span: token.span }))
    }

    fn ascii(&mut self, ident: Ident) -> Ident {
        if !ident.name.is_ascii() {
            let report = Report::error(
                ident.span,
                "identifiers consist of the letters A to Z, digits and underscores",
            );
            self.diagnostics.push(report);
        }
        ident
    }

    fn scoped_name(&mut self) -> Parsed<ScopedName> {
        let start = self.token().span;
        let absolute = self.eat("::");
        let mut parts = vec![self.identifier("a name")?];
        while self.eat("::") {
            parts.push(self.identifier("a name")?);
        }
        let span = parts.last().map_or(start, |last| start.to(last.span));
        Ok(ScopedName { absolute, parts, span })
    }

    fn string_literal(&mut self) -> Parsed<StringLiteral> {
        let mut tokens = Vec::new();
        while self.token().kind == Kind::String {
            tokens.push(self.bump());
        }
        match (tokens.first(), tokens.last()) {
            (Some(first), Some(last)) => Ok(StringLiteral { span: first.span.to(last.span), tokens }),
            _ => self.unexpected("a string literal"),
        }
    }

    /// The comment and the annotations in front of something.
    fn attrs(&mut self) -> Parsed<Attrs> {
        let doc = self.token().doc.clone();
        let mut annotations = Vec::new();
        while self.at("@") {
            annotations.push(self.annotation()?);
        }
        // The comment may stand between the annotations and the thing, too.
        Ok(Attrs { doc: doc.or_else(|| self.token().doc.clone()), annotations })
    }

    fn annotation(&mut self) -> Parsed<AnnotationExpr> {
        self.expect("@")?;
        let mut name = String::new();
        // Keywords are fine as names of annotations: `@default`.
        loop {
            if self.token().kind != Kind::Ident {
                return self.unexpected("the name of an annotation");
            }
            name.push_str(&self.bump().text);
            if !self.eat("::") {
                break;
            }
            name.push_str("::");
        }
        let mut args = Vec::new();
        if self.at("(") {
            self.bump();
            if !self.at(")") {
                args = self.nested(|p| p.comma_separated(Self::annotation_argument))?;
            }
            self.expect(")")?;
        }
        Ok(AnnotationExpr { name, args })
    }

    fn annotation_argument(&mut self) -> Parsed<(Option<std::rc::Rc<str>>, Expr)> {
        if self.token().kind == Kind::Ident && self.ahead(1).is("=") {
            let name = self.bump().text;
            self.bump();
            return Ok((Some(name), self.expression()?));
        }
        Ok((None, self.expression()?))
    }
}

fn is_event(token: &Token) -> bool {
    matches!(token.kind, Kind::Pragma(_) | Kind::FileBegin | Kind::FileEnd)
}

fn describe(token: &Token) -> String {
    match token.kind {
        Kind::End => "the end of the file".to_owned(),
        _ if token.text.chars().count() > 40 => "this".to_owned(),
        _ => format!("`{}`", token.text),
    }
}
