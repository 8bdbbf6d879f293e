//! From tokens to a syntax tree.

pub(crate) mod ast;
pub(crate) mod keyword;
pub(crate) mod literal;
mod parser;

pub(crate) use parser::parse;
