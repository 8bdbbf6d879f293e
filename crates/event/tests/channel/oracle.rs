//! Filters and correlation against a model without tables, which evaluates each filter for each
//! event.

use crate::common::*;
use isorb_event::{Channel, Event, Filter, Strategy};
use proptest::prelude::*;

/// A filter with the newest event of each of its leaves, by number of arrival.
#[derive(Clone)]
struct Model {
    filter: Filter,
    newest: Option<u64>,
    children: Vec<Model>,
}

impl Model {
    fn new(filter: &Filter) -> Model {
        let children = match filter {
            Filter::Conjunction(filters) | Filter::Disjunction(filters) => {
                filters.iter().map(Model::new).collect()
            }
            _ => vec![],
        };
        Model { filter: filter.clone(), newest: None, children }
    }

    fn note(&mut self, event: &Event<'_>, number: u64) {
        if self.children.is_empty() && passes(&self.filter, event) {
            self.newest = Some(number);
        }
        self.children.iter_mut().for_each(|child| child.note(event, number));
    }

    fn satisfied(&self) -> bool {
        match self.filter {
            Filter::Conjunction(_) => self.children.iter().all(Model::satisfied),
            Filter::Disjunction(_) => self.children.iter().any(Model::satisfied),
            _ => self.newest.is_some(),
        }
    }

    /// Removes the events that satisfied it.
    fn take(&mut self, into: &mut Vec<u64>) {
        if self.satisfied() {
            into.extend(self.newest.take());
            self.children.iter_mut().for_each(|child| child.take(into));
        }
    }

    fn push(&mut self, event: &Event<'_>, number: u64) -> Option<Vec<u64>> {
        self.note(event, number);
        let mut taken = Vec::new();
        self.take(&mut taken);
        taken.sort_unstable();
        taken.dedup();
        (!taken.is_empty()).then_some(taken)
    }
}

fn passes(filter: &Filter, event: &Event<'_>) -> bool {
    let (t, s) = (event.header.event_type, event.header.source);
    match filter {
        Filter::Event { event_type, source } => {
            (*event_type == 0 || *event_type == t) && (*source == 0 || *source == s)
        }
        Filter::Masked { source_mask, type_mask, source, event_type } => {
            s as u32 & source_mask == *source && t as u32 & type_mask == *event_type
        }
        Filter::Bits { source_mask, type_mask, behind } => {
            s as u32 & source_mask != 0 && t as u32 & type_mask != 0 && passes(behind, event)
        }
        Filter::Not(filter) => !passes(filter, event),
        Filter::LogicalAnd(filters) => filters.iter().all(|filter| passes(filter, event)),
        Filter::Disjunction(filters) => filters.iter().any(|filter| passes(filter, event)),
        Filter::Everything => true,
        _ => false,
    }
}

/// Few types and sources, so that many events match.
fn simple() -> impl Strategy_<Value = Filter> {
    prop_oneof![
        4 => (16..20, 1..4).prop_map(|(t, s)| Filter::of(t, s)),
        2 => (16..20).prop_map(Filter::of_type),
        1 => (1..4).prop_map(Filter::from_source),
        1 => (0u32..4, 0u32..8, any::<u32>(), any::<u32>()).prop_map(|(source_mask, type_mask, s, t)| {
            Filter::Masked { source_mask, type_mask, source: s & source_mask, event_type: t & type_mask }
        }),
        1 => Just(Filter::Everything),
    ]
}

use proptest::strategy::Strategy as Strategy_;

fn test_of_one() -> impl Strategy_<Value = Filter> {
    simple().prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|f| Filter::Not(Box::new(f))),
            (0u32..4, 0u32..32, inner.clone()).prop_map(|(source_mask, type_mask, f)| Filter::Bits {
                source_mask,
                type_mask,
                behind: Box::new(f)
            }),
            prop::collection::vec(inner, 1..3).prop_map(Filter::LogicalAnd),
        ]
    })
}

fn filter() -> impl Strategy_<Value = Filter> {
    test_of_one().prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..4).prop_map(Filter::Conjunction),
            prop::collection::vec(inner, 1..4).prop_map(Filter::Disjunction),
        ]
    })
}

#[derive(Clone, Debug)]
enum Action {
    Push(i32, i32),
    Suspend(usize),
    Resume(usize),
    Leave(usize),
}

fn step() -> impl Strategy_<Value = Action> {
    prop_oneof![
        20 => (15..21, 0..5).prop_map(|(t, s)| Action::Push(t, s)),
        1 => (0..6usize).prop_map(Action::Suspend),
        2 => (0..6usize).prop_map(Action::Resume),
        1 => (0..6usize).prop_map(Action::Leave),
    ]
}

fn check(
    strategy: Strategy,
    consumers: &[Vec<Filter>],
    steps: &[Action],
) -> Result<(), proptest::test_runner::TestCaseError> {
    let (channel, _) = still(Channel::builder().strategy(strategy));
    let logs: Vec<Log> = consumers.iter().map(|_| Log::default()).collect();
    let mut proxies: Vec<_> = consumers
        .iter()
        .zip(&logs)
        .map(|(filters, log)| {
            let qos = isorb_event::ConsumerQos { filters: filters.clone(), ..Default::default() };
            Some(log.connect(&channel, qos))
        })
        .collect();
    let mut models: Vec<Vec<Model>> =
        consumers.iter().map(|filters| filters.iter().map(Model::new).collect()).collect();
    let mut listed = vec![true; consumers.len()];
    let supplier = channel.for_suppliers().connect().unwrap();
    for (number, step) in steps.iter().enumerate() {
        let number = number as u64 + 1;
        match *step {
            Action::Push(t, s) => {
                let event = event(t, s, number);
                supplier.push(&event);
                while channel.step() {}
                for (i, log) in logs.iter().enumerate() {
                    let mut got = log.take_times();
                    let mut expected: Vec<Vec<u64>> = match listed[i] {
                        true => models[i].iter_mut().filter_map(|model| model.push(&event, number)).collect(),
                        false => vec![],
                    };
                    // Registrations are independent: their order is not defined.
                    got.sort();
                    expected.sort();
                    prop_assert_eq!(got, expected, "consumer {} at event {}", i, number);
                }
            }
            Action::Suspend(i) | Action::Resume(i) if i < proxies.len() => {
                if let Some(proxy) = &proxies[i] {
                    let suspend = matches!(step, Action::Suspend(_));
                    if suspend { proxy.suspend() } else { proxy.resume() }.unwrap();
                    listed[i] = !suspend;
                }
            }
            Action::Leave(i) if i < proxies.len() => {
                proxies[i] = None;
                listed[i] = false;
            }
            _ => {}
        }
    }
    drop(proxies);
    prop_assert_eq!(
        (channel.lookups(), channel.free_copies()),
        (0, Channel::builder().build().unwrap().free_copies())
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn each_consumer_receives_what_its_filters_select(
        consumers in prop::collection::vec(prop::collection::vec(filter(), 1..3), 1..6),
        steps in prop::collection::vec(step(), 0..80),
    ) {
        check(Strategy::Direct, &consumers, &steps)?;
        check(Strategy::ByHand { upcalls: false }, &consumers, &steps)?;
    }

    #[test]
    fn encoded_filters_parse_to_the_same_filters(filters in prop::collection::vec(filter(), 1..4)) {
        // Groups by count only: single filters join others of their kind.
        let groups: Vec<Filter> = filters.into_iter().map(|f| Filter::Disjunction(vec![f])).collect();
        let back = isorb_event::parse(&isorb_event::encode(&groups, 0)).unwrap();
        let evaluate = |filters: &[Filter], t, s| -> Vec<bool> {
            let event = event(t, s, 0);
            filters.iter().map(|f| Model::new(f).push(&event, 1).is_some()).collect()
        };
        for (t, s) in (15..21).flat_map(|t| (0..5).map(move |s| (t, s))) {
            prop_assert_eq!(evaluate(&groups, t, s), evaluate(&back, t, s));
        }
    }

    /// Any octets are a filter or an error, never a panic.
    #[test]
    fn any_list_is_read_or_refused(list in prop::collection::vec((0..18i32, -3..5i32, 0..3u64), 0..60)) {
        let list: Vec<_> = list
            .into_iter()
            .map(|(event_type, source, creation_time)| isorb_event::Dependency {
                header: isorb_event::Header { event_type, source, ttl: 0, creation_time },
                rt_info: 0,
            })
            .collect();
        if let Ok(filters) = isorb_event::parse(&list) {
            prop_assert!(filters.iter().all(|f| f.check().is_ok()));
        }
    }
}
