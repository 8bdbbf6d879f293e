//! A filter as the channel evaluates it.

use super::{Filter, MAX_DEPTH, MAX_TERMS, Malformed, Pattern, Test};
use crate::event::Header;
use std::time::Duration;

/// A registration: its leaves are single-event tests or timers, its inner nodes combine them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Compiled {
    pub leaves: Vec<Leaf>,
    pub root: Node,
    /// Each event that a leaf passes is a push of its own, so no state is needed.
    pub plain: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Leaf {
    pub test: Test,
    pub timer: Option<TimerLeaf>,
}

/// A timer leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TimerLeaf {
    pub period_ns: u64,
    /// A deadline timer: each time the registration is satisfied it starts anew.
    pub deadline: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Node {
    Leaf(usize),
    All(Vec<Node>),
    Any(Vec<Node>),
}

impl Compiled {
    pub(crate) fn new(filter: &Filter) -> Result<Compiled, Malformed> {
        let mut leaves = Vec::new();
        let root = node(filter, &mut leaves, 0)?;
        let plain = !root.has_conjunction();
        Ok(Compiled { leaves, root, plain })
    }

    /// The patterns of its leaves for the tables, timers excluded.
    pub(crate) fn patterns(&self) -> impl Iterator<Item = (usize, Pattern)> {
        let events = self.leaves.iter().enumerate().filter(|(_, leaf)| leaf.timer.is_none());
        events.map(|(i, leaf)| (i, leaf.test.cover()))
    }

    /// Returns true if `leaf` is the first leaf that passes this event. The table may find an event
    /// by several leaves; only the first is served.
    pub(crate) fn is_first(&self, leaf: usize, header: &Header) -> bool {
        self.leaves[leaf].test.matches(header)
            && !self.leaves[..leaf].iter().any(|earlier| earlier.test.matches(header))
    }

    /// Returns true if a match of this leaf's pattern implies that the leaf passes.
    pub(crate) fn is_certain(&self, leaf: usize) -> bool {
        self.leaves[leaf].test.is_cover() && self.leaves[..leaf].iter().all(|earlier| earlier.timer.is_some())
    }
}

impl Node {
    fn has_conjunction(&self) -> bool {
        match self {
            Node::Leaf(_) => false,
            Node::All(_) => true,
            Node::Any(nodes) => nodes.iter().any(Node::has_conjunction),
        }
    }

    /// Returns true if the node is satisfied by the leaves that are `held`.
    pub(crate) fn satisfied(&self, held: &impl Fn(usize) -> bool) -> bool {
        match self {
            Node::Leaf(leaf) => held(*leaf),
            Node::All(nodes) => nodes.iter().all(|node| node.satisfied(held)),
            Node::Any(nodes) => nodes.iter().any(|node| node.satisfied(held)),
        }
    }

    /// Calls `take` for each held leaf that contributed to satisfying the node. Unsatisfied terms
    /// of a disjunction do not contribute and keep their events.
    pub(crate) fn harvest(&self, held: &impl Fn(usize) -> bool, take: &mut impl FnMut(usize)) {
        match self {
            Node::Leaf(leaf) => take(*leaf),
            Node::All(nodes) => nodes.iter().for_each(|node| node.harvest(held, take)),
            Node::Any(nodes) => {
                nodes.iter().filter(|node| node.satisfied(held)).for_each(|node| node.harvest(held, take))
            }
        }
    }
}

fn node(filter: &Filter, leaves: &mut Vec<Leaf>, depth: usize) -> Result<Node, Malformed> {
    if depth >= MAX_DEPTH {
        return Err(Malformed::TooDeep);
    }
    let mut each = |filters: &[Filter]| -> Result<Vec<Node>, Malformed> {
        if filters.is_empty() {
            return Err(Malformed::EmptyGroup);
        }
        filters.iter().map(|filter| node(filter, leaves, depth + 1)).collect()
    };
    let leaf = match filter {
        Filter::Conjunction(filters) => {
            // A group of one term is that term.
            let mut nodes = each(filters)?;
            return Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::All(nodes) });
        }
        Filter::Disjunction(filters) => return each(filters).map(Node::Any),
        Filter::Interval(period) => Leaf { test: Test::Never, timer: Some(timer(*period, false)?) },
        Filter::Deadline(period) => Leaf { test: Test::Never, timer: Some(timer(*period, true)?) },
        filter => Leaf { test: test(filter, depth)?, timer: None },
    };
    if leaves.len() == MAX_TERMS {
        return Err(Malformed::TooManyTerms);
    }
    leaves.push(leaf);
    Ok(Node::Leaf(leaves.len() - 1))
}

fn timer(period: Duration, deadline: bool) -> Result<TimerLeaf, Malformed> {
    match u64::try_from(period.as_nanos()) {
        Ok(0) => Err(Malformed::ZeroPeriod),
        Ok(period_ns) if period_ns < u64::MAX / 4 => Ok(TimerLeaf { period_ns, deadline }),
        _ => Err(Malformed::PeriodTooLong),
    }
}

fn test(filter: &Filter, depth: usize) -> Result<Test, Malformed> {
    if depth >= MAX_DEPTH {
        return Err(Malformed::TooDeep);
    }
    let each = |filters: &[Filter]| -> Result<Vec<Test>, Malformed> {
        if filters.is_empty() {
            return Err(Malformed::EmptyGroup);
        }
        if filters.len() > MAX_TERMS {
            return Err(Malformed::TooManyTerms);
        }
        filters.iter().map(|filter| test(filter, depth + 1)).collect()
    };
    Ok(match filter {
        Filter::Event { event_type, source } => Test::Is(Pattern::of(*event_type, *source)),
        Filter::Masked { source_mask, type_mask, source, event_type } => {
            if source & !source_mask != 0 || event_type & !type_mask != 0 {
                return Err(Malformed::ImpossibleMask);
            }
            Test::Is(Pattern {
                source_mask: *source_mask,
                type_mask: *type_mask,
                source: *source,
                event_type: *event_type,
            })
        }
        Filter::Bits { source_mask, type_mask, behind } => Test::Bits {
            source_mask: *source_mask,
            type_mask: *type_mask,
            behind: Box::new(test(behind, depth + 1)?),
        },
        Filter::Not(filter) => Test::Not(Box::new(test(filter, depth + 1)?)),
        Filter::LogicalAnd(filters) => Test::All(each(filters)?),
        Filter::Disjunction(filters) => Test::Any(each(filters)?),
        Filter::Everything => Test::Is(Pattern::ALL),
        Filter::Conjunction(_) | Filter::Interval(_) | Filter::Deadline(_) => {
            return Err(Malformed::NeedsMemory);
        }
    })
}
