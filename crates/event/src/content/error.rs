//! Why an expression is refused, shown with its offending part.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use std::fmt;
use std::ops::Range;

/// The most octets of an expression that a message quotes.
const QUOTED: usize = 1000;

/// An expression that is no content filter for its type.
///
/// `Display` shows the expression, with a caret under the offending part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ContentError {
    expression: String,
    range: Range<usize>,
    message: String,
    label: String,
    hint: Option<String>,
}

impl ContentError {
    pub(super) fn new(range: Range<usize>, message: impl Into<String>) -> ContentError {
        let (expression, label, hint) = Default::default();
        ContentError { expression, range, message: message.into(), label, hint }
    }

    /// Adds a text beside the caret.
    pub(super) fn label(mut self, label: impl Into<String>) -> ContentError {
        self.label = label.into();
        self
    }

    /// Adds how to correct it.
    pub(super) fn hint(mut self, hint: impl Into<String>) -> ContentError {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the expression, which the layers below do not know.
    pub(super) fn of(mut self, expression: &str) -> ContentError {
        let mut end = expression.len().min(QUOTED);
        while !expression.is_char_boundary(end) {
            end -= 1;
        }
        // A line without control characters, so that the caret stands where it belongs.
        self.expression = expression[..end].replace(|c: char| c.is_ascii_control(), " ");
        self
    }

    /// The sentence without the expression.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The offending octets of the expression.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }
}

impl fmt::Display for ContentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = self.expression.as_str();
        let mut group = Group::with_title(Level::ERROR.primary_title(self.message.as_str()));
        let inside = self.range.start <= quoted.len() && self.range.end <= quoted.len();
        if inside && !quoted.is_empty() && !quoted.contains(|c: char| c.is_control()) {
            let words = (!self.label.is_empty()).then_some(self.label.as_str());
            let annotation = AnnotationKind::Primary.span(self.range.clone()).label(words);
            group = group.element(Snippet::source(quoted).path("filter").annotation(annotation));
        } else if !self.label.is_empty() {
            group = group.element(Level::NOTE.message(self.label.as_str()));
        }
        if let Some(hint) = &self.hint {
            group = group.element(Level::HELP.message(hint.as_str()));
        }
        f.write_str(&Renderer::plain().render(&[group]).to_string())
    }
}

impl std::error::Error for ContentError {}
