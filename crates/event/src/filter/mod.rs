//! The filters of consumers.

mod compile;
mod display;
mod operations;
mod parse;
mod pattern;

pub use operations::{MAX_OPERATIONS, OperationFilters, parse_operations};
#[cfg(not(loom))]
#[doc(hidden)]
pub use parse::parse_union;
pub use parse::{Dependency, Malformed, encode, parse};

pub(crate) use compile::{Compiled, TimerLeaf};
pub(crate) use pattern::{Pattern, Test};

use std::time::Duration;

/// The most events of one push: the most terms of a registration.
pub const MAX_TERMS: usize = 32;

/// The deepest nesting of filters.
pub const MAX_DEPTH: usize = 16;

/// One registration of a consumer: which events it wants, and which of them together.
///
/// Most are made of [`of`](Filter::of) and its kin, [`all_of`](Filter::all_of) and
/// [`any_of`](Filter::any_of):
///
/// ```
/// use isorb_event::Filter;
/// use std::time::Duration;
///
/// // Position and speed, each from its sensor; or 40 ms without both.
/// let navigation = Filter::any_of([
///     Filter::all_of([Filter::of(16, 1), Filter::of(17, 2)]),
///     Filter::deadline(Duration::from_millis(40)),
/// ]);
/// assert!(navigation.check().is_ok());
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Filter {
    /// Events of this type from this source; 0 is any.
    Event {
        /// The type, or [`ANY`](crate::designator::ANY).
        event_type: i32,
        /// The source, or [`ANY`](crate::designator::ANY).
        source: i32,
    },
    /// Events with these values of type and source in the bits of the masks.
    Masked {
        /// Which bits of the source matter.
        source_mask: u32,
        /// Which bits of the type matter.
        type_mask: u32,
        /// What they are.
        source: u32,
        /// What they are.
        event_type: u32,
    },
    /// Events that have a bit of each mask set and pass the inner filter.
    Bits {
        /// Bits of the source, one of which must be set.
        source_mask: u32,
        /// Bits of the type, one of which must be set.
        type_mask: u32,
        /// The inner filter.
        behind: Box<Filter>,
    },
    /// Events that do not pass the filter.
    Not(Box<Filter>),
    /// Events that pass all of the filters.
    LogicalAnd(Vec<Filter>),
    /// All events.
    Everything,
    /// A time-out for each interval (rounded to 100 ns).
    Interval(Duration),
    /// A time-out if the registration was not satisfied for this time.
    Deadline(Duration),
    /// A push when each of the filters was passed, by different events or one.
    Conjunction(Vec<Filter>),
    /// A push when one of the filters was passed.
    Disjunction(Vec<Filter>),
}

impl Filter {
    /// Events of a type from a source.
    pub fn of(event_type: i32, source: i32) -> Filter {
        Filter::Event { event_type, source }
    }

    /// Events of a type, from any source.
    pub fn of_type(event_type: i32) -> Filter {
        Filter::Event { event_type, source: crate::designator::ANY }
    }

    /// Events from a source, of any type.
    pub fn from_source(source: i32) -> Filter {
        Filter::Event { event_type: crate::designator::ANY, source }
    }

    /// A push when each of these was passed.
    pub fn all_of(filters: impl IntoIterator<Item = Filter>) -> Filter {
        Filter::Conjunction(filters.into_iter().collect())
    }

    /// A push when one of these was passed.
    pub fn any_of(filters: impl IntoIterator<Item = Filter>) -> Filter {
        Filter::Disjunction(filters.into_iter().collect())
    }

    /// A time-out for each interval.
    pub fn interval(period: Duration) -> Filter {
        Filter::Interval(period)
    }

    /// A time-out if the registration was not satisfied for this time.
    pub fn deadline(period: Duration) -> Filter {
        Filter::Deadline(period)
    }

    /// Checks that a channel would accept it.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn check(&self) -> Result<(), Malformed> {
        Compiled::new(self).map(drop)
    }
}
