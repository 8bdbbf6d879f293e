//! The operations of a consumer's list: which registrations belong to which handles.

use super::parse::Reader;
use super::{Dependency, Filter, Malformed, parse};
use crate::designator as d;
use std::collections::BTreeSet;

/// The most operations that one consumer names. Each has a queue.
pub const MAX_OPERATIONS: usize = 64;

/// Registrations of the same operations.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OperationFilters {
    /// The handles; none if the list names none for these registrations.
    pub operations: Vec<i32>,
    /// The registrations.
    pub filters: Vec<Filter>,
}

/// Reads a consumer's list as [`parse`] does, and divides its registrations by the operations that
/// they name in `rt_info`.
///
/// - A list with at most one handle is one operation, whichever entries have the handle.
/// - The terms of a disjunction may name different operations, and are divided: each is met by
///   itself. One with a deadline is not divided, since its time-out concerns all of them.
/// - A conjunction is one registration of all operations that its terms name. Registrations that
///   share an operation stay together.
///
/// # Errors
/// [`Malformed`], also for more than [`MAX_OPERATIONS`].
pub fn parse_operations(list: &[Dependency]) -> Result<Vec<OperationFilters>, Malformed> {
    let filters = parse(list)?;
    let operations = handles(list);
    if operations.len() <= 1 {
        return Ok(vec![OperationFilters { operations: operations.into_iter().collect(), filters }]);
    }
    if operations.len() > MAX_OPERATIONS {
        return Err(Malformed::TooManyOperations);
    }
    let mut parts: Vec<Part> = Vec::new();
    let mut alone: Vec<Part> = Vec::new();
    let mut at = Reader { list, at: 0 };
    while let Some(header) = at.peek() {
        match header.event_type {
            d::GLOBAL => at.at += 1,
            d::DISJUNCTION => {
                let default = list[at.at].rt_info;
                at.at += 1;
                let terms = at.terms(header.source, 0)?;
                let term = |(range, filter): (std::ops::Range<usize>, Filter)| {
                    let mut operations = handles(&list[range]);
                    if operations.is_empty() && default != 0 {
                        operations.insert(default);
                    }
                    Part { operations, filters: vec![filter] }
                };
                parts.extend(divided(terms.into_iter().map(term).collect()));
            }
            kind => {
                let begin = at.at;
                let filter = at.filter(0)?;
                let part = Part { operations: handles(&list[begin..at.at]), filters: vec![filter] };
                match kind {
                    d::CONJUNCTION | d::LOGICAL_AND => parts.push(part),
                    _ => alone.push(part),
                }
            }
        }
    }
    parts.extend(divided(alone));
    let parts = united(parts).into_iter();
    let read: Vec<OperationFilters> = parts
        .map(|Part { operations, filters }| OperationFilters {
            operations: operations.into_iter().collect(),
            filters,
        })
        .collect();
    read.iter().flat_map(|of| &of.filters).try_for_each(Filter::check)?;
    Ok(read)
}

struct Part {
    operations: BTreeSet<i32>,
    filters: Vec<Filter>,
}

fn handles(list: &[Dependency]) -> BTreeSet<i32> {
    list.iter().map(|entry| entry.rt_info).filter(|rt_info| *rt_info != 0).collect()
}

/// The terms of one disjunction as registrations: one for each set of operations.
fn divided(terms: Vec<Part>) -> Vec<Part> {
    let has_deadline =
        terms.iter().flat_map(|term| &term.filters).any(|filter| matches!(filter, Filter::Deadline(_)));
    let mut divided: Vec<Part> = Vec::new();
    for Part { operations, filters } in terms {
        let same = divided.iter_mut().find(|part| has_deadline || part.operations == operations);
        match same {
            Some(part) => {
                part.operations.extend(operations);
                part.filters.extend(filters);
            }
            None => divided.push(Part { operations, filters }),
        }
    }
    for part in &mut divided {
        if part.filters.len() > 1 {
            part.filters = vec![Filter::Disjunction(std::mem::take(&mut part.filters))];
        }
    }
    divided
}

/// Registrations that share an operation become one part, and so do those without one.
fn united(parts: Vec<Part>) -> Vec<Part> {
    let mut united: Vec<Part> = Vec::new();
    for mut part in parts {
        let mut place = united.len();
        let mut others = Vec::new();
        for (at, other) in united.drain(..).enumerate() {
            let both_none = part.operations.is_empty() && other.operations.is_empty();
            if both_none || !part.operations.is_disjoint(&other.operations) {
                place = place.min(at).min(others.len());
                let mut filters = other.filters;
                filters.append(&mut part.filters);
                part = Part { operations: &other.operations | &part.operations, filters };
            } else {
                others.push(other);
            }
        }
        others.insert(place.min(others.len()), part);
        united = others;
    }
    united
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Header;

    fn list(entries: &[(i32, i32, i32)]) -> Vec<Dependency> {
        let entry = |&(event_type, source, rt_info)| Dependency {
            header: Header { event_type, source, creation_time: 1, ..Header::default() },
            rt_info,
        };
        entries.iter().map(entry).collect()
    }

    fn read(entries: &[(i32, i32, i32)]) -> Vec<(Vec<i32>, Vec<Filter>)> {
        let all = parse_operations(&list(entries)).unwrap();
        all.into_iter().map(|of| (of.operations, of.filters)).collect()
    }

    fn of(event_type: i32) -> Filter {
        Filter::of(event_type, 0)
    }

    #[test]
    fn one_handle_is_one_operation_whichever_entry_has_it() {
        let filters = vec![Filter::any_of([of(20), of(21)])];
        for handles in [[0, 0, 0], [0, 7, 0], [7, 0, 0], [0, 7, 7]] {
            let operations: Vec<i32> = if handles == [0; 3] { vec![] } else { vec![7] };
            let entries = [(d::DISJUNCTION, 0, handles[0]), (20, 0, handles[1]), (21, 0, handles[2])];
            assert_eq!(read(&entries), [(operations, filters.clone())]);
        }
        assert_eq!(read(&[(d::DISJUNCTION, 0, 0)]), [(vec![], vec![])]);
    }

    #[test]
    fn terms_of_a_disjunction_are_divided_and_conjunctions_are_not() {
        // As TAO's programs have it: each term with its operation.
        assert_eq!(
            read(&[(d::DISJUNCTION, 0, 0), (20, 0, 1), (21, 0, 2), (22, 0, 1), (23, 0, 0)]),
            [
                (vec![1], vec![Filter::any_of([of(20), of(22)])]),
                (vec![2], vec![of(21)]),
                (vec![], vec![of(23)]),
            ]
        );
        assert_eq!(
            read(&[
                (20, 0, 3),
                (d::CONJUNCTION, 0, 0),
                (21, 0, 1),
                (22, 0, 2),
                (d::DISJUNCTION, 1, 4),
                (24, 0, 0)
            ]),
            [
                (vec![1, 2], vec![Filter::all_of([of(21), of(22)])]),
                (vec![4], vec![of(24)]),
                (vec![3], vec![of(20)])
            ]
        );
        // The time-out concerns both terms.
        let deadline = Filter::deadline(std::time::Duration::from_nanos(100));
        assert_eq!(
            read(&[(d::DISJUNCTION, 0, 0), (20, 0, 1), (d::DEADLINE_TIMEOUT, 0, 2)]),
            [(vec![1, 2], vec![Filter::any_of([of(20), deadline])])]
        );
        // An operation has one queue.
        assert_eq!(
            read(&[
                (d::CONJUNCTION, 2, 0),
                (21, 0, 1),
                (22, 0, 2),
                (d::DISJUNCTION, 2, 0),
                (23, 0, 3),
                (24, 0, 2)
            ]),
            [(vec![1, 2], vec![Filter::all_of([of(21), of(22)]), of(24)]), (vec![3], vec![of(23)]),]
        );
        let many: Vec<_> = (1..=65).flat_map(|n| [(d::DISJUNCTION, 1, n), (20, 0, n)]).collect();
        assert_eq!(parse_operations(&list(&many)), Err(Malformed::TooManyOperations));
        assert_eq!(parse_operations(&list(&many[2..])).map(|all| all.len()), Ok(64));
        assert_eq!(parse_operations(&list(&[(20, 0, 1), (d::NEGATION, 0, 2)])), Err(Malformed::Truncated));
    }
}
