//! The bounds that keep any input, however malicious, from costing unbounded time, memory or stack.
//!
//! They lie far above what people write (the largest known IDL files have some tens of thousands of
//! lines). Reaching one is an error like any other, reported with its position.

/// Bytes in one source file.
pub(crate) const FILE_BYTES: usize = 16 << 20;
/// `#include`s inside each other.
pub(crate) const INCLUDE_DEPTH: usize = 64;
/// `#include`s in all, since a file may include another twice at each level.
pub(crate) const INCLUDES: usize = 4096;
/// Tokens in one file, and tokens that the preprocessor hands to the parser.
pub(crate) const TOKENS: usize = 2 << 20;
/// Tokens that macro expansion handles, over the whole run; ends macro bombs.
pub(crate) const MACRO_STEPS: usize = 1 << 20;
/// Macro calls inside arguments of macro calls.
pub(crate) const MACRO_DEPTH: usize = 64;
/// Bytes that `##` and `#` may build into one token.
pub(crate) const PASTED_BYTES: usize = 64 << 10;
/// `#if`s inside each other.
pub(crate) const CONDITIONAL_DEPTH: usize = 256;
/// Brackets of any kind inside each other: modules, types, expressions.
pub(crate) const NESTING: usize = 96;
/// Direct and indirect bases of one interface or value.
pub(crate) const BASES: usize = 512;
/// Definitions in one specification.
pub(crate) const DEFINITIONS: usize = 500_000;
/// Elements of one array, over all dimensions.
pub(crate) const ARRAY_ELEMENTS: u64 = u32::MAX as u64;
/// Structs and unions inside each other by value.
pub(crate) const VALUE_DEPTH: u32 = 256;
/// Aliases of aliases in one type code.
pub(crate) const ALIAS_CODES: u32 = 32;
/// Diagnostics that are kept; the rest is counted.
pub(crate) const DIAGNOSTICS: usize = 100;
