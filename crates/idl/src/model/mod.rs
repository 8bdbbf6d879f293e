//! The checked model: what a correct IDL specification means, ready for a back end.
//!
//! A [`Spec`] exists only for a specification without errors, so a back end may rely on all that
//! the checks promise: every [`DefId`] is valid and of the kind that its place calls for, every
//! constant is evaluated and in range, every union label fits its discriminator, recursion goes
//! through sequences (or values) only.
//!
//! A `Spec` is an arena. Definitions refer to each other by index, so cyclic types need no
//! reference counting:
//!
//! ```text
//! Spec
//!  ├─ files     [FileInfo]            the main file is files[0]
//!  ├─ roots     [DefId]               definitions at file scope, in order
//!  └─ defs      [Definition]          all, in order of introduction
//!       ├─ name, repository id, location, doc, annotations
//!       ├─ parent, contents           the tree of scopes
//!       └─ kind: DefKind              Interface, Struct, Operation ...
//! ```
//!
//! Definitions are what has a scoped name of its own: modules, types, constants, exceptions,
//! operations, attributes and enumerators. Struct members, parameters, union cases, state members
//! and factories belong to their definition and are plain [`Member`]s and [`Param`]s inside it.
//!
//! This module knows no target language: it says that an operation is called `type`, not what to
//! call it elsewhere.

mod constant;
mod definition;
mod dump;
mod queries;
mod types;

pub use constant::{Annotation, AnnotationArg, AnnotationValue, ConstValue, FixedValue, Label};
pub use definition::{
    Attribute, Const, DefId, DefKind, Definition, Direction, Enum, Enumerator, Exception, Factory, Interface,
    Member, Operation, Param, StateMember, Struct, Typedef, Union, UnionCase, Value, ValueBox,
};
pub use types::Type;

use std::ops::Index;
use std::path::PathBuf;

/// Index of a source file in [`Spec::files`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub(crate) u32);

impl FileId {
    /// The position in [`Spec::files`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A source file that took part in the compilation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// The path as it was opened; for an embedded standard file, the name it was asked for.
    pub path: PathBuf,
    /// Whether this is the file that `compile` was called with.
    pub is_main: bool,
    /// Whether the text came from the embedded standard files rather than from the file system.
    pub is_embedded: bool,
    /// Whether diagnostics may show its text: not that of an included file without the name of IDL,
    /// which may be anything that this process can read.
    pub is_shown: bool,
    /// Whether this is the ORB's own standard file of that name, wherever it was found.
    pub is_standard: bool,
    /// The file that included this one first; `None` for the main file.
    pub included_by: Option<FileId>,
}

/// A position in the source, for messages and generated comments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// The file.
    pub file: FileId,
    /// Line, counted from 1.
    pub line: u32,
    /// Column in characters, counted from 1.
    pub column: u32,
}

/// A complete, checked IDL specification.
#[derive(Clone, Debug, Default)]
pub struct Spec {
    pub(crate) files: Vec<FileInfo>,
    pub(crate) defs: Vec<Definition>,
    pub(crate) roots: Vec<DefId>,
}

impl Spec {
    /// The definitions at file scope, in order of introduction, from all files.
    pub fn roots(&self) -> &[DefId] {
        &self.roots
    }

    /// All definitions with their ids, in order of introduction (a forward declaration introduces
    /// too).
    pub fn definitions(&self) -> impl ExactSizeIterator<Item = (DefId, &Definition)> {
        self.defs.iter().enumerate().map(|(i, d)| (DefId(i as u32), d))
    }

    /// The files of the compilation; the main file comes first.
    pub fn files(&self) -> &[FileInfo] {
        &self.files
    }

    /// The file with that id.
    pub fn file(&self, id: FileId) -> &FileInfo {
        &self.files[id.index()]
    }

    /// The definitions in the scope of `id`, or at file scope for `None`.
    pub fn contents(&self, id: Option<DefId>) -> &[DefId] {
        id.map_or(&self.roots, |id| &self[id].contents)
    }

    /// Finds a definition by its full path without leading `::`, such as
    /// `CosNaming::NamingContext::bind`.
    pub fn find(&self, scoped_name: &str) -> Option<DefId> {
        let mut scope = None;
        for part in scoped_name.split("::") {
            let names = self.contents(scope).iter().flat_map(|&id| match &self[id].kind {
                DefKind::Enum(e) => [&[id], e.enumerators.as_slice()].concat(),
                _ => vec![id],
            });
            scope = Some({ names }.find(|&id| self[id].name == part)?);
        }
        scope
    }

    /// The path of a definition from file scope: `["CosNaming", "NamingContext"]`.
    pub fn path(&self, id: DefId) -> Vec<&str> {
        let mut path = vec![self[id].name.as_str()];
        let mut at = self[id].parent;
        while let Some(up) = at {
            path.push(&self[up].name);
            at = self[up].parent;
        }
        path.reverse();
        path
    }

    /// The scoped name of a definition, without leading `::`.
    pub fn scoped_name(&self, id: DefId) -> String {
        self.path(id).join("::")
    }
}

impl Index<DefId> for Spec {
    type Output = Definition;

    fn index(&self, id: DefId) -> &Definition {
        &self.defs[id.index()]
    }
}
