//! Patterns and tests of a single event.

use crate::event::Header;

/// Type and source in the bits that matter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Pattern {
    pub source_mask: u32,
    pub type_mask: u32,
    pub source: u32,
    pub event_type: u32,
}

impl Pattern {
    pub(crate) const ALL: Pattern = Pattern { source_mask: 0, type_mask: 0, source: 0, event_type: 0 };

    /// The pattern of a type and a source; 0 is any.
    pub(crate) fn of(event_type: i32, source: i32) -> Pattern {
        let mask = |value: i32| if value == 0 { 0 } else { u32::MAX };
        Pattern {
            source_mask: mask(source),
            type_mask: mask(event_type),
            source: source as u32,
            event_type: event_type as u32,
        }
    }

    #[inline]
    pub(crate) fn matches(&self, header: &Header) -> bool {
        header.source as u32 & self.source_mask == self.source
            && header.event_type as u32 & self.type_mask == self.event_type
    }

    /// The number of bits that it fixes.
    fn bits(&self) -> u32 {
        self.source_mask.count_ones() + self.type_mask.count_ones()
    }
}

/// A stateless test of one event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Test {
    Is(Pattern),
    Bits {
        source_mask: u32,
        type_mask: u32,
        behind: Box<Test>,
    },
    Not(Box<Test>),
    All(Vec<Test>),
    Any(Vec<Test>),
    /// Passes no event: the leaf is a timer.
    Never,
}

impl Test {
    pub(crate) fn matches(&self, header: &Header) -> bool {
        match self {
            Test::Is(pattern) => pattern.matches(header),
            Test::Bits { source_mask, type_mask, behind } => {
                header.source as u32 & source_mask != 0
                    && header.event_type as u32 & type_mask != 0
                    && behind.matches(header)
            }
            Test::Not(test) => !test.matches(header),
            Test::All(tests) => tests.iter().all(|test| test.matches(header)),
            Test::Any(tests) => tests.iter().any(|test| test.matches(header)),
            Test::Never => false,
        }
    }

    /// A pattern that covers all events that pass the test, as tight as possible.
    pub(crate) fn cover(&self) -> Pattern {
        match self {
            Test::Is(pattern) => *pattern,
            Test::Bits { behind, .. } => behind.cover(),
            Test::All(tests) => {
                tests.iter().map(Test::cover).max_by_key(Pattern::bits).unwrap_or(Pattern::ALL)
            }
            Test::Any(_) | Test::Not(_) | Test::Never => Pattern::ALL,
        }
    }

    /// Returns true if a match of the cover implies that the test passes.
    pub(crate) fn is_cover(&self) -> bool {
        matches!(self, Test::Is(_))
    }
}
