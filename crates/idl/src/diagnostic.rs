//! Diagnostics and their rendering.

use crate::limits;
use crate::model::{FileId, Location};
use crate::rule::Rule;
use crate::source::{SourceMap, Span};
use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use std::collections::BTreeSet;
use std::ops::Range;

/// The severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The specification is not legal IDL.
    Error,
    /// The specification is legal, but probably not what its author meant.
    Warning,
}

/// A position in the source with a short text about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The position.
    pub location: Location,
    /// The bytes in the text of that file.
    pub range: Range<usize>,
    /// The text of the label; may be empty for the primary one.
    pub text: String,
}

/// One error or warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The severity.
    pub severity: Severity,
    /// The rule that other compilers do not enforce, if it is one.
    pub rule: Option<Rule>,
    /// One sentence without a full stop.
    pub message: String,
    /// The position; `None` if it concerns no file (the main file cannot be read).
    pub primary: Option<Label>,
    /// Other places that explain it: the previous definition, the body of a macro.
    pub related: Vec<Label>,
    /// Its origin: macro expansions and `#include`s.
    pub notes: Vec<String>,
    /// How to correct it.
    pub hint: Option<String>,
}

impl Diagnostic {
    /// Removes all that would quote a file that is not shown.
    fn withhold(&mut self, sources: &SourceMap) {
        let hidden = |label: &Label| !sources.files()[label.location.file.index()].is_shown;
        if !self.primary.iter().chain(&self.related).any(hidden) {
            return;
        }
        let place = self.primary.iter().chain(&self.related).find(|label| hidden(label));
        let file = place.map_or(FileId(0), |label| label.location.file);
        self.message = format!("`{}` is no IDL, by its name and its text", path(sources, file));
        (self.primary, self.rule) = (None, None);
        (self.related, self.notes) = (Vec::new(), Vec::new());
        self.hint = Some("its text is not shown; a file that is IDL has a name that ends in `.idl`".into());
    }

    /// Shows the diagnostic with its source lines, ending in a newline; with terminal colours if
    /// asked.
    pub fn render(&self, sources: &SourceMap, color: bool) -> String {
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let title = level.primary_title(self.message.as_str());
        let mut group = Group::with_title(match self.rule {
            Some(rule) => title.id(rule.name()),
            None => title,
        });
        if let Some(primary) = &self.primary {
            group = place(group, sources, primary, AnnotationKind::Primary);
        }
        for related in &self.related {
            group = place(group, sources, related, AnnotationKind::Context);
        }
        for note in &self.notes {
            group = group.element(Level::NOTE.message(note.as_str()));
        }
        if let Some(hint) = &self.hint {
            group = group.element(Level::HELP.message(hint.as_str()));
        }
        let renderer = if color { Renderer::styled() } else { Renderer::plain() };
        renderer.render(&[group]).to_string() + "\n"
    }
}

/// Lines longer than this are not shown.
const SHOWN_LINE: usize = 1000;

fn place<'a>(group: Group<'a>, sources: &'a SourceMap, label: &'a Label, kind: AnnotationKind) -> Group<'a> {
    let Location { file, line, column } = label.location;
    let path = sources.files()[file.index()].path.display().to_string();
    let text = sources.line(file, line);
    if text.len() > SHOWN_LINE || text.contains(|c: char| c.is_control() && c != '\t') {
        let group = group.element(Origin::path(path).line(line as usize).char_column(column as usize));
        return if label.text.is_empty() {
            group
        } else {
            group.element(Level::NOTE.message(label.text.as_str()))
        };
    }
    // Only the line itself is handed over, so the range must be made relative to it and kept
    // inside.
    let start = text.char_indices().nth(column as usize - 1).map_or(text.len(), |(i, _)| i);
    let mut end = (start + label.range.len()).min(text.len());
    while !text.is_char_boundary(end) {
        end += 1;
    }
    let words = (!label.text.is_empty()).then_some(label.text.as_str());
    let snippet = Snippet::source(text).path(path).line_start(line as usize);
    group.element(snippet.annotation(kind.span(start..end).label(words)))
}

/// A diagnostic that still refers to spans.
#[derive(Debug)]
pub(crate) struct Report {
    severity: Severity,
    rule: Option<Rule>,
    message: String,
    span: Option<Span>,
    label: String,
    related: Vec<(Span, String)>,
    hint: Option<String>,
}

impl Report {
    pub fn error(span: Span, message: impl Into<String>) -> Self {
        let (rule, label, related, hint) = Default::default();
        let (severity, message, span) = (Severity::Error, message.into(), Some(span));
        Report { severity, rule, message, span, label, related, hint }
    }

    /// A broken rule that leaves the meaning plain: a warning, and an error where the compilation
    /// is strict.
    pub fn lenient(rule: Rule, span: Span, message: impl Into<String>) -> Self {
        Report { rule: Some(rule), ..Report::warning(span, message) }
    }

    pub fn warning(span: Span, message: impl Into<String>) -> Self {
        Report { severity: Severity::Warning, ..Report::error(span, message) }
    }

    pub fn label(mut self, text: impl Into<String>) -> Self {
        self.label = text.into();
        self
    }

    pub fn also(mut self, span: Span, text: impl Into<String>) -> Self {
        self.related.push((span, text.into()));
        self
    }

    pub fn hint(mut self, text: impl Into<String>) -> Self {
        self.hint = Some(text.into());
        self
    }
}

/// Collects reports, up to a limit.
#[derive(Debug, Default)]
pub(crate) struct Diagnostics {
    /// Broken rules are errors.
    pub strict: bool,
    /// Rules that are not reported, strict or not.
    pub allowed: BTreeSet<Rule>,
    reports: Vec<Report>,
    errors: usize,
    dropped: usize,
}

impl Diagnostics {
    pub fn push(&mut self, mut report: Report) {
        if let Some(rule) = report.rule {
            if self.allowed.contains(&rule) {
                return;
            }
            if self.strict {
                report.severity = Severity::Error;
            }
        }
        self.errors += usize::from(report.severity == Severity::Error);
        // An error must not be lost behind a flood of warnings, so errors have room of their own.
        let kept = self.reports.iter().filter(|r| r.severity == report.severity).count();
        if kept < limits::DIAGNOSTICS {
            self.reports.push(report);
        } else {
            self.dropped += 1;
        }
    }

    pub fn error(&mut self, span: Span, message: impl Into<String>) {
        self.push(Report::error(span, message));
    }

    /// Reports an error that has no position in a file.
    pub fn general(&mut self, message: String) {
        self.errors += 1;
        let (rule, label, related, hint) = Default::default();
        let (severity, span) = (Severity::Error, None);
        self.reports.push(Report { severity, rule, message, span, label, related, hint });
    }

    /// Whether further errors would only be counted.
    pub fn is_full(&self) -> bool {
        self.errors >= limits::DIAGNOSTICS
    }

    pub fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Sorted by file (in order of inclusion), line and column, duplicates removed.
    pub fn finish(self, sources: &SourceMap) -> Vec<Diagnostic> {
        let mut all: Vec<Diagnostic> = self.reports.into_iter().map(|r| resolve(r, sources)).collect();
        all.iter_mut().for_each(|diagnostic| diagnostic.withhold(sources));
        all.sort_by_key(|d| d.primary.as_ref().map(|p| p.location));
        all.dedup();
        if self.dropped > 0 {
            all.push(Diagnostic {
                severity: if self.errors > limits::DIAGNOSTICS { Severity::Error } else { Severity::Warning },
                rule: None,
                message: format!("{} more errors or warnings are not shown", self.dropped),
                primary: None,
                related: Vec::new(),
                notes: Vec::new(),
                hint: None,
            });
        }
        all
    }
}

fn resolve(report: Report, sources: &SourceMap) -> Diagnostic {
    let mut related: Vec<Label> =
        report.related.into_iter().map(|(span, text)| label(sources.written(span), text, sources)).collect();
    let mut notes = Vec::new();
    if let Some(span) = report.span {
        expansion_notes(span, sources, &mut related);
        for (file, line) in sources.include_chain(sources.written(span).file) {
            notes.push(format!("included from {}:{line}", path(sources, file)));
        }
    }
    let primary = report.span.map(|span| label(sources.written(span), report.label, sources));
    let Report { severity, rule, message, hint, .. } = report;
    Diagnostic { severity, rule, message, primary, related, notes, hint }
}

/// At most this many levels of macros are shown.
const SHOWN_EXPANSIONS: usize = 4;

fn expansion_notes(mut span: Span, sources: &SourceMap, related: &mut Vec<Label>) {
    for _ in 0..SHOWN_EXPANSIONS {
        let Some(id) = span.expansion else { break };
        let expansion = sources.expansion(id);
        let spelled = Span { expansion: None, ..span };
        related.push(label(spelled, format!("in the expansion of macro `{}`", expansion.name), sources));
        span = expansion.call;
    }
}

fn label(span: Span, text: String, sources: &SourceMap) -> Label {
    Label { location: sources.locate_spelled(span), range: span.start as usize..span.end as usize, text }
}

fn path(sources: &SourceMap, file: FileId) -> String {
    sources.files()[file.index()].path.display().to_string()
}
