//! The preprocessor: from files to one stream of tokens.
//!
//! It works on tokens, not text, so that every token of the result knows where it was written,
//! through macros and includes. Line splicing, comments and literals are the [`lexer`]'s;
//! `#define`, `#include`, `#if` and their like are here. Of the directives only [`Kind::Pragma`]
//! reaches the parser, which knows the scope that it stands in.

mod condition;
mod directive;
mod expand;
mod include;
mod lexer;
mod macros;
mod token;

pub(crate) use token::{Kind, Token};

use crate::compile::Options;
use crate::diagnostic::{Diagnostics, Report};
use crate::limits;
use crate::model::FileId;
use crate::source::{Loader, SourceMap, Span};
use macros::{Macro, Macros};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The output of the preprocessor.
pub(crate) struct Preprocessed {
    pub tokens: Vec<Token>,
    /// The tokens after `#pragma`, indexed by [`Kind::Pragma`].
    pub pragmas: Vec<Vec<Token>>,
    pub sources: SourceMap,
    pub diagnostics: Diagnostics,
}

/// Preprocesses `main` and everything it includes.
pub(crate) fn preprocess(options: &Options, loader: &dyn Loader, main: &Path) -> Preprocessed {
    let mut pp = Preprocessor {
        options,
        loader,
        out: Preprocessed {
            tokens: Vec::new(),
            pragmas: Vec::new(),
            sources: SourceMap::default(),
            diagnostics: Diagnostics::default(),
        },
        macros: Macros::default(),
        disabled: HashMap::new(),
        conditionals: Vec::new(),
        files: HashMap::new(),
        lexed: Vec::new(),
        once: HashSet::new(),
        includes: 0,
        read: 0,
        steps: 0,
        stopped: false,
    };
    pp.run(main);
    if pp.stopped {
        // The rest is incomplete, so that further errors would be wrong.
        pp.out.tokens.clear();
    }
    pp.out
}

struct Preprocessor<'a> {
    options: &'a Options,
    loader: &'a dyn Loader,
    out: Preprocessed,
    macros: Macros,
    /// Macros that are being expanded, with how often.
    disabled: HashMap<Rc<str>, u32>,
    /// The open `#if`s of the current file.
    conditionals: Vec<directive::Conditional>,
    files: HashMap<PathBuf, FileId>,
    /// The tokens of each file, by its id.
    lexed: Vec<Rc<[Token]>>,
    once: HashSet<FileId>,
    includes: usize,
    /// Tokens read from files, over all inclusions.
    read: usize,
    /// Tokens handled by macro expansion.
    steps: usize,
    /// A limit was reached and reported; nothing more is done.
    stopped: bool,
}

/// Tokens that may be read from files when counting each inclusion; far more than
/// [`limits::TOKENS`], since what include guards skip costs little.
const READ_TOKENS: usize = 64 << 20;

impl Preprocessor<'_> {
    fn run(&mut self, main: &Path) {
        match self.open(main, None) {
            Ok(file) => {
                self.define_from_options(file);
                self.file(file, 0);
                self.end(file);
            }
            Err(error) => {
                let reason = include::reason(&error);
                self.out.diagnostics.general(format!("cannot read `{}`: {reason}", main.display()));
            }
        }
    }

    fn end(&mut self, file: FileId) {
        let end = self.out.sources.text(file).len();
        self.out.tokens.push(Token::marker(Kind::End, Span::new(file, end, end)));
    }

    fn define_from_options(&mut self, main: FileId) {
        let here = Span::new(main, 0, 0);
        for (name, value) in &self.options.defines {
            let body =
                lexer::lex(value, main).into_iter().map(|token| Token { span: here, ..token }).collect();
            let name: Rc<str> = name.as_str().into();
            if !lexer::is_identifier(&name) {
                self.out.diagnostics.general(format!("`{name}` is no name that a macro can have"));
            } else {
                self.macros.define(name, Macro::object(here, body));
            }
        }
    }

    /// Feeds one file through directives and macro expansion into the output.
    fn file(&mut self, file: FileId, depth: usize) {
        let tokens = self.lexed[file.index()].clone();
        self.read += tokens.len();
        if self.read > READ_TOKENS {
            return self.stop(Span::new(file, 0, 0), "the specification is too large");
        }
        let outer = std::mem::take(&mut self.conditionals);
        let mut at = 0;
        while at < tokens.len() && !self.stopped {
            if tokens[at].starts_directive() {
                let end = line_end(&tokens, at);
                self.directive(&tokens[at + 1..end], tokens[at].span, depth);
                at = end;
            } else {
                let end = (at..tokens.len()).find(|&i| tokens[i].starts_directive()).unwrap_or(tokens.len());
                if self.is_active() {
                    self.text(&tokens[at..end]);
                }
                at = end;
            }
        }
        let open = std::mem::replace(&mut self.conditionals, outer);
        if let Some(last) = open.last().filter(|_| !self.stopped) {
            let report = Report::error(last.span, "this conditional is never closed");
            self.out
                .diagnostics
                .push(report.hint("each `#if`, `#ifdef` and `#ifndef` needs an `#endif` in the same file"));
        }
    }

    /// Ordinary text between directives.
    fn text(&mut self, tokens: &[Token]) {
        if tokens.iter().any(|t| t.kind == Kind::Ident && self.may_expand(&t.text)) {
            let expanded = self.expand(tokens, 0);
            self.emit(expanded.into_iter());
        } else {
            self.emit(tokens.iter().cloned());
        }
    }

    fn emit(&mut self, tokens: impl Iterator<Item = Token>) {
        for token in tokens {
            if self.out.tokens.len() >= limits::TOKENS {
                return self.stop(token.span, "the specification is too large");
            }
            if let Kind::Bad(problem) = token.kind {
                self.out.diagnostics.error(token.span, problem);
                self.out.tokens.extend(repaired(&token));
            } else {
                self.out.tokens.push(token);
            }
        }
    }

    fn is_active(&self) -> bool {
        self.conditionals.last().is_none_or(|c| c.active)
    }

    /// Reports a limit that was reached, once.
    fn stop(&mut self, span: Span, message: &str) {
        if !self.stopped {
            self.stopped = true;
            self.out.diagnostics.error(span, message);
        }
    }
}

/// The replacement of a literal without an end: a literal, and the `;` that it swallowed.
fn repaired(token: &Token) -> Vec<Token> {
    let (kind, text) = match token.text.trim_start_matches('L').chars().next() {
        Some('"') => (Kind::String, "\"\""),
        Some('\'') => (Kind::Char, "' '"),
        _ => return Vec::new(),
    };
    let wide = if token.text.starts_with('L') { "L" } else { "" };
    let mut tokens = vec![Token { kind, text: format!("{wide}{text}").into(), ..token.clone() }];
    if token.text.trim_end().ends_with(';') {
        tokens.push(Token::new(Kind::Punct, ";".into(), token.span.at_end()));
    }
    tokens
}

fn line_end(tokens: &[Token], at: usize) -> usize {
    (at + 1..tokens.len()).find(|&i| tokens[i].starts_line).unwrap_or(tokens.len())
}
