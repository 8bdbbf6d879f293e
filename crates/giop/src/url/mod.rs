//! Object URLs (clause 7.6.10).

mod error;

pub use error::{UrlError, UrlErrorKind};
