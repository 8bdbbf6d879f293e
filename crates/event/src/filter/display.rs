//! Filters as text, for tools.

use super::Filter;
use crate::designator::ANY;
use std::fmt::{Display, Formatter, Result};

/// In words, such as `type 16 from 1 and type 17`. A filter inside another one that is a list
/// stands in parentheses.
impl Display for Filter {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Filter::Everything | Filter::Event { event_type: ANY, source: ANY } => f.write_str("everything"),
            Filter::Event { event_type, source: ANY } => write!(f, "type {event_type}"),
            Filter::Event { event_type: ANY, source } => write!(f, "from {source}"),
            Filter::Event { event_type, source } => write!(f, "type {event_type} from {source}"),
            Filter::Masked { source_mask, type_mask, source, event_type } => {
                write!(f, "type & {type_mask:#x} = {event_type:#x}, source & {source_mask:#x} = {source:#x}")
            }
            Filter::Bits { source_mask, type_mask, behind } => {
                write!(f, "{} with a bit of type {type_mask:#x} and of source {source_mask:#x}", Term(behind))
            }
            Filter::Not(filter) => write!(f, "not {}", Term(filter)),
            Filter::Interval(period) => write!(f, "every {period:?}"),
            Filter::Deadline(deadline) => write!(f, "{deadline:?} without"),
            Filter::Conjunction(filters) => list(f, filters, " and "),
            Filter::LogicalAnd(filters) => list(f, filters, " that is also "),
            Filter::Disjunction(filters) if filters.is_empty() => f.write_str("nothing"),
            Filter::Disjunction(filters) => list(f, filters, " or "),
        }
    }
}

fn list(f: &mut Formatter<'_>, filters: &[Filter], between: &str) -> Result {
    filters.iter().enumerate().try_for_each(|(number, filter)| {
        let between = if number == 0 { "" } else { between };
        write!(f, "{between}{}", Term(filter))
    })
}

/// A filter inside another one.
struct Term<'a>(&'a Filter);

impl Display for Term<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.0 {
            Filter::Conjunction(list) | Filter::Disjunction(list) | Filter::LogicalAnd(list)
                if list.len() > 1 =>
            {
                write!(f, "({})", self.0)
            }
            other => other.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_filter_is_told_in_words() {
        let both = Filter::all_of([Filter::of(16, 1), Filter::of_type(17)]);
        let told = [
            (Filter::Everything, "everything"),
            (Filter::from_source(3), "from 3"),
            (both.clone(), "type 16 from 1 and type 17"),
            (
                Filter::any_of([both, Filter::deadline(Duration::from_millis(40))]),
                "(type 16 from 1 and type 17) or 40ms without",
            ),
            (Filter::interval(Duration::from_millis(20)), "every 20ms"),
            (Filter::Not(Box::new(Filter::of_type(5))), "not type 5"),
            (Filter::any_of([]), "nothing"),
            (Filter::any_of([Filter::of_type(5)]), "type 5"),
        ];
        for (filter, text) in told {
            assert_eq!(filter.to_string(), text);
        }
    }
}
