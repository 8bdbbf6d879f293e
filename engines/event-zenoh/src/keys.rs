//! Key expressions: where events and interests are on the backbone.
//!
//! ```text
//! isorb/event/FEDERATION/data/TYPE/SOURCE                                an event
//! isorb/event/FEDERATION/interest/SITE/INCARNATION/PRIORITY/TYPE/SOURCE      an interest, a liveliness token
//! ```
//!
//! In an interest, `any` stands for any type or source.

use crate::pattern::Pattern;
use crate::settings::is_name;

/// The key expressions of a federation.
#[derive(Debug)]
pub(crate) struct Keys {
    data: String,
    interest: String,
}

/// An interest of a site.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Interest {
    pub site: String,
    pub incarnation: u64,
    /// The priority of zenoh, 1 (the most urgent) to 7.
    pub priority: u8,
    pub pattern: Pattern,
}

impl Keys {
    pub fn new(federation: &str) -> Keys {
        let base = format!("isorb/event/{federation}");
        Keys { data: format!("{base}/data/"), interest: format!("{base}/interest/") }
    }

    /// The events of a pattern.
    pub fn data(&self, pattern: Pattern) -> String {
        let part = |number: i32| if number == 0 { "*".to_string() } else { number.to_string() };
        format!("{}{}/{}", self.data, part(pattern.event_type), part(pattern.source))
    }

    /// Type and source of an event; `None` for a key that no gateway makes.
    pub fn parse_data(&self, key: &str) -> Option<(i32, i32)> {
        let (event_type, source) = key.strip_prefix(&self.data)?.split_once('/')?;
        Some((number(event_type)?, number(source)?))
    }

    pub fn interest(&self, interest: &Interest) -> String {
        let part = |number: i32| if number == 0 { "any".to_string() } else { number.to_string() };
        let Interest { site, incarnation, priority, pattern } = interest;
        let (event_type, source) = (part(pattern.event_type), part(pattern.source));
        format!("{}{site}/{incarnation:x}/{priority}/{event_type}/{source}", self.interest)
    }

    /// The interests of all sites.
    pub fn interests(&self) -> String {
        format!("{}**", self.interest)
    }

    /// `None` for a key that no gateway makes.
    pub fn parse_interest(&self, key: &str) -> Option<Interest> {
        let mut parts = key.strip_prefix(&self.interest)?.split('/');
        let site = parts.next().filter(|site| is_name(site))?;
        let incarnation = u64::from_str_radix(parts.next()?, 16).ok()?;
        let priority = parts.next()?.parse().ok().filter(|priority| (1..=7).contains(priority))?;
        let mut part = || match parts.next()? {
            "any" => Some(0),
            text => number(text).filter(|number| *number != 0),
        };
        let pattern = Pattern { event_type: part()?, source: part()? };
        let interest = Interest { site: site.to_string(), incarnation, priority, pattern };
        parts.next().is_none().then_some(interest)
    }
}

/// A number as gateways write it: a key has one spelling.
fn number(text: &str) -> Option<i32> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_spelled = text == "0" || matches!(digits.as_bytes(), [b'1'..=b'9', ..]);
    if is_spelled { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_written() {
        let keys = Keys::new("plant");
        for (event_type, source) in [(20, 1), (-5, i32::MIN), (i32::MAX, 7)] {
            let key = keys.data(Pattern { event_type, source });
            assert_eq!(keys.parse_data(&key), Some((event_type, source)), "{key}");
        }
        assert_eq!(keys.data(Pattern { event_type: 20, source: 0 }), "isorb/event/plant/data/20/*");
        for pattern in [Pattern { event_type: 0, source: 0 }, Pattern { event_type: -20, source: 3 }] {
            let interest = Interest { site: "vienna".into(), incarnation: u64::MAX, priority: 7, pattern };
            assert_eq!(keys.parse_interest(&keys.interest(&interest)), Some(interest));
        }
    }

    #[test]
    fn keys_of_others_are_not_understood() {
        let keys = Keys::new("plant");
        for key in [
            "20/1/2",
            "20",
            "",
            "x/1",
            "+20/1",
            "020/1",
            "99999999999/1",
            "20/",
            "*/1",
            "-0/1",
            "--1/1",
            "1-/1",
            "-/1",
        ] {
            assert_eq!(keys.parse_data(&format!("isorb/event/plant/data/{key}")), None, "{key}");
        }
        assert_eq!(keys.parse_data("isorb/event/other/data/20/1"), None);
        for key in [
            "",
            "a",
            "a/1",
            "a/1/1/20",
            "a/1/1/20/1/1",
            "a/1/0/20/1",
            "a/1/8/20/1",
            "a/g/1/20/1",
            "a/1/1/0/1",
            "a/1/1/*/1",
            "a b/1/1/20/1",
            "a/11111111111111111/1/20/1",
        ] {
            assert_eq!(keys.parse_interest(&format!("isorb/event/plant/interest/{key}")), None, "{key}");
        }
    }
}
