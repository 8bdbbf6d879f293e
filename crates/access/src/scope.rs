//! Permissions, and what they extend to.

use std::ops::RangeInclusive;

/// What a caller may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Permission {
    /// Resolve names, consume events, read areas, query schedules and reports.
    Read,
    /// Bind and unbind names, and register operations with a scheduler.
    Bind,
    /// Supply events, and join a federation.
    Supply,
    /// Create, write and remove areas, and register nodes.
    Write,
    /// Destroy, reconfigure and fetch recordings.
    Administer,
}

impl Permission {
    /// All permissions.
    pub const ALL: [Permission; 5] =
        [Permission::Read, Permission::Bind, Permission::Supply, Permission::Write, Permission::Administer];

    /// Its name in policy files.
    pub fn name(self) -> &'static str {
        ["read", "bind", "supply", "write", "administer"][self as usize]
    }

    /// The bit that says: at least for some subjects.
    pub(crate) fn some(self) -> u32 {
        1 << self as u32
    }

    /// The bit that says: for all subjects.
    pub(crate) fn all(self) -> u32 {
        self.some() << 8
    }
}

/// What an operation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject<'a> {
    /// A name in a naming service, an operation of a schedule, an area.
    Name(&'a str),
    /// The type of an event.
    EventType(i32),
}

/// A part of the subjects of a permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Names; `*` stands for any characters.
    Names(String),
    /// Types of events.
    Types(RangeInclusive<i32>),
}

impl Scope {
    /// The scope that `text` names, for a permission that has scopes.
    ///
    /// # Errors
    /// A sentence about the form that was expected.
    pub fn parse(permission: Permission, text: &str) -> Result<Scope, String> {
        match permission {
            Permission::Bind | Permission::Write if !text.is_empty() => Ok(Scope::Names(text.into())),
            Permission::Supply => {
                let (first, last) = text.split_once("..").unwrap_or((text, text));
                match (first.parse::<i32>(), last.parse::<i32>()) {
                    (Ok(first), Ok(last)) if first <= last => Ok(Scope::Types(first..=last)),
                    _ => Err("give a type of events or two, as in supply:16 or supply:16..31".into()),
                }
            }
            Permission::Bind | Permission::Write => {
                Err(format!("give a name, as in {}:lab/*", permission.name()))
            }
            _ => Err(format!("{} is for everything; leave out the part behind the colon", permission.name())),
        }
    }

    pub fn covers(&self, subject: Subject<'_>) -> bool {
        match (self, subject) {
            (Scope::Names(pattern), Subject::Name(name)) => matches(pattern.as_bytes(), name.as_bytes()),
            (Scope::Types(types), Subject::EventType(number)) => types.contains(&number),
            _ => false,
        }
    }
}

/// Whether a name is of a pattern. Linear but for the number of stars.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(octet) if *octet == name[n] => (p, n) = (p + 1, n + 1),
            _ => {
                // The last star takes one octet more.
                let Some((at, from)) = star else { return false };
                star = Some((at, from + 1));
                (p, n) = (at + 1, from + 1);
            }
        }
    }
    pattern[p..].iter().all(|octet| *octet == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters() {
        let covers = |pattern: &str, name| Scope::Names(pattern.into()).covers(Subject::Name(name));
        for (pattern, name) in
            [("*", ""), ("lab/*", "lab/a/b"), ("*.raw", "x.raw"), ("a*b*c", "a1b2b3c"), ("a", "a")]
        {
            assert!(covers(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("", "a"), ("lab/*", "lab"), ("*.raw", "x.raws"), ("a*b*c", "acb"), ("a", "aa")]
        {
            assert!(!covers(pattern, name), "{pattern} {name}");
        }
        assert!(!covers("*", "x") || !Scope::Names("*".into()).covers(Subject::EventType(1)));
    }

    #[test]
    fn types_are_numbers_or_ranges() {
        let types = Scope::parse(Permission::Supply, "16..31").unwrap();
        assert!(types.covers(Subject::EventType(16)) && types.covers(Subject::EventType(31)));
        assert!(!types.covers(Subject::EventType(32)));
        for wrong in ["", "x", "5..3", "1..2..3"] {
            assert!(Scope::parse(Permission::Supply, wrong).is_err(), "{wrong}");
        }
        assert!(Scope::parse(Permission::Read, "x").is_err() && Scope::parse(Permission::Bind, "").is_err());
    }
}
