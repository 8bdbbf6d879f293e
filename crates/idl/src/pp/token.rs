//! Tokens, as the preprocessor and the parser know them.

use crate::source::Span;
use std::rc::Rc;

/// The kind of a token. Its text is the original one, with quotes and escaping underscore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An identifier or keyword.
    Ident,
    /// Something that begins like a number.
    Number,
    /// `'c'` or `L'c'`
    Char,
    /// `"text"` or `L"text"`
    String,
    /// An operator or bracket.
    Punct,
    /// Not a token of IDL; the text is the reason.
    Bad(&'static str),
    /// A `#pragma`, by its index.
    Pragma(u32),
    /// Here the text of an included file begins.
    FileBegin,
    /// Here it ends, and the including file goes on.
    FileEnd,
    /// The end of everything.
    End,
}

#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub kind: Kind,
    pub text: Rc<str>,
    pub span: Span,
    /// First on its line.
    pub starts_line: bool,
    /// White space precedes it.
    pub spaced: bool,
    /// An identifier that must not be expanded any more.
    pub painted: bool,
    /// The comment directly before it.
    pub doc: Option<Rc<str>>,
}

impl Token {
    pub fn new(kind: Kind, text: Rc<str>, span: Span) -> Self {
        Token { kind, text, span, starts_line: false, spaced: false, painted: false, doc: None }
    }

    pub fn marker(kind: Kind, span: Span) -> Self {
        Token::new(kind, "".into(), span)
    }

    /// Whether it is this operator or bracket.
    pub fn is(&self, punct: &str) -> bool {
        self.kind == Kind::Punct && &*self.text == punct
    }

    /// Whether it is this identifier or keyword.
    pub fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Ident && &*self.text == word
    }

    pub fn starts_directive(&self) -> bool {
        self.starts_line && self.is("#")
    }
}
