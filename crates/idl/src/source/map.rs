//! All source text of a run, and spans into it.

use crate::model::{FileId, FileInfo, Location};
use std::rc::Rc;

/// A range of bytes in a file, and the macro expansion that produced it, if any.
///
/// A token that comes out of a macro's body points at the body; following [`Expansion::call`] leads
/// back to what the user wrote in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub file: FileId,
    pub start: u32,
    pub end: u32,
    pub expansion: Option<ExpansionId>,
}

impl Span {
    pub fn new(file: FileId, start: usize, end: usize) -> Self {
        // Files are limited to far less than 4 GiB.
        Span { file, start: start as u32, end: end as u32, expansion: None }
    }

    /// From the start of `self` to the end of `last`, where both stand in the same text; else just
    /// `self`.
    pub fn to(self, last: Span) -> Span {
        if self.file == last.file && self.expansion == last.expansion && last.end >= self.start {
            Span { end: last.end, ..self }
        } else {
            self
        }
    }

    /// The empty range at the end.
    pub fn at_end(self) -> Span {
        Span { start: self.end, ..self }
    }
}

/// Index into the table of macro expansions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExpansionId(std::num::NonZeroU32);

/// One use of a macro.
#[derive(Clone, Debug)]
pub(crate) struct Expansion {
    pub name: Rc<str>,
    /// The position of the macro's name, perhaps inside another expansion.
    pub call: Span,
}

/// The text of one file.
#[derive(Debug)]
struct Source {
    text: Rc<str>,
    line_starts: Vec<u32>,
    /// Characters before each multiple of [`STRIDE`] bytes, so that a column in a line of megabytes
    /// costs no more than one in a short line.
    characters: Vec<u32>,
}

const STRIDE: usize = 1024;

impl Source {
    fn new(text: Rc<str>) -> Self {
        let mut line_starts = vec![0];
        line_starts.extend(text.match_indices('\n').map(|(i, _)| i as u32 + 1));
        let mut characters = Vec::with_capacity(text.len() / STRIDE + 1);
        let mut count = 0;
        for chunk in text.as_bytes().chunks(STRIDE) {
            characters.push(count);
            count += count_characters(chunk);
        }
        Source { text, line_starts, characters }
    }

    /// Characters before a byte.
    fn characters_before(&self, at: usize) -> u32 {
        let at = at.min(self.text.len());
        let chunk = (at / STRIDE).min(self.characters.len().saturating_sub(1));
        let counted = self.characters.get(chunk).copied().unwrap_or(0);
        counted + count_characters(&self.text.as_bytes()[chunk * STRIDE..at])
    }
}

/// Characters that begin in a piece of UTF-8.
fn count_characters(bytes: &[u8]) -> u32 {
    bytes.iter().filter(|b| **b & 0xc0 != 0x80).count() as u32
}

/// All files of a compilation with their text, from which diagnostics quote.
#[derive(Debug, Default)]
pub struct SourceMap {
    infos: Vec<FileInfo>,
    /// The line of the `#include` that brought the file in.
    include_lines: Vec<u32>,
    sources: Vec<Source>,
    expansions: Vec<Expansion>,
}

impl SourceMap {
    /// The files, the main file first.
    pub fn files(&self) -> &[FileInfo] {
        &self.infos
    }

    /// The text of a file. Bytes that are no UTF-8 were read as ISO 8859-1, which is IDL's
    /// character set.
    pub fn text(&self, file: FileId) -> &str {
        &self.sources[file.index()].text
    }

    /// A line of a file, counted from 1, without its end; empty if there is none.
    pub fn line(&self, file: FileId, line: u32) -> &str {
        let source = &self.sources[file.index()];
        let Some(&start) = (line as usize).checked_sub(1).and_then(|i| source.line_starts.get(i)) else {
            return "";
        };
        let end = source.line_starts.get(line as usize).map_or(source.text.len(), |&e| e as usize);
        source.text[start as usize..end].trim_end_matches(['\n', '\r'])
    }

    pub(crate) fn add(&mut self, info: FileInfo, include_line: u32, text: Rc<str>) -> FileId {
        self.infos.push(info);
        self.include_lines.push(include_line);
        self.sources.push(Source::new(text));
        FileId(self.infos.len() as u32 - 1)
    }

    /// The chain of `#include`s that leads to a file: (including file, line), innermost first.
    pub(crate) fn include_chain(&self, mut file: FileId) -> Vec<(FileId, u32)> {
        let mut chain = Vec::new();
        while let Some(by) = self.infos[file.index()].included_by {
            chain.push((by, self.include_lines[file.index()]));
            file = by;
        }
        chain
    }

    pub(crate) fn shared_text(&self, file: FileId) -> Rc<str> {
        self.sources[file.index()].text.clone()
    }

    pub(crate) fn add_expansion(&mut self, expansion: Expansion) -> ExpansionId {
        self.expansions.push(expansion);
        // The vector is not empty and is limited by MACRO_STEPS.
        ExpansionId(
            std::num::NonZeroU32::new(self.expansions.len() as u32).unwrap_or(std::num::NonZeroU32::MIN),
        )
    }

    pub(crate) fn expansion(&self, id: ExpansionId) -> &Expansion {
        &self.expansions[id.0.get() as usize - 1]
    }

    /// The user's text: the outermost macro call, or the span itself.
    pub(crate) fn written(&self, mut span: Span) -> Span {
        while let Some(id) = span.expansion {
            span = self.expansion(id).call;
        }
        span
    }

    /// The start of a span, in the text of the outermost macro call.
    pub(crate) fn locate(&self, span: Span) -> Location {
        self.locate_spelled(self.written(span))
    }

    /// The start of a span, even in the body of a macro.
    pub(crate) fn locate_spelled(&self, span: Span) -> Location {
        let source = &self.sources[span.file.index()];
        let line = source.line_starts.partition_point(|&s| s <= span.start);
        let start = source.line_starts[line - 1] as usize;
        let column = source.characters_before(span.start as usize) - source.characters_before(start) + 1;
        Location { file: span.file, line: line as u32, column }
    }
}

/// Turns bytes into text: UTF-8 if valid, else ISO 8859-1.
pub(crate) fn decode(bytes: Vec<u8>) -> String {
    match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => error.as_bytes().iter().map(|&b| char::from(b)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_however_long_the_line() {
        let text: String = "\n".to_owned() + &"aé€😀".repeat(1000) + "\nx";
        let mut map = SourceMap::default();
        let info = FileInfo {
            path: "a".into(),
            is_main: true,
            is_embedded: false,
            is_shown: true,
            is_standard: false,
            included_by: None,
        };
        let file = map.add(info, 0, text.as_str().into());
        let mut line = (1, 1);
        for (at, c) in text.char_indices() {
            let found = map.locate(Span::new(file, at, at));
            assert_eq!((found.line, found.column), line);
            line = if c == '\n' { (line.0 + 1, 1) } else { (line.0, line.1 + 1) };
        }
        assert_eq!(map.line(file, 3), "x");
        assert_eq!(map.line(file, 4), "");
    }

    #[test]
    fn what_is_no_utf8_is_latin1() {
        assert_eq!(decode(b"\xe9".to_vec()), "é");
        assert_eq!(decode("é".into()), "é");
    }
}
