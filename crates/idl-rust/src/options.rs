//! What can be chosen about the output.

/// Settings of [`generate`](crate::generate).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether types can be put into an `any` (`impl AnyValue`); on by default.
    pub any: bool,
    externs: Vec<(String, String)>,
}

impl Default for Options {
    fn default() -> Self {
        Options { any: true, externs: Vec::new() }
    }
}

impl Options {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Says that the IDL module `module` (a scoped name such as `Other` or `Outer::Inner`) exists
    /// as the Rust module `path` (such as `::other_crate::other`), so that it is referred to
    /// instead of generated.
    #[must_use]
    pub fn extern_module(mut self, module: impl Into<String>, path: impl Into<String>) -> Self {
        self.externs.push((module.into(), path.into()));
        self
    }

    /// Whether types can be put into an `any`.
    #[must_use]
    pub fn any(mut self, on: bool) -> Self {
        self.any = on;
        self
    }

    /// The Rust module of an IDL module that is not in the output. The standard modules are
    /// generated only where their own file is compiled, as `isorb-naming` does for CosNaming.
    pub(crate) fn external(&self, module: &str, in_main_file: bool) -> Option<&str> {
        let of = |path: &'_ (String, String)| path.0.trim_start_matches("::") == module;
        if let Some((_, path)) = self.externs.iter().rev().find(|path| of(path)) {
            return Some(path);
        }
        match module {
            _ if in_main_file => None,
            "CosNaming" => Some("::isorb_naming::cos_naming"),
            "CORBA" => Some("::isorb::corba"),
            _ => None,
        }
    }
}
