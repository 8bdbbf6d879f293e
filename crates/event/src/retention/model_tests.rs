//! The history against a model: a list of all events, from which each answer is computed anew.

use super::history::{History, HistoryQos, HistoryRequest};
use crate::event::Event;
use proptest::prelude::*;
use std::time::Duration;

#[derive(Clone, Debug)]
enum Action {
    Push {
        event_type: i32,
        source: i32,
        octets: usize,
    },
    /// The clock goes on.
    Wait(u64),
    /// Later events meet another view.
    Publish,
    /// A consumer of one type, or of all, connects and reads at once.
    Read {
        event_type: Option<i32>,
        last: usize,
        age: Option<u64>,
    },
    /// It reads only now.
    ReadLate {
        last: usize,
        pushes: usize,
    },
}

const DEPTH: usize = 4;
const STREAMS: usize = 5;
const PAYLOAD: usize = 8;
const AGE: u64 = 50;

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        8 => (16..19i32, 1..4i32, 0..10usize)
            .prop_map(|(event_type, source, octets)| Action::Push { event_type, source, octets }),
        2 => (0..40u64).prop_map(Action::Wait),
        1 => Just(Action::Publish),
        2 => (prop::option::of(16..19i32), 0..6usize, prop::option::of(0..60u64))
            .prop_map(|(event_type, last, age)| Action::Read { event_type, last, age }),
        1 => (1..6usize, 0..6usize).prop_map(|(last, pushes)| Action::ReadLate { last, pushes }),
    ]
}

/// An event as the model knows it.
#[derive(Clone, Copy, Debug)]
struct Known {
    event_type: i32,
    source: i32,
    number: u64,
    at: u64,
    view: u64,
}

struct World {
    history: History,
    all: Vec<Known>,
    streams: Vec<(i32, i32)>,
    now: u64,
    view: u64,
    pushed: u64,
    too_large: u64,
    no_stream: u64,
}

impl World {
    fn push(&mut self, event_type: i32, source: i32, octets: usize) {
        let payload = [7; 16];
        self.pushed += 1;
        let event = Event::new(event_type, source).octets(&payload[..octets]).created(self.pushed);
        self.history.keep(&event, 0, self.view, self.now);
        if !self.streams.contains(&(event_type, source)) {
            if self.streams.len() == STREAMS {
                self.no_stream += 1;
                return;
            }
            self.streams.push((event_type, source));
        }
        if octets > PAYLOAD {
            self.too_large += 1;
            return;
        }
        let (number, at, view) = (self.pushed, self.now, self.view);
        self.all.push(Known { event_type, source, number, at, view });
    }

    /// The last events of a stream that are in its ring. Aged ones leave it one by one at most, so
    /// only their age hides them.
    fn ring(&self, (event_type, source): (i32, i32)) -> Vec<Known> {
        let of = |known: &&Known| (known.event_type, known.source) == (event_type, source);
        let all: Vec<Known> = self.all.iter().filter(of).copied().collect();
        all[all.len().saturating_sub(DEPTH)..].to_vec()
    }

    fn expected(&self, event_type: Option<i32>, last: usize, age: Option<u64>) -> Vec<u64> {
        let since = self.now.saturating_sub(age.unwrap_or(u64::MAX).min(AGE));
        let mut found = Vec::new();
        for stream in &self.streams {
            let ring: Vec<Known> = self.ring(*stream).into_iter().filter(|k| k.view < self.view).collect();
            let newest = ring[ring.len().saturating_sub(last)..].iter();
            let wanted = newest.filter(|k| k.at >= since && event_type.is_none_or(|t| t == k.event_type));
            found.extend(wanted.map(|known| known.number));
        }
        found.sort_unstable();
        found
    }
}

fn read(history: &History, mut backlog: super::Backlog) -> (Vec<u64>, usize) {
    let (mut got, mut lost) = (Vec::new(), 0);
    while let Some(next) = backlog.next() {
        match history.get(next) {
            Some(copy) => got.push(copy.event().header.creation_time),
            None => lost += 1,
        }
        backlog.advance(1);
    }
    (got, lost)
}

proptest! {
    #[test]
    fn the_history_is_what_the_model_says(actions in prop::collection::vec(action(), 1..200)) {
        let qos = HistoryQos {
            depth: DEPTH,
            age: Some(Duration::from_nanos(AGE)),
            streams: STREAMS,
            payload: PAYLOAD,
        };
        let history = History::new(qos).unwrap();
        let mut world = World {
            history, all: Vec::new(), streams: Vec::new(), now: 1_000, view: 1, pushed: 0, too_large: 0, no_stream: 0,
        };
        for action in actions {
            match action {
                Action::Push { event_type, source, octets } => world.push(event_type, source, octets),
                Action::Wait(ns) => world.now += ns,
                Action::Publish => world.view += 1,
                Action::Read { event_type, last, age } => {
                    let request = HistoryRequest { last, age: age.map(Duration::from_nanos) };
                    let at = (world.view, world.now);
                    let wants = |header: &crate::Header| event_type.is_none_or(|t| t == header.event_type);
                    let backlog = world.history.collect(&request, at, wants);
                    let (got, lost) = read(&world.history, backlog);
                    prop_assert_eq!((got, lost), (world.expected(event_type, last, age), 0));
                }
                Action::ReadLate { last, pushes } => {
                    world.view += 1;
                    let before = world.expected(None, last, None);
                    let request = HistoryRequest::last(last);
                    let backlog = world.history.collect(&request, (world.view, world.now), |_| true);
                    (0..pushes).for_each(|n| world.push(16 + (n % 2) as i32, 1, 1));
                    let left: Vec<u64> = world.streams.iter().flat_map(|s| world.ring(*s)).map(|k| k.number).collect();
                    let (got, lost) = read(&world.history, backlog);
                    let still: Vec<u64> = before.iter().copied().filter(|number| left.contains(number)).collect();
                    // One more may be gone for its age; none that is there is left out.
                    prop_assert!(got.len() + lost == before.len());
                    prop_assert!(got.iter().all(|number| still.contains(number)), "{:?} {:?}", got, still);
                    prop_assert!(got.is_sorted());
                }
            }
        }
        let status = world.history.status(world.now);
        prop_assert_eq!((status.too_large, status.no_stream, status.no_copy), (world.too_large, world.no_stream, 0));
        prop_assert_eq!(status.streams.len(), world.streams.len());
        let since = world.now.saturating_sub(AGE);
        for stream in status.streams {
            let of = (stream.event_type, stream.source);
            let kept = world.ring(of).iter().filter(|known| known.at >= since).count();
            prop_assert_eq!(stream.kept, kept);
            let all = world.all.iter().filter(|known| (known.event_type, known.source) == of).count() as u64;
            prop_assert!(stream.overwritten + stream.aged + DEPTH as u64 >= all);
            prop_assert!(stream.overwritten + stream.aged <= all);
        }
    }
}
