//! From text to tokens: line splicing, comments, literals.
//!
//! The lexer reports nothing itself, because text that a conditional leaves out may contain
//! anything. Text that is no token becomes [`Kind::Bad`] and is reported if it reaches the parser.

use super::token::{Kind, Token};
use crate::limits;
use crate::model::FileId;
use crate::source::Span;
use std::collections::HashSet;
use std::rc::Rc;

/// Longest first, so that the first match is the right one.
const PUNCTUATION: [&str; 36] = [
    "...", "::", "<<", ">>", "##", "&&", "||", "==", "!=", "<=", ">=", "{", "}", ";", ":", ",", "=", "(",
    ")", "<", ">", "[", "]", "+", "-", "*", "/", "%", "~", "|", "^", "&", "@", "#", "!", "?",
];

/// Whether this can be the name of a macro.
pub(super) fn is_identifier(text: &str) -> bool {
    text.starts_with(is_word_start) && text.chars().all(is_word)
}

fn is_word_start(c: char) -> bool {
    c == '_' || is_letter(c)
}

fn is_word(c: char) -> bool {
    is_word_start(c) || c.is_ascii_digit()
}

/// IDL's letters are those of ISO 8859-1; identifiers outside ASCII are refused later, with a
/// better message.
fn is_letter(c: char) -> bool {
    c.is_alphabetic()
}

/// Splits the text of a file into tokens.
pub(super) fn lex(text: &str, file: FileId) -> Vec<Token> {
    let spliced = Spliced::new(text);
    let mut lexer = Lexer {
        text: &spliced.text,
        at: 0,
        spliced: &spliced,
        file,
        starts_line: true,
        spaced: false,
        doc: Doc::default(),
        seen: HashSet::new(),
    };
    // A byte order mark is no part of the text.
    lexer.eat('\u{feff}');
    let mut tokens = Vec::new();
    while let Some(token) = lexer.token() {
        if tokens.len() >= limits::TOKENS {
            tokens.push(Token { kind: Kind::Bad("the file is too large"), ..token });
            break;
        }
        tokens.push(token);
    }
    tokens
}

/// The text with `\`-newline pairs removed, and the way back to positions in the original.
struct Spliced<'a> {
    text: std::borrow::Cow<'a, str>,
    /// (position in the spliced text, bytes removed before it)
    removed: Vec<(usize, usize)>,
}

impl<'a> Spliced<'a> {
    fn new(original: &'a str) -> Self {
        if !original.contains("\\\n") && !original.contains("\\\r\n") {
            return Spliced { text: original.into(), removed: Vec::new() };
        }
        let mut text = String::with_capacity(original.len());
        let mut removed = Vec::new();
        let mut rest = original;
        while let Some(i) = rest.find('\\') {
            let after = &rest[i + 1..];
            let gone = if after.starts_with('\n') {
                2
            } else if after.starts_with("\r\n") {
                3
            } else {
                0
            };
            if gone == 0 {
                text.push_str(&rest[..i + 1]);
                rest = after;
            } else {
                text.push_str(&rest[..i]);
                rest = &rest[i + gone..];
                removed.push((text.len(), original.len() - rest.len() - text.len()));
            }
        }
        text.push_str(rest);
        Spliced { text: text.into(), removed }
    }

    fn original(&self, at: usize) -> usize {
        let before = self.removed.partition_point(|&(position, _)| position <= at);
        at + before.checked_sub(1).map_or(0, |i| self.removed[i].1)
    }
}

/// The comment lines that may turn out to document the next token.
#[derive(Default)]
struct Doc {
    lines: Vec<String>,
    /// Newlines since the last comment ended.
    gap: usize,
}

impl Doc {
    fn take(&mut self) -> Option<Rc<str>> {
        let lines = std::mem::take(&mut self.lines);
        let first = lines.iter().position(|l| !l.is_empty())?;
        let last = lines.iter().rposition(|l| !l.is_empty())?;
        (self.gap <= 1).then(|| lines[first..=last].join("\n").into())
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    spliced: &'a Spliced<'a>,
    file: FileId,
    starts_line: bool,
    spaced: bool,
    doc: Doc,
    /// Texts of tokens so far, to share them.
    seen: HashSet<Rc<str>>,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn eat(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        if found {
            self.at += c.len_utf8();
        }
        found
    }

    fn eat_while(&mut self, accept: impl Fn(char) -> bool) {
        let rest = &self.text[self.at..];
        self.at += rest.find(|c| !accept(c)).unwrap_or(rest.len());
    }

    fn token(&mut self) -> Option<Token> {
        if let Some(unclosed) = self.skip_space_and_comments() {
            return Some(unclosed);
        }
        let start = self.at;
        let c = self.peek()?;
        let kind = match c {
            'L' if self.rest()[1..].starts_with(['\'', '"']) => {
                self.at += 1;
                self.literal()
            }
            '\'' | '"' => self.literal(),
            c if is_word_start(c) => {
                self.eat_while(is_word);
                Kind::Ident
            }
            c if c.is_ascii_digit() => self.number(),
            '.' if self.rest()[1..].starts_with(|c: char| c.is_ascii_digit()) => self.number(),
            _ => match PUNCTUATION.iter().find(|p| self.rest().starts_with(**p)) {
                Some(punct) => {
                    self.at += punct.len();
                    Kind::Punct
                }
                None => {
                    self.at += c.len_utf8();
                    Kind::Bad("this character has no meaning in IDL")
                }
            },
        };
        Some(self.finish(kind, start))
    }

    fn finish(&mut self, kind: Kind, start: usize) -> Token {
        let text = self.share(start);
        let span = Span::new(self.file, self.spliced.original(start), self.end(start));
        let doc = self.doc.take();
        let (starts_line, spaced) = (self.starts_line, self.spaced);
        (self.starts_line, self.spaced) = (false, false);
        Token { kind, text, span, starts_line, spaced, painted: false, doc }
    }

    /// The end, in the original, of text that began at `start`.
    fn end(&self, start: usize) -> usize {
        // One past the last character, not the start of the next one, which may follow a splice.
        if self.at > start { self.spliced.original(self.at - 1) + 1 } else { self.spliced.original(self.at) }
    }

    fn share(&mut self, start: usize) -> Rc<str> {
        let text = &self.text[start..self.at];
        if let Some(known) = self.seen.get(text) {
            return known.clone();
        }
        let shared: Rc<str> = text.into();
        self.seen.insert(shared.clone());
        shared
    }

    /// A preprocessing number, as in C: more than what is legal, so that `08` or `1x` are one
    /// mistake, not two tokens.
    fn number(&mut self) -> Kind {
        let hex = self.rest().starts_with("0x") || self.rest().starts_with("0X");
        let mut last = ' ';
        while let Some(c) = self.peek() {
            let sign = matches!(c, '+' | '-') && matches!(last, 'e' | 'E') && !hex;
            if !(is_word(c) || c == '.' || sign) {
                break;
            }
            self.at += c.len_utf8();
            last = c;
        }
        Kind::Number
    }

    /// A character or string literal; stands on the opening quote.
    fn literal(&mut self) -> Kind {
        let Some(quote) = self.peek() else { return Kind::Bad("a literal is missing") };
        self.at += 1;
        while let Some(c) = self.peek() {
            match c {
                '\n' | '\r' => break,
                '\\' => {
                    self.at += 1;
                    if !matches!(self.peek(), None | Some('\n' | '\r')) {
                        self.at += self.peek().map_or(0, char::len_utf8);
                    }
                }
                c => {
                    self.at += c.len_utf8();
                    if c == quote {
                        return if quote == '"' { Kind::String } else { Kind::Char };
                    }
                }
            }
        }
        if quote == '"' {
            Kind::Bad("this string is not closed on its line")
        } else {
            Kind::Bad("this character literal is not closed on its line")
        }
    }

    /// Moves to the next token; returns a bad one when a comment never ends.
    fn skip_space_and_comments(&mut self) -> Option<Token> {
        while let Some(c) = self.peek() {
            let start = self.at;
            if c == '\n' {
                self.at += 1;
                self.starts_line = true;
                self.doc.gap += 1;
            } else if c.is_whitespace() || c == '\u{1a}' {
                self.at += c.len_utf8();
            } else if self.rest().starts_with("//") {
                self.eat_while(|c| c != '\n');
                self.line_comment(start);
            } else if self.rest().starts_with("/*") {
                match self.rest()[2..].find("*/") {
                    Some(length) => self.at += length + 4,
                    None => {
                        self.at = self.text.len();
                        let token = self.finish(Kind::Bad("this comment is never closed"), start);
                        // Point at its beginning, not at the rest of the file.
                        return Some(Token {
                            span: Span { end: token.span.start + 2, ..token.span },
                            ..token
                        });
                    }
                }
                self.block_comment(start);
            } else {
                break;
            }
            self.spaced = true;
        }
        None
    }

    fn line_comment(&mut self, start: usize) {
        // A comment after a token on the same line belongs to that token and is no documentation.
        if !self.starts_line {
            return;
        }
        if self.doc.gap > 1 {
            self.doc.lines.clear();
        }
        let text = self.text[start..self.at].trim_start_matches('/');
        let text = text.strip_prefix('<').unwrap_or(text).trim_end();
        self.doc.lines.push(text.strip_prefix(' ').unwrap_or(text).to_owned());
        self.doc.gap = 0;
    }

    fn block_comment(&mut self, start: usize) {
        let comment = &self.text[start..self.at];
        let lines = comment.matches('\n').count();
        if !self.starts_line {
            self.starts_line = lines > 0;
            return;
        }
        self.doc.lines.clear();
        self.doc.gap = 0;
        if let Some(body) = comment.strip_prefix("/**").and_then(|c| c.strip_suffix("*/")) {
            let clean = |line: &str| {
                let line = line.trim();
                let line = line.strip_prefix('*').unwrap_or(line);
                line.strip_prefix(' ').unwrap_or(line).trim_end().to_owned()
            };
            self.doc.lines = body.lines().map(clean).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<String> {
        lex(source, FileId(0)).iter().map(|t| t.text.to_string()).collect()
    }

    #[test]
    fn splits_operators_at_their_longest() {
        assert_eq!(texts("a::b<<c>>=d"), ["a", "::", "b", "<<", "c", ">>", "=", "d"]);
    }

    #[test]
    fn keeps_wrong_numbers_whole() {
        assert_eq!(texts("08x 1.5e-3d 0xE+1 .5"), ["08x", "1.5e-3d", "0xE", "+", "1", ".5"]);
    }

    #[test]
    fn joins_spliced_lines_and_finds_the_way_back() {
        let tokens = lex("in\\\nter\\\r\nface A", FileId(0));
        assert_eq!(&*tokens[0].text, "interface");
        assert_eq!((tokens[0].span.start, tokens[0].span.end), (0, 14));
        assert_eq!((tokens[1].span.start, tokens[1].span.end), (15, 16));
    }

    #[test]
    fn attaches_a_comment_only_to_what_follows_directly() {
        let doc =
            |source: &str| lex(source, FileId(0)).last().and_then(|t| t.doc.as_deref().map(str::to_owned));
        assert_eq!(doc("// one\n// two\nx").as_deref(), Some("one\ntwo"));
        assert_eq!(doc("/** one\n *  two\n */\nx").as_deref(), Some("one\n two"));
        assert_eq!(doc("// one\n\nx"), None);
        assert_eq!(doc("y; // one\nx"), None);
        assert_eq!(doc("/* one */ x"), None);
        assert_eq!(doc("//////\nx"), None);
    }

    #[test]
    fn literals_end_with_their_line() {
        let tokens = lex("\"a\nL'b' '\\'' \"\\\"\" '", FileId(0));
        let kinds: Vec<_> = tokens.iter().map(|t| matches!(t.kind, Kind::Bad(_))).collect();
        assert_eq!(kinds, [true, false, false, false, true]);
    }
}
