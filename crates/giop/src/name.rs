//! Names of the naming service as strings (CosNaming, clause 2.4 of its specification):
//! `id.kind/id.kind`, with a backslash before a slash, a dot or a backslash that is part of an id
//! or kind.

use crate::url::{UrlError, UrlErrorKind};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write};
use core::str::FromStr;

/// A component of a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NameComponent {
    /// Identifier.
    pub id: String,
    /// Kind; mostly empty.
    pub kind: String,
}

impl NameComponent {
    /// A component of an id and a kind.
    pub fn new(id: impl Into<String>, kind: impl Into<String>) -> NameComponent {
        NameComponent { id: id.into(), kind: kind.into() }
    }
}

/// `id`, `id.kind`, `.kind` or, with neither, `.`.
impl fmt::Display for NameComponent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escape(&self.id, f)?;
        if !self.kind.is_empty() || self.id.is_empty() {
            f.write_char('.')?;
        }
        escape(&self.kind, f)
    }
}

fn escape(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    text.chars().try_for_each(|c| {
        if matches!(c, '/' | '.' | '\\') {
            f.write_char('\\')?;
        }
        f.write_char(c)
    })
}

/// A name: one or more components.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Vec<NameComponent>);

impl Name {
    /// A name of these components; `None` of none.
    pub fn new(components: Vec<NameComponent>) -> Option<Name> {
        (!components.is_empty()).then_some(Name(components))
    }

    /// Its components, at least one.
    pub fn components(&self) -> &[NameComponent] {
        &self.0
    }

    /// Its components, at least one.
    pub fn into_components(self) -> Vec<NameComponent> {
        self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, component) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_char('/')?;
            }
            write!(f, "{component}")?;
        }
        Ok(())
    }
}

impl FromStr for Name {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Name, UrlError> {
        let mut components = Vec::new();
        let mut partial = PartialComponent::default();
        let mut chars = text.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '/' => components.push(partial.take().map_err(|kind| UrlError::at(kind, text, at))?),
                '.' if partial.dotted => return Err(UrlError::at(UrlErrorKind::NameDots, text, at)),
                '.' => partial.dotted = true,
                '\\' => match chars.next() {
                    Some((_, c @ ('/' | '.' | '\\'))) => partial.push(c),
                    _ => return Err(UrlError::at(UrlErrorKind::NameEscape, text, at)),
                },
                c => partial.push(c),
            }
        }
        components.push(partial.take().map_err(|kind| UrlError::at(kind, text, text.len()))?);
        Ok(Name(components))
    }
}

/// A component while it is parsed.
#[derive(Default)]
struct PartialComponent {
    component: NameComponent,
    dotted: bool,
}

impl PartialComponent {
    fn push(&mut self, c: char) {
        if self.dotted { self.component.kind.push(c) } else { self.component.id.push(c) }
    }

    /// The component, which must not be empty: an empty one is written `.`; a dot behind an id
    /// needs a kind.
    fn take(&mut self) -> Result<NameComponent, UrlErrorKind> {
        let PartialComponent { component, dotted } = core::mem::take(self);
        match (component.id.is_empty(), component.kind.is_empty(), dotted) {
            (true, true, false) => Err(UrlErrorKind::NameEmpty),
            (false, true, true) => Err(UrlErrorKind::NameKind),
            _ => Ok(component),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;
    use proptest::prelude::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        let name: Name = text.parse().unwrap();
        assert_eq!(name.to_string(), text);
        name.into_components().into_iter().map(|c| (c.id, c.kind)).collect()
    }

    fn pair(id: &str, kind: &str) -> (String, String) {
        (id.into(), kind.into())
    }

    #[test]
    fn the_specifications_examples() {
        assert_eq!(pairs("a.b"), [pair("a", "b")]);
        assert_eq!(pairs("a/./c.d/.e"), [pair("a", ""), pair("", ""), pair("c", "d"), pair("", "e")]);
        assert_eq!(pairs(r"a\/b/c\.d/e\\f"), [pair("a/b", ""), pair("c.d", ""), pair(r"e\f", "")]);
        assert_eq!(pairs("gr\u{fc}n/lab 1"), [pair("gr\u{fc}n", ""), pair("lab 1", "")]);
    }

    #[test]
    fn errors() {
        let error = |text: &str| {
            let e = text.parse::<Name>().unwrap_err();
            (e.kind, e.column)
        };
        assert_eq!(error(""), (UrlErrorKind::NameEmpty, 1));
        assert_eq!(error("a//b"), (UrlErrorKind::NameEmpty, 3));
        assert_eq!(error("a/"), (UrlErrorKind::NameEmpty, 3));
        assert_eq!(error("a.b.c"), (UrlErrorKind::NameDots, 4));
        assert_eq!(error("a./b"), (UrlErrorKind::NameKind, 3));
        assert_eq!(error(r"a\b"), (UrlErrorKind::NameEscape, 2));
        assert_eq!(error(r"ab\"), (UrlErrorKind::NameEscape, 3));
        assert_eq!(Name::new(vec![]), None);
    }

    proptest! {
        #[test]
        fn round_trip(parts in proptest::collection::vec((r"[a-z./\\ü]{0,5}", r"[a-z./\\]{0,5}"), 1..5)) {
            let components = parts.into_iter().map(|(id, kind)| NameComponent::new(id, kind)).collect();
            let name = Name::new(components).unwrap();
            prop_assert_eq!(name.to_string().parse(), Ok(name));
        }

        #[test]
        fn any_text(text in r"[a./\\]{0,12}") {
            if let Ok(name) = text.parse::<Name>() {
                prop_assert_eq!(name.to_string(), text);
            }
        }
    }
}
