//! Macro expansion.
//!
//! A stack of token lists: the text being expanded at the bottom, the bodies of the macros that are
//! being expanded above it. A macro is disabled while its body is on the stack, so recursion ends;
//! [`limits::MACRO_STEPS`] bounds exponential expansion.

use super::macros::{Macro, Params};
use super::token::{Kind, Token};
use super::{Preprocessor, lexer};
use crate::diagnostic::Report;
use crate::limits;
use crate::source::{Expansion, ExpansionId, Span};
use std::rc::Rc;

/// A list of tokens that is being read.
struct Frame {
    tokens: std::vec::IntoIter<Token>,
    /// The macro with this body.
    of: Option<Rc<str>>,
}

/// One argument of a macro call: as written, and fully expanded when that is needed.
struct Argument {
    raw: Vec<Token>,
    expanded: Option<Vec<Token>>,
}

impl Preprocessor<'_> {
    pub(super) fn may_expand(&self, name: &str) -> bool {
        self.macros.contains(name) || matches!(name, "__LINE__" | "__FILE__")
    }

    /// Expands all macros in `input`; `depth` counts arguments inside arguments.
    pub(super) fn expand(&mut self, input: &[Token], depth: usize) -> Vec<Token> {
        let mut out = Vec::new();
        if let (true, Some(first)) = (depth > limits::MACRO_DEPTH, input.first()) {
            self.stop(first.span, "macro calls are nested too deeply");
            return out;
        }
        let tokens: Vec<Token> = input.to_vec();
        let mut stack = vec![Frame { tokens: tokens.into_iter(), of: None }];
        while let Some(token) = self.next(&mut stack) {
            if self.stopped {
                break;
            }
            if token.kind != Kind::Ident || token.painted {
                out.push(token);
            } else if self.disabled.contains_key(&token.text) {
                out.push(Token { painted: true, ..token });
            } else if let Some(builtin) = self.builtin(&token) {
                out.push(builtin);
            } else if let Some(found) = self.macros.get(&token.text) {
                self.call(token, &found, &mut stack, &mut out, depth);
            } else {
                out.push(token);
            }
        }
        while let Some(frame) = stack.pop() {
            self.leave(&frame);
        }
        out
    }

    fn next(&mut self, stack: &mut Vec<Frame>) -> Option<Token> {
        while let Some(top) = stack.last_mut() {
            if let Some(token) = top.tokens.next() {
                return Some(token);
            }
            let frame = stack.pop()?;
            self.leave(&frame);
        }
        None
    }

    fn leave(&mut self, frame: &Frame) {
        if let Some(name) = &frame.of
            && let Some(count) = self.disabled.get_mut(name)
        {
            *count -= 1;
            if *count == 0 {
                self.disabled.remove(name);
            }
        }
    }

    fn builtin(&mut self, token: &Token) -> Option<Token> {
        let at = self.out.sources.locate(token.span);
        let (kind, text) = match &*token.text {
            "__LINE__" => (Kind::Number, at.line.to_string()),
            "__FILE__" => (
                Kind::String,
                format!("{:?}", self.out.sources.files()[at.file.index()].path.display().to_string()),
            ),
            _ => return None,
        };
        Some(Token { kind, text: text.into(), ..token.clone() })
    }

    fn call(
        &mut self,
        name: Token,
        found: &Macro,
        stack: &mut Vec<Frame>,
        out: &mut Vec<Token>,
        depth: usize,
    ) {
        let mut arguments = Vec::new();
        if let Some(params) = &found.params {
            let opens =
                stack.iter().rev().find_map(|f| f.tokens.as_slice().first()).is_some_and(|t| t.is("("));
            if !opens {
                return out.push(name);
            }
            match self.arguments(&name, params, found.span, stack) {
                Some(collected) => arguments = collected,
                // The name stays, so that the parser can continue.
                None => return out.push(name),
            }
        }
        if !self.step(found.body.len() + 1, name.span) {
            return;
        }
        let expansion = Expansion { name: name.text.clone(), call: name.span };
        let id = self.out.sources.add_expansion(expansion);
        let mut body = self.substitute(found, &mut arguments, id, depth);
        if let Some(first) = body.first_mut() {
            (first.starts_line, first.spaced, first.doc) = (name.starts_line, name.spaced, name.doc);
        }
        *self.disabled.entry(name.text.clone()).or_default() += 1;
        stack.push(Frame { tokens: body.into_iter(), of: Some(name.text) });
    }

    fn step(&mut self, count: usize, span: Span) -> bool {
        self.steps += count;
        if self.steps > limits::MACRO_STEPS {
            self.stop(span, "macros expand to too much text");
        }
        !self.stopped
    }

    /// Reads `( argument, ... )`; reports and returns `None` when it is not well formed.
    fn arguments(
        &mut self,
        name: &Token,
        params: &Params,
        defined: Span,
        stack: &mut Vec<Frame>,
    ) -> Option<Vec<Argument>> {
        self.next(stack); // the opening parenthesis
        let mut arguments = vec![Vec::new()];
        let mut open = 0_usize;
        loop {
            let Some(token) = self.next(stack) else {
                let report =
                    Report::error(name.span, format!("the call of macro `{}` is not closed", name.text));
                self.out
                    .diagnostics
                    .push(report.hint("a `)` is missing, or a directive stands between the parentheses"));
                return None;
            };
            if !self.step(1, name.span) {
                return None;
            }
            let rest = params.variadic && arguments.len() == params.names.len();
            match &*token.text {
                ")" if token.kind == Kind::Punct && open == 0 => break,
                "," if token.kind == Kind::Punct && open == 0 && !rest => {
                    arguments.push(Vec::new());
                    continue;
                }
                "(" if token.kind == Kind::Punct => open += 1,
                ")" if token.kind == Kind::Punct => open -= 1,
                _ => {}
            }
            if let Some(last) = arguments.last_mut() {
                last.push(token);
            }
        }
        if params.names.is_empty() && arguments.len() == 1 && arguments[0].is_empty() {
            arguments.clear();
        }
        if params.variadic && arguments.len() + 1 == params.names.len() {
            arguments.push(Vec::new());
        }
        if arguments.len() != params.names.len() {
            let (want, got) = (params.names.len(), arguments.len());
            let message = format!("macro `{}` takes {want} argument{}, not {got}", name.text, plural(want));
            self.out.diagnostics.push(Report::error(name.span, message).also(defined, "defined here"));
            return None;
        }
        Some(arguments.into_iter().map(|raw| Argument { raw, expanded: None }).collect())
    }

    /// The body of the macro with its parameters replaced and `#` and `##` done.
    fn substitute(
        &mut self,
        found: &Macro,
        arguments: &mut [Argument],
        id: ExpansionId,
        depth: usize,
    ) -> Vec<Token> {
        let in_body =
            |token: &Token| Token { span: Span { expansion: Some(id), ..token.span }, ..token.clone() };
        let mut out: Vec<Token> = Vec::new();
        let mut at = 0;
        let mut paste = false;
        // Whether the item before `##` left anything to paste to: an empty argument does not.
        let mut left_over = false;
        while let Some(item) = found.body.get(at) {
            if self.stopped {
                break;
            }
            let next = found.body.get(at + 1);
            let function = found.params.is_some();
            at += 1;
            if item.token.is("##") && at > 1 && next.is_some() {
                paste = left_over;
                continue;
            }
            let mut tokens = match (item.param, next.and_then(|n| n.param)) {
                (None, Some(param)) if function && item.token.is("#") => {
                    at += 1;
                    vec![self.stringize(&arguments[param].raw, in_body(&item.token))]
                }
                (Some(param), _) => {
                    let pasted = paste || next.is_some_and(|n| n.token.is("##"));
                    let tokens = self.argument(&mut arguments[param], pasted, depth);
                    if !self.step(tokens.len(), item.token.span) {
                        break;
                    }
                    tokens
                }
                (None, _) => vec![in_body(&item.token)],
            };
            left_over = !tokens.is_empty() || paste;
            if std::mem::take(&mut paste)
                && !tokens.is_empty()
                && let Some(left) = out.pop()
            {
                let right = tokens.remove(0);
                out.extend(self.paste(left, right));
            }
            out.append(&mut tokens);
        }
        out
    }

    fn argument(&mut self, argument: &mut Argument, raw: bool, depth: usize) -> Vec<Token> {
        if raw {
            return argument.raw.clone();
        }
        if argument.expanded.is_none() {
            argument.expanded = Some(self.expand(&argument.raw, depth + 1));
        }
        argument.expanded.clone().unwrap_or_default()
    }

    fn stringize(&mut self, tokens: &[Token], hash: Token) -> Token {
        let mut text = String::from("\"");
        for (i, token) in tokens.iter().enumerate() {
            if i > 0 && token.spaced {
                text.push(' ');
            }
            let literal = matches!(token.kind, Kind::String | Kind::Char);
            for c in token.text.chars() {
                if literal && matches!(c, '"' | '\\') {
                    text.push('\\');
                }
                text.push(c);
            }
        }
        text.push('"');
        if text.len() > limits::PASTED_BYTES {
            self.stop(hash.span, "this makes a string that is too long");
        }
        Token { kind: Kind::String, text: text.into(), ..hash }
    }

    fn paste(&mut self, left: Token, right: Token) -> Vec<Token> {
        let text = format!("{}{}", left.text, right.text);
        if text.len() > limits::PASTED_BYTES {
            self.stop(left.span, "`##` makes a name that is too long");
            return vec![left];
        }
        let mut made = lexer::lex(&text, left.span.file);
        match (made.pop(), made.is_empty()) {
            (Some(one), true) if !matches!(one.kind, Kind::Bad(_)) => {
                vec![Token { kind: one.kind, text: one.text, ..left }]
            }
            _ => {
                let message = format!("`##` of `{}` and `{}` makes no token", left.text, right.text);
                self.out.diagnostics.error(left.span, message);
                vec![left]
            }
        }
    }
}

pub(super) fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}
