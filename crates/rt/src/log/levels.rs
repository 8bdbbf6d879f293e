//! Which records are written: the least severe level, for all targets or for some.

use super::Level;
use core::fmt;

/// Least severe levels by target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Levels {
    others: Option<Level>,
    /// The longest target first.
    targets: Vec<(Box<str>, Option<Level>)>,
}

/// A part of a setting that is neither a level nor `TARGET=LEVEL`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownLevel(String);

impl fmt::Display for UnknownLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' is no level of log records; levels are off, error, warn, info and debug, for all records \
             (warn) or for a target (isorb::server=debug), separated by commas",
            self.0
        )
    }
}

impl std::error::Error for UnknownLevel {}

impl Default for Levels {
    fn default() -> Levels {
        Levels { others: Some(Level::Info), targets: Vec::new() }
    }
}

impl Levels {
    /// Reads a setting such as `warn,isorb::server=debug`. What it does not name stays at `info`.
    pub fn parse(setting: &str) -> Result<Levels, UnknownLevel> {
        let mut levels = Levels::default();
        for part in setting.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (target, name) =
                part.split_once('=').map_or((None, part), |(t, l)| (Some(t.trim()), l.trim()));
            let level = match name {
                "off" => None,
                "error" => Some(Level::Error),
                "warn" => Some(Level::Warn),
                "info" => Some(Level::Info),
                "debug" => Some(Level::Debug),
                _ => return Err(UnknownLevel(part.into())),
            };
            match target {
                None => levels.others = level,
                Some("") => return Err(UnknownLevel(part.into())),
                Some(target) => {
                    levels.targets.retain(|(other, _)| **other != *target);
                    levels.targets.push((target.into(), level));
                }
            }
        }
        levels.targets.sort_by_key(|(target, _)| core::cmp::Reverse(target.len()));
        Ok(levels)
    }

    /// The least severe level of any target.
    pub fn most_verbose(&self) -> Option<Level> {
        self.targets.iter().map(|(_, level)| *level).fold(self.others, Option::max)
    }

    /// The least severe level of a target, which may be named by its first parts.
    pub fn of(&self, target: &str) -> Option<Level> {
        let is_under = |first: &str| {
            target.strip_prefix(first).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        self.targets.iter().find(|(first, _)| is_under(first)).map_or(self.others, |(_, level)| *level)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_longest_target_decides() {
        let levels = Levels::parse("warn, isorb=off,isorb::server=debug").unwrap();
        for (target, level) in [
            ("isorb", None),
            ("isorb::connection", None),
            ("isorb::server", Some(Level::Debug)),
            ("isorb::server::lane", Some(Level::Debug)),
            ("isorb::servers", None),
            ("isorbit", Some(Level::Warn)),
        ] {
            assert_eq!(levels.of(target), level, "{target}");
        }
        assert_eq!(levels.most_verbose(), Some(Level::Debug));
    }

    #[test]
    fn info_and_more_severe_records_are_written_by_default() {
        assert_eq!(Levels::parse("").unwrap(), Levels::default());
        assert_eq!(Levels::parse("isorb=debug").unwrap().of("mine"), Some(Level::Info));
        assert_eq!(Levels::parse("off").unwrap().most_verbose(), None);
    }

    #[test]
    fn an_unknown_level_is_named() {
        for wrong in ["loud", "warn,isorb=loud", "=warn", "Warn", "isorb::server"] {
            let error = Levels::parse(wrong).unwrap_err().to_string();
            assert!(error.contains(wrong.rsplit(',').next().unwrap()), "{error}");
        }
    }
}
