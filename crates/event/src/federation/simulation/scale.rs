//! How a federation grows: many channels with many consumers in virtual time, over links that lose
//! nothing. It counts messages and octets, and how long it takes until all members know each other.
//!
//! The large run is started by hand:
//!
//! ```text
//! cargo test --release -p isorb-event --lib a_large_federation -- --ignored --nocapture
//! ```

use super::super::event_log::EventBuffer;
use super::super::protocol::Protocol;
use super::super::{ControlMessage, History, LinkId};
use crate::event::{Event, Header, Stamp};
use crate::filter::Filter;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

/// In ms, as of the program `isorb event-channel`.
const TICK: u64 = 2_000;
const TIMEOUT: u64 = 15 * TICK;
/// A member has one neighbour above it and at most so many below.
const BRANCHES: usize = 4;
/// The types that exist, and those of which the consumers of a channel choose.
const TYPES: i32 = 400;
const THEME: i32 = 8;

enum Occurrence {
    Tick(usize),
    Message(usize, LinkId, Box<ControlMessage>),
    Event { to: usize, link: LinkId, stamp: Stamp, header: Header, sender: u64, epoch: u64, previous: u64 },
}

#[derive(Clone, Copy, Default, Debug)]
struct Counts {
    /// Control messages over a link, the interests in them, and their octets.
    messages: u64,
    interests: u64,
    octets: u64,
    /// Events over a link, and pushes to consumers.
    events: u64,
    pushes: u64,
}

struct Member {
    protocol: Protocol,
    /// The other member and its end, by link.
    links: BTreeMap<LinkId, (usize, LinkId)>,
    /// The consumers, by the type that they want.
    consumers: HashMap<i32, u64>,
}

struct Federation {
    now: u64,
    serial: u64,
    seed: u64,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    waiting: HashMap<u64, Occurrence>,
    members: Vec<Member>,
    counts: Counts,
}

impl Federation {
    /// A tree of `channels` members, each with `consumers` consumers.
    fn new(channels: usize, consumers: usize) -> Federation {
        let mut federation = Federation {
            now: 0,
            serial: 0,
            seed: 1,
            queue: BinaryHeap::new(),
            waiting: HashMap::new(),
            members: Vec::new(),
            counts: Counts::default(),
        };
        for at in 0..channels {
            let history = History { events: 64, octets: 1 };
            let protocol = Protocol::new(at as u64 + 1, 1, 1 << 32, history);
            let mut member = Member { protocol, links: BTreeMap::new(), consumers: HashMap::new() };
            let first = federation.random(TYPES as u64) as i32;
            for _ in 0..consumers {
                let event_type = 16 + (first + federation.random(THEME as u64) as i32) % TYPES;
                *member.consumers.entry(event_type).or_default() += 1;
            }
            member.announce();
            federation.members.push(member);
            let phase = federation.random(TICK);
            federation.after(phase, Occurrence::Tick(at));
        }
        for at in 1..channels {
            let above = (at - 1) / BRANCHES;
            let (here, there) = (LinkId(at as u32 * 2), LinkId(at as u32 * 2 + 1));
            federation.members[at].join(here, (above, there));
            federation.members[above].join(there, (at, here));
        }
        federation
    }

    fn random(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % below
    }

    fn after(&mut self, delay: u64, what: Occurrence) {
        self.serial += 1;
        self.queue.push(Reverse((self.now + delay, self.serial)));
        self.waiting.insert(self.serial, what);
    }

    fn run_until(&mut self, until: u64) {
        while let Some(&Reverse((at, serial))) = self.queue.peek()
            && at <= until
        {
            self.queue.pop();
            self.now = at;
            let member = match self.waiting.remove(&serial) {
                Some(Occurrence::Tick(member)) => {
                    self.members[member].protocol.tick(at, TIMEOUT);
                    self.after(TICK, Occurrence::Tick(member));
                    member
                }
                Some(Occurrence::Message(to, link, message)) => {
                    self.members[to].protocol.receive_message(link, &message);
                    to
                }
                Some(Occurrence::Event { to, link, stamp, header, sender, epoch, previous }) => {
                    let event = Event { stamp, header, ..Event::default() };
                    let event = super::super::ForwardedEvent { level: 0, sender, epoch, previous, event };
                    self.members[to].protocol.receive_event(link, &event);
                    to
                }
                None => continue,
            };
            self.process(member);
        }
        self.now = until;
    }

    /// Sends what a member has to send, and delivers to its consumers.
    fn process(&mut self, at: usize) {
        let mut sent = Vec::new();
        let member = &mut self.members[at];
        let mut buffer = EventBuffer::default();
        while member.protocol.deliver(&mut buffer) {
            let event_type = buffer.event().header.event_type;
            self.counts.pushes += member.consumers.get(&event_type).copied().unwrap_or(0);
        }
        for (&link, &(to, end)) in &member.links {
            while let Some(message) = member.protocol.message(link, false) {
                member.protocol.message_sent(link, &message, true);
                self.counts.messages += 1;
                self.counts.interests += message.interests.len() as u64;
                self.counts.octets += octets(&message);
                sent.push(Occurrence::Message(to, end, Box::new(message)));
            }
            while let Some(sending) = member.protocol.send(link, &mut buffer) {
                let Event { stamp, header, .. } = buffer.event();
                let (epoch, previous) = (sending.epoch, sending.previous);
                member.protocol.sent(link, sending, Ok(()));
                self.counts.events += 1;
                let sender = at as u64 + 1;
                sent.push(Occurrence::Event { to, link: end, stamp, header, sender, epoch, previous });
            }
        }
        for what in sent {
            // One delay for all, so that nothing is reordered.
            self.after(1, what);
        }
    }

    /// Whether each member knows all others.
    fn is_known(&self) -> bool {
        let others = self.members.len() - 1;
        self.members.iter().all(|member| member.protocol.interests.reached().count() == others)
    }

    /// The virtual time until it holds, looked at each 100 ms.
    fn time_until(&mut self, what: &str, condition: impl Fn(&Federation) -> bool) -> u64 {
        let start = self.now;
        while !condition(self) {
            assert!(self.now < start + 60 * TICK, "{what}: not after 60 ticks");
            self.run_until(self.now + 100);
        }
        self.now - start
    }

    /// Pushes an event of each type at some member. Returns the consumers elsewhere that want them.
    fn push_all(&mut self) -> u64 {
        let mut wanted = 0;
        for event_type in 16..16 + TYPES {
            let at = self.random(self.members.len() as u64) as usize;
            let elsewhere = self.members.iter().enumerate().filter(|(other, _)| *other != at);
            wanted += elsewhere.filter_map(|(_, member)| member.consumers.get(&event_type)).sum::<u64>();
            let header = Header { event_type, source: 1, ttl: 100, creation_time: 0 };
            let protocol = &mut self.members[at].protocol;
            // As the collector does.
            if protocol.wanted().contains(&Filter::of_type(event_type)) {
                protocol.pushed(&Event { header, ..Event::default() });
            }
            self.process(at);
        }
        wanted
    }
}

impl Member {
    fn announce(&mut self) {
        let mut types: Vec<i32> = self.consumers.keys().copied().collect();
        types.sort_unstable();
        let filters: Vec<Filter> = types.into_iter().map(Filter::of_type).collect();
        self.protocol.own_changed(&filters);
    }

    fn join(&mut self, link: LinkId, other: (usize, LinkId)) {
        self.protocol.join(link);
        self.links.insert(link, other);
    }
}

/// The octets of a message over a link, about: 40 for its frame, 36 for an interest and 16 for each
/// of its filters, 40 for a request and 32 for a position with 16 for each grant.
fn octets(message: &ControlMessage) -> u64 {
    let interests = message.interests.iter().map(|interest| 36 + 16 * interest.filters.len());
    let requests = message.requests.iter().map(|request| 40 + 8 * request.consumers.len());
    let positions = message.positions.iter().map(|position| 32 + 16 * position.granted.len());
    40 + interests.chain(requests).chain(positions).sum::<usize>() as u64
}

/// The memory of this process in octets, where the system tells.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

/// Forms a federation, lets it rest, pushes, and changes one consumer. Prints what that took.
fn grow(channels: usize, consumers: usize) {
    let before = resident();
    let mut federation = Federation::new(channels, consumers);
    println!("{channels} channels in a tree of {BRANCHES} branches, {} consumers", channels * consumers);
    let known = federation.time_until("all members know each other", Federation::is_known);
    let formed = federation.counts;
    println!("to form: {known} ms; {formed:?}");
    // Routes and requests settle.
    federation.run_until(federation.now + 2 * TICK);
    let start = federation.counts;
    federation.run_until(federation.now + 5 * TICK);
    let rest = |now: u64, before: u64| (now - before) as f64 / 5.0 / channels as f64;
    let counts = federation.counts;
    println!(
        "at rest, for each member and tick: {:.1} messages, {:.0} interests, {:.0} octets",
        rest(counts.messages, start.messages),
        rest(counts.interests, start.interests),
        rest(counts.octets, start.octets)
    );
    let octets = resident().saturating_sub(before);
    println!("memory: {} KiB a member", octets / 1024 / channels as u64);
    // The first events establish their streams, the second go over them.
    let expected = federation.push_all();
    let pushed = counts.pushes + expected;
    let first = federation.time_until("the first events arrive", |f| f.counts.pushes >= pushed);
    let start = federation.counts;
    let expected = federation.push_all();
    let pushed = start.pushes + expected;
    let second = federation.time_until("the second events arrive", |f| f.counts.pushes >= pushed);
    federation.run_until(federation.now + 2 * TICK);
    let events = federation.counts.events - start.events;
    println!(
        "{TYPES} events: first {first} ms, then {second} ms; over {events} links to {expected} consumers"
    );
    assert_eq!(federation.counts.pushes, pushed, "each consumer receives an event once");
    // A consumer of a new type at the last member.
    let changed = 16 + TYPES;
    let last = channels - 1;
    federation.members[last].consumers.insert(changed, 1);
    federation.members[last].announce();
    federation.process(last);
    let told = |f: &Federation| {
        let header = Header { event_type: changed, ..Header::default() };
        f.members[..last].iter().all(|member| member.protocol.interests.want(&[last as u64 + 1], &header))
    };
    println!("a new filter is known everywhere after {} ms", federation.time_until("it is known", told));
    let lost: u64 = federation.members.iter().map(|member| member.protocol.counts.lost).sum();
    assert_eq!(lost, 0);
}

#[test]
fn a_federation_of_forty_channels_and_four_thousand_consumers_forms() {
    grow(40, 100);
}

/// `ISORB_SIMULATED_CHANNELS` is the number of channels, 200 if it is not set.
#[test]
#[ignore = "a measurement: takes a minute with 200 channels"]
fn a_large_federation_forms() {
    let channels = std::env::var("ISORB_SIMULATED_CHANNELS").ok().and_then(|number| number.parse().ok());
    grow(channels.unwrap_or(200), 100);
}
