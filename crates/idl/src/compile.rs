//! The entry points: options, the compilation, and its outcome.

use crate::diagnostic::{Diagnostic, Severity};
use crate::model::Spec;
use crate::rule::{self, Rule};
use crate::source::{EmbeddedFiles, FsLoader, Loader, SourceMap};
use crate::{pp, sema, syntax};
use std::path::{Path, PathBuf};

/// Options of a compilation.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Directories in which `#include` looks, in order (`-I`).
    pub include_dirs: Vec<PathBuf>,
    /// Macros that are defined beforehand, with their bodies (`-DNAME` has body `1`).
    pub defines: Vec<(String, String)>,
    /// Rules that other compilers do not enforce are enforced: breaking one is an error.
    pub strict: bool,
    /// Rules without warnings and errors.
    pub allow: Vec<Rule>,
    /// `#include` finds files in the folder of the main file and in `include_dirs` only, whatever
    /// the name or a link says.
    pub confined: bool,
    /// Standard files for `#include`s that no directory satisfies.
    pub embedded: Option<EmbeddedFiles>,
}

/// The result of a compilation.
#[derive(Debug)]
pub struct Outcome {
    /// The checked model; `None` when there was an error.
    pub spec: Option<Spec>,
    /// Errors and warnings, sorted by place.
    pub diagnostics: Vec<Diagnostic>,
    /// The source text to which the diagnostics refer.
    pub sources: SourceMap,
}

impl Outcome {
    /// All diagnostics as text for a terminal or log.
    pub fn render(&self, color: bool) -> String {
        self.diagnostics.iter().map(|d| d.render(&self.sources, color)).collect::<Vec<_>>().join("\n")
    }

    /// Whether there was an error, and so no model.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|d| d.severity == Severity::Error)
    }
}

/// Compiles an IDL file from the file system.
///
/// Never panics, whatever the file holds; time and memory are bounded by the size of the input
/// times fixed limits.
pub fn compile(options: &Options, file: &Path) -> Outcome {
    compile_with(options, &FsLoader, file)
}

/// Compiles an IDL file from wherever `loader` takes files; for tests, fuzzing and editors.
pub fn compile_with(options: &Options, loader: &dyn Loader, file: &Path) -> Outcome {
    let pp::Preprocessed { tokens, pragmas, sources, mut diagnostics } =
        pp::preprocess(options, loader, file);
    let (allowed, reports) = rule::allowed(&pragmas);
    diagnostics.strict = options.strict;
    diagnostics.allowed = allowed.into_iter().chain(options.allow.iter().copied()).collect();
    reports.into_iter().for_each(|report| diagnostics.push(report));
    let items = syntax::parse(tokens, &mut diagnostics);
    let spec = sema::resolve(&items, &pragmas, &sources, &mut diagnostics);
    let spec = (!diagnostics.has_errors()).then_some(spec);
    Outcome { spec, diagnostics: diagnostics.finish(&sources), sources }
}
