//! Source files, where they come from, and positions in them.

mod loader;
mod map;

pub use loader::{EmbeddedFiles, FsLoader, Loader, MemoryLoader};
pub use map::SourceMap;
pub(crate) use map::decode;
pub(crate) use map::{Expansion, ExpansionId, Span};
