//! What can be chosen about the output.

/// Settings of [`generate`](crate::generate).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether types can be put into an `any` (`impl AnyValue`); on by default.
    pub any: bool,
    /// Whether each octet but 0 is a boolean TRUE, as TAO and omniORB read it; off by default.
    pub lenient_booleans: bool,
    /// Whether references can begin calls and await them; off by default.
    pub asynchronous: bool,
    externs: Vec<(String, String)>,
    defaults: Vec<(String, u32)>,
    in_place: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            any: true,
            lenient_booleans: false,
            asynchronous: false,
            externs: Vec::new(),
            defaults: Vec::new(),
            in_place: Vec::new(),
        }
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

    /// Whether each octet but 0 is a boolean TRUE. If not, octets other than 0 and 1 are MARSHAL.
    #[must_use]
    pub fn lenient_booleans(mut self, on: bool) -> Self {
        self.lenient_booleans = on;
        self
    }

    /// Whether references have `…_begin` and `…_async` methods, beside those that wait.
    #[must_use]
    pub fn asynchronous(mut self, on: bool) -> Self {
        self.asynchronous = on;
        self
    }

    /// Gives an integer member of a struct, such as `Sensors::Reading::quality`, this value in the
    /// struct's `Default`.
    #[must_use]
    pub fn default_value(mut self, member: impl Into<String>, value: u32) -> Self {
        self.defaults.push((member.into(), value));
        self
    }

    /// Receives sequences of this typedef, such as `Sensors::Frame`, where the peer lent them: the
    /// parameters and results of exactly this type are `isorb::Lent` where they are received. It
    /// must be an unbounded sequence of octets, numbers, or structures of them without padding.
    #[must_use]
    pub fn receive_in_place(mut self, typedef: impl Into<String>) -> Self {
        self.in_place.push(typedef.into());
        self
    }

    /// The typedefs that are received in place.
    pub(crate) fn in_place(&self) -> impl Iterator<Item = &str> {
        self.in_place.iter().map(String::as_str)
    }

    /// The members that have a value of their own in their struct's `Default`, and the values.
    pub(crate) fn defaults(&self) -> impl Iterator<Item = (&str, u32)> {
        self.defaults.iter().map(|(member, value)| (&**member, *value))
    }

    /// The value of a member in its struct's `Default`, if it has one of its own.
    pub(crate) fn default_of(&self, member: &str) -> Option<u32> {
        self.defaults.iter().find(|(name, _)| name == member).map(|(_, value)| *value)
    }

    /// The Rust module of an IDL module that is not in the output. The standard modules are
    /// generated only where they do not come from the files of the ORB alone: where their own file
    /// is compiled, as `isorb-naming` does for CosNaming, and where other files add to them.
    pub(crate) fn external(&self, module: &str, is_standard: bool) -> Option<&str> {
        let of = |path: &'_ (String, String)| path.0.trim_start_matches("::") == module;
        if let Some((_, path)) = self.externs.iter().rev().find(|path| of(path)) {
            return Some(path);
        }
        match module {
            _ if !is_standard => None,
            "CosNaming" => Some("::isorb_naming::cos_naming"),
            "CORBA" => Some("::isorb::corba"),
            _ => None,
        }
    }
}
