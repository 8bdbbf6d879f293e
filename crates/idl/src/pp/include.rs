//! `#include`: finding files and reading them once.

use super::token::{Kind, Token};
use super::{Preprocessor, lexer};
use crate::diagnostic::Report;
use crate::limits;
use crate::model::{FileId, FileInfo};
use crate::source::{self, Span};
use crate::standard;
use std::io;
use std::path::{Component, Path, PathBuf};

impl Preprocessor<'_> {
    pub(super) fn include(&mut self, directive: &Token, rest: &[Token], depth: usize) {
        let Some((name, quoted, span)) = self.header_name(rest) else {
            let report = Report::error(directive.span, "`#include` needs a file name");
            return self
                .out
                .diagnostics
                .push(report.hint("write `#include \"file.idl\"` or `#include <file.idl>`"));
        };
        if depth + 1 >= limits::INCLUDE_DEPTH {
            return self.stop(span, "includes are nested too deeply");
        }
        self.includes += 1;
        if self.includes > limits::INCLUDES {
            return self.stop(span, "there are too many includes");
        }
        let file = match self.find(&name, quoted, span) {
            Ok(file) => file,
            Err(problem) => {
                let mut report =
                    Report::error(span, format!("cannot include `{name}`: {}", reason(&problem)));
                if problem.kind() == io::ErrorKind::NotFound {
                    report = report.hint("name the directory that it is in with -I");
                }
                return self.out.diagnostics.push(report);
            }
        };
        if self.once.contains(&file) {
            return;
        }
        self.emit(std::iter::once(Token::marker(Kind::FileBegin, span)));
        self.file(file, depth + 1);
        self.emit(std::iter::once(Token::marker(Kind::FileEnd, span)));
    }

    /// The file name, whether it is in quotes, and its position.
    fn header_name(&mut self, rest: &[Token]) -> Option<(String, bool, Span)> {
        let expanded;
        let tokens = match rest.first()?.kind {
            Kind::Ident => {
                expanded = self.expand(rest, 0);
                &expanded
            }
            _ => rest,
        };
        let (first, last) = (tokens.first()?, tokens.last()?);
        if first.kind == Kind::String && first.text.starts_with('"') {
            return Some((first.text.trim_matches('"').to_owned(), true, first.span));
        }
        if !first.is("<") || !last.is(">") {
            return None;
        }
        let inner = &tokens[1..tokens.len() - 1];
        // A file name is text, not tokens, so its spaces count.
        let mut name = String::new();
        for token in inner {
            if !name.is_empty() && token.spaced {
                name.push(' ');
            }
            name.push_str(&token.text);
        }
        (!name.is_empty()).then(|| (name, false, first.span.to(last.span)))
    }

    fn find(&mut self, name: &str, quoted: bool, at: Span) -> io::Result<FileId> {
        let mut places = Vec::new();
        if Path::new(name).is_absolute() {
            places.push(PathBuf::from(name));
        } else {
            let here = &self.out.sources.files()[at.file.index()];
            // An embedded file lies in no directory.
            if quoted && !here.is_embedded {
                places.push(here.path.parent().unwrap_or(Path::new("")).join(name));
            }
            places.extend(self.options.include_dirs.iter().map(|dir| dir.join(name)));
        }
        for place in places {
            match self.confine(&place).and_then(|()| self.open(&place, Some(at))) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => return other,
            }
        }
        let text = self.options.embedded.and_then(|embedded| embedded(name));
        match text {
            Some(text) => self.admit(PathBuf::from(name), text.to_owned(), Some(at), true),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Refuses a file outside the folders, where that is asked for.
    fn confine(&self, place: &Path) -> io::Result<()> {
        if !self.options.confined {
            return Ok(());
        }
        let file = self.loader.canonical(place)?;
        let main = self.out.sources.files().first().and_then(|file| file.path.parent());
        let mut folders = self.options.include_dirs.iter().map(PathBuf::as_path).chain(main);
        let inside = |folder: &Path| self.loader.canonical(folder).is_ok_and(|dir| file.starts_with(dir));
        match folders.any(inside) {
            true => Ok(()),
            false => Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "it lies outside the folders for includes, and includes are confined to them",
            )),
        }
    }

    /// Reads and lexes a file, or remembers that this was done.
    pub(super) fn open(&mut self, path: &Path, at: Option<Span>) -> io::Result<FileId> {
        let path = tidy(path);
        if let Some(&known) = self.files.get(&path) {
            return Ok(known);
        }
        let bytes = self.loader.load(&path, limits::FILE_BYTES)?;
        if bytes.len() > limits::FILE_BYTES {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the file is too large"));
        }
        self.admit(path, source::decode(bytes), at, false)
    }

    /// Whether a file has the name of IDL, also behind links; the text of others is not shown.
    fn is_named_as_idl(&self, path: &Path) -> bool {
        let named = |path: &Path| {
            let extension = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
            matches!(&*extension, "idl" | "pidl" | "ridl" | "idl2" | "inc" | "h" | "hh")
        };
        named(path) && self.loader.canonical(path).is_ok_and(|path| named(&path))
    }

    fn admit(
        &mut self,
        path: PathBuf,
        text: String,
        at: Option<Span>,
        is_embedded: bool,
    ) -> io::Result<FileId> {
        if let Some(&known) = self.files.get(&path) {
            return Ok(known);
        }
        let at = at.map(|span| self.out.sources.locate(span));
        let info = FileInfo {
            path: path.clone(),
            is_main: at.is_none(),
            is_embedded,
            is_shown: is_embedded || at.is_none() || self.is_named_as_idl(&path),
            is_standard: standard::file(&file_name(&path)).is_some_and(|standard| standard == text),
            included_by: at.map(|location| location.file),
        };
        let file = self.out.sources.add(info, at.map_or(0, |location| location.line), text.into());
        let text = self.out.sources.shared_text(file);
        self.lexed.push(lexer::lex(&text, file).into());
        self.files.insert(path, file);
        Ok(file)
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Why a file cannot be read.
pub(super) fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".to_owned(),
        _ => error.to_string(),
    }
}

/// Removes `.` and, where that is safe, `..`, so that a file keeps one name.
fn tidy(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            // `..` after a symbolic link does not lead back, but two names for one file do no harm.
            part => out.push(part),
        }
    }
    out
}
