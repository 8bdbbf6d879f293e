//! Filters as the list of headers that `ConsumerQOS` carries.

use super::{Filter, MAX_DEPTH, Pattern};
use crate::designator as d;
use crate::event::Header;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// One entry of a consumer's list of dependencies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Dependency {
    /// Type and source, or a designator with its arguments.
    pub header: Header,
    /// The scheduler's handle of the operation that consumes it; 0 is none.
    pub rt_info: i32,
}

/// Why a filter is malformed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Malformed {
    /// The list ends where a filter, masks or values must follow.
    Truncated,
    /// A group is empty.
    EmptyGroup,
    /// A group announces more filters than follow.
    WrongCount,
    /// A registration has more terms than [`MAX_TERMS`](super::MAX_TERMS).
    TooManyTerms,
    /// Nested deeper than [`MAX_DEPTH`](super::MAX_DEPTH).
    TooDeep,
    /// A conjunction or a timer where a single-event filter is needed: below a negation, a bit mask
    /// or a logical and.
    NeedsMemory,
    /// A time-out with a period of zero.
    ZeroPeriod,
    /// A time-out with a period beyond a century.
    PeriodTooLong,
    /// A value with bits outside its mask: no event could match.
    ImpossibleMask,
    /// A list names more operations than [`MAX_OPERATIONS`](super::MAX_OPERATIONS).
    TooManyOperations,
    /// A type below those of applications that is no designator (15).
    UnknownDesignator(i32),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Malformed::Truncated => "the filter ends where another entry must follow",
            Malformed::EmptyGroup => "a group of filters is empty",
            Malformed::WrongCount => "a group says that it has more filters than follow",
            Malformed::TooManyTerms => "a registration has more than 32 terms",
            Malformed::TooDeep => "filters are nested deeper than 16",
            Malformed::NeedsMemory => {
                "a conjunction or time-out stands where one event is asked about (below negation, bit mask, logical and)"
            }
            Malformed::ZeroPeriod => "a time-out has a period of zero",
            Malformed::PeriodTooLong => "a time-out has a period beyond a century",
            Malformed::ImpossibleMask => "a masked value has bits outside its mask",
            Malformed::TooManyOperations => "a list names more than 64 operations",
            Malformed::UnknownDesignator(kind) => return write!(f, "event type {kind} designates no filter"),
        })
    }
}

impl std::error::Error for Malformed {}

/// Reads a consumer's list: its registrations, each independent of the others.
///
/// A group designator with a source other than 0 has that many filters, groups included, so groups
/// nest. With source 0 it extends to the next group designator or the end, as TAO's basic builder
/// has it. Filters before the first group, or after [`GLOBAL`](d::GLOBAL), are disjunctions of one
/// term.
///
/// A list that is one empty disjunction has no registration and matches nothing: TAO's gateway
/// subscribes with it while the other channel has no consumers.
///
/// # Errors
/// [`Malformed`]; the interfaces raise `TypeError` for it.
pub fn parse(list: &[Dependency]) -> Result<Vec<Filter>, Malformed> {
    if let [Dependency { header: Header { event_type: d::DISJUNCTION, source: 0, .. }, .. }] = list {
        return Ok(Vec::new());
    }
    let mut at = Reader { list, at: 0 };
    let mut registrations = Vec::new();
    let mut alone = Vec::new();
    while let Some(header) = at.peek() {
        match header.event_type {
            d::GLOBAL => {
                at.at += 1;
            }
            d::CONJUNCTION | d::DISJUNCTION | d::LOGICAL_AND => registrations.push(at.filter(0)?),
            _ => alone.push(at.filter(0)?),
        }
    }
    match alone.len() {
        0 => {}
        1 => registrations.extend(alone),
        _ => registrations.push(Filter::Disjunction(alone)),
    }
    registrations.iter().try_for_each(Filter::check)?;
    Ok(registrations)
}

/// Reads the filters of an observer's notification: the terms of its groups, of any number.
///
/// # Errors
/// [`Malformed`].
#[cfg(not(loom))]
#[doc(hidden)]
pub fn parse_union(list: &[Dependency]) -> Result<Vec<Filter>, Malformed> {
    if let [Dependency { header: Header { event_type: d::DISJUNCTION, source: 0, .. }, .. }] = list {
        return Ok(Vec::new());
    }
    let mut at = Reader { list, at: 0 };
    let mut terms = Vec::new();
    while let Some(header) = at.peek() {
        if header.event_type == d::GLOBAL {
            at.at += 1;
            continue;
        }
        match at.filter(0)? {
            Filter::Conjunction(filters) | Filter::Disjunction(filters) => terms.extend(filters),
            filter => terms.push(filter),
        }
    }
    terms.iter().try_for_each(Filter::check)?;
    Ok(terms)
}

/// Writes registrations as a list that [`parse`] reads.
pub fn encode(registrations: &[Filter], rt_info: i32) -> Vec<Dependency> {
    let mut list = Vec::new();
    for registration in registrations {
        write(registration, rt_info, &mut list);
    }
    list
}

pub(super) struct Reader<'a> {
    pub list: &'a [Dependency],
    pub at: usize,
}

impl Reader<'_> {
    pub fn peek(&self) -> Option<Header> {
        self.list.get(self.at).map(|dependency| dependency.header)
    }

    fn next(&mut self) -> Result<Header, Malformed> {
        let header = self.peek().ok_or(Malformed::Truncated)?;
        self.at += 1;
        Ok(header)
    }

    pub fn filter(&mut self, depth: usize) -> Result<Filter, Malformed> {
        if depth >= MAX_DEPTH {
            return Err(Malformed::TooDeep);
        }
        let header = self.next()?;
        let masks = |header: Header| (header.source as u32, header.event_type as u32);
        let period = || Duration::from_nanos(header.creation_time.saturating_mul(100));
        Ok(match header.event_type {
            d::CONJUNCTION => Filter::Conjunction(self.group(header.source, depth)?),
            d::DISJUNCTION => Filter::Disjunction(self.group(header.source, depth)?),
            d::LOGICAL_AND => Filter::LogicalAnd(self.group(header.source, depth)?),
            d::NEGATION => Filter::Not(Box::new(self.filter(depth + 1)?)),
            d::BITMASK => {
                let (source_mask, type_mask) = masks(self.next()?);
                Filter::Bits { source_mask, type_mask, behind: Box::new(self.filter(depth + 1)?) }
            }
            d::MASKED_TYPE => {
                let (source_mask, type_mask) = masks(self.next()?);
                let (source, event_type) = masks(self.next()?);
                Filter::Masked { source_mask, type_mask, source, event_type }
            }
            d::NULL => Filter::Everything,
            d::TIMEOUT | d::INTERVAL_TIMEOUT => Filter::Interval(period()),
            d::DEADLINE_TIMEOUT => Filter::Deadline(period()),
            d::GLOBAL | 15 => return Err(Malformed::UnknownDesignator(header.event_type)),
            event_type => Filter::Event { event_type, source: header.source },
        })
    }

    fn group(&mut self, count: i32, depth: usize) -> Result<Vec<Filter>, Malformed> {
        Ok(self.terms(count, depth)?.into_iter().map(|(_, filter)| filter).collect())
    }

    /// The terms of a group, each with its entries.
    pub fn terms(&mut self, count: i32, depth: usize) -> Result<Vec<(Range<usize>, Filter)>, Malformed> {
        let mut terms = Vec::new();
        let mut term = |reader: &mut Self| -> Result<(), Malformed> {
            let begin = reader.at;
            let filter = reader.filter(depth + 1)?;
            terms.push((begin..reader.at, filter));
            Ok(())
        };
        if count != 0 {
            for _ in 0..count {
                if self.peek().is_none() {
                    return Err(Malformed::WrongCount);
                }
                term(self)?;
            }
        } else {
            while self.peek().is_some_and(|header| !ends_group(header.event_type)) {
                term(self)?;
            }
        }
        if terms.is_empty() { Err(Malformed::EmptyGroup) } else { Ok(terms) }
    }
}

fn ends_group(event_type: i32) -> bool {
    matches!(event_type, d::CONJUNCTION | d::DISJUNCTION | d::LOGICAL_AND | d::GLOBAL)
}

fn write(filter: &Filter, rt_info: i32, list: &mut Vec<Dependency>) {
    let mut entry = |event_type: i32, source: i32, creation_time: u64| {
        list.push(Dependency { header: Header { event_type, source, ttl: 0, creation_time }, rt_info });
    };
    let time = |period: &Duration| u64::try_from(period.as_nanos() / 100).unwrap_or(u64::MAX);
    match filter {
        Filter::Event { event_type, source } => entry(*event_type, *source, 0),
        Filter::Masked { source_mask, type_mask, source, event_type } => {
            let all = Pattern::ALL;
            if (*source_mask, *type_mask) == (all.source_mask, all.type_mask) {
                return entry(d::NULL, 0, 0);
            }
            entry(d::MASKED_TYPE, 0, 0);
            entry(*type_mask as i32, *source_mask as i32, 0);
            entry(*event_type as i32, *source as i32, 0);
        }
        Filter::Bits { source_mask, type_mask, behind } => {
            entry(d::BITMASK, 0, 0);
            entry(*type_mask as i32, *source_mask as i32, 0);
            write(behind, rt_info, list);
        }
        Filter::Not(filter) => {
            entry(d::NEGATION, 0, 0);
            write(filter, rt_info, list);
        }
        Filter::Everything => entry(d::NULL, 0, 0),
        Filter::Interval(period) => entry(d::INTERVAL_TIMEOUT, 0, time(period)),
        Filter::Deadline(period) => entry(d::DEADLINE_TIMEOUT, 0, time(period)),
        Filter::LogicalAnd(filters) | Filter::Conjunction(filters) | Filter::Disjunction(filters) => {
            let kind = match filter {
                Filter::LogicalAnd(_) => d::LOGICAL_AND,
                Filter::Conjunction(_) => d::CONJUNCTION,
                _ => d::DISJUNCTION,
            };
            entry(kind, i32::try_from(filters.len()).unwrap_or(i32::MAX), 0);
            filters.iter().for_each(|filter| write(filter, rt_info, list));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(i32, i32)]) -> Vec<Dependency> {
        let entry = |&(event_type, source)| Dependency {
            header: Header { event_type, source, ..Header::default() },
            rt_info: 0,
        };
        entries.iter().map(entry).collect()
    }

    #[test]
    fn groups_are_registrations_and_the_rest_is_one() {
        let parsed = parse(&list(&[
            (20, 1),
            (d::CONJUNCTION, 0),
            (21, 0),
            (22, 5),
            (d::DISJUNCTION, 0),
            (23, 0),
            (d::GLOBAL, 0),
            (24, 0),
        ]));
        let of = Filter::of;
        assert_eq!(
            parsed.unwrap(),
            [
                Filter::all_of([of(21, 0), of(22, 5)]),
                Filter::any_of([of(23, 0)]),
                Filter::any_of([of(20, 1), of(24, 0)]),
            ]
        );
    }

    #[test]
    fn counted_groups_nest_and_come_back() {
        let of = Filter::of;
        let filters = [
            Filter::all_of([
                of(20, 1),
                Filter::any_of([of(21, 0), Filter::all_of([of(22, 0), Filter::Not(Box::new(of(23, 3)))])]),
                Filter::LogicalAnd(vec![
                    Filter::Masked { source_mask: 0xf0, type_mask: 1, source: 0x10, event_type: 1 },
                    Filter::Bits { source_mask: 1, type_mask: 2, behind: Box::new(Filter::Everything) },
                ]),
            ]),
            Filter::any_of([
                Filter::interval(Duration::from_micros(50)),
                Filter::deadline(Duration::from_micros(7)),
            ]),
        ];
        assert_eq!(parse(&encode(&filters, 3)).unwrap(), filters);
    }

    #[test]
    fn malformed_lists_say_why() {
        let cases: &[(&[(i32, i32)], Malformed)] = &[
            (&[(d::NEGATION, 0)], Malformed::Truncated),
            (&[(d::BITMASK, 0), (1, 1)], Malformed::Truncated),
            (&[(d::MASKED_TYPE, 0), (1, 1)], Malformed::Truncated),
            (&[(d::CONJUNCTION, 0)], Malformed::EmptyGroup),
            (&[(d::CONJUNCTION, -1), (20, 0)], Malformed::EmptyGroup),
            (&[(d::CONJUNCTION, 3), (20, 0)], Malformed::WrongCount),
            (&[(d::MASKED_TYPE, 0), (1, 1), (2, 0)], Malformed::ImpossibleMask),
            (&[(d::INTERVAL_TIMEOUT, 0)], Malformed::ZeroPeriod),
            (&[(15, 0)], Malformed::UnknownDesignator(15)),
            (&[(d::NEGATION, 0), (d::CONJUNCTION, 2), (20, 0), (21, 0)], Malformed::NeedsMemory),
            (&[(d::NEGATION, 0); 40], Malformed::TooDeep),
            (&[(20, 0); 40], Malformed::TooManyTerms),
        ];
        for (entries, expected) in cases {
            assert_eq!(parse(&list(entries)), Err(*expected), "{entries:?}");
        }
        assert_eq!(parse(&[]), Ok(vec![]));
        assert_eq!(parse(&list(&[(d::DISJUNCTION, 0)])), Ok(vec![]), "what TAO's gateway sends");
        assert_eq!(parse(&list(&[(d::DISJUNCTION, 0), (d::DISJUNCTION, 0)])), Err(Malformed::EmptyGroup));
    }
}
