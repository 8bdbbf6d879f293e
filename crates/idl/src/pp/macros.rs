//! Macro definitions.

use super::token::{Kind, Token};
use crate::source::Span;
use std::collections::HashMap;
use std::rc::Rc;

/// A macro.
#[derive(Debug)]
pub(super) struct Macro {
    /// The position of its name in the `#define`.
    pub span: Span,
    /// The parameters of a function-like macro.
    pub params: Option<Params>,
    pub body: Vec<BodyToken>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Params {
    pub names: Vec<Rc<str>>,
    /// The last parameter takes all that is left.
    pub variadic: bool,
}

#[derive(Debug)]
pub(super) struct BodyToken {
    pub token: Token,
    /// The index of its parameter.
    pub param: Option<usize>,
}

impl Macro {
    pub fn object(span: Span, body: Vec<Token>) -> Self {
        Macro {
            span,
            params: None,
            body: body.into_iter().map(|token| BodyToken { token, param: None }).collect(),
        }
    }

    pub fn function(span: Span, params: Params, body: Vec<Token>) -> Self {
        let param = |token: &Token| {
            let same = |name: &Rc<str>| *name == token.text;
            if token.kind == Kind::Ident { params.names.iter().position(same) } else { None }
        };
        let body = body.into_iter().map(|token| BodyToken { param: param(&token), token }).collect();
        Macro { span, params: Some(params), body }
    }

    /// Whether the two are the same but for the amount of white space.
    pub fn same_as(&self, other: &Macro) -> bool {
        let pair = |(i, (a, b)): (usize, (&BodyToken, &BodyToken))| {
            a.token.text == b.token.text && (i == 0 || a.token.spaced == b.token.spaced)
        };
        self.params == other.params
            && self.body.len() == other.body.len()
            && self.body.iter().zip(&other.body).enumerate().all(pair)
    }
}

/// The macros that are defined at this point of the text.
#[derive(Default)]
pub(super) struct Macros {
    table: HashMap<Rc<str>, Rc<Macro>>,
}

impl Macros {
    /// Defines a macro; returns what it replaces if that was different.
    pub fn define(&mut self, name: Rc<str>, new: Macro) -> Option<Rc<Macro>> {
        let new = Rc::new(new);
        self.table.insert(name, new.clone()).filter(|old| !old.same_as(&new))
    }

    pub fn undefine(&mut self, name: &str) {
        self.table.remove(name);
    }

    pub fn get(&self, name: &str) -> Option<Rc<Macro>> {
        self.table.get(name).cloned()
    }

    pub fn contains(&self, name: &str) -> bool {
        self.table.contains_key(name)
    }
}
