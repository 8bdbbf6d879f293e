//! The members of a simulated federation, and what happens to them in virtual time.

use super::super::event_log::EventBuffer;
use super::super::protocol::Protocol;
use super::super::{ControlMessage, ForwardedEvent, History, LinkId};
use super::{GrowthError, Plan, Progress, Traffic};
use crate::event::{Event, Header, Stamp};
use crate::filter::Filter;
use std::collections::{BTreeMap, HashMap};

/// The ticks after which a member that is silent is forgotten, as of the program
/// `isorb event-channel`.
const TIMEOUT: u64 = 15;
/// How often a condition is looked at, in ms of virtual time.
const LOOK: u64 = 10;
/// Progress is told after so many occurrences.
const TELL: u64 = 256;

enum Occurrence {
    Tick(usize),
    /// A call arrives: at a member's end of a link, from a caller and its end.
    Call {
        to: (usize, LinkId),
        from: (usize, LinkId),
        message: Box<ControlMessage>,
    },
    /// Its reply arrives at the caller.
    Reply {
        to: (usize, LinkId),
        message: Box<ControlMessage>,
    },
    Event {
        to: (usize, LinkId),
        stamp: Stamp,
        header: Header,
        sender: u64,
        epoch: u64,
        previous: u64,
    },
}

struct Member {
    protocol: Protocol,
    incarnation: u64,
    links: BTreeMap<LinkId, Link>,
    /// The number of consumers, by the type that they want.
    consumers: HashMap<i32, u64>,
}

struct Link {
    /// The other member and its end.
    other: (usize, LinkId),
    /// A call is under way; the next message waits for its reply.
    calls: bool,
}

pub(super) struct World<'p> {
    now: u64,
    plan: Plan,
    seed: u64,
    links: u32,
    calendar: BTreeMap<u64, Vec<Occurrence>>,
    members: Vec<Member>,
    pub traffic: Traffic,
    progress: &'p mut dyn FnMut(Progress),
    phase: &'static str,
    /// The parts of messages that are expected in this phase, and were sent before it.
    expected: f64,
    before: f64,
    /// What was sent when it began, and the occurrences so far.
    start: f64,
    occurrences: u64,
}

/// The parts of messages that all phases together send for each pair of members.
const ALL_PHASES: f64 = 82.0;

/// The first type of the application.
const FIRST: i32 = crate::designator::USER;

impl<'p> World<'p> {
    /// A tree of members, which tick from now on.
    pub(super) fn new(plan: Plan, progress: &'p mut dyn FnMut(Progress)) -> World<'p> {
        let mut world = World {
            now: 0,
            plan,
            seed: 1,
            links: 0,
            calendar: BTreeMap::new(),
            members: Vec::new(),
            traffic: Traffic::default(),
            progress,
            phase: "",
            expected: 0.0,
            before: 0.0,
            start: 0.0,
            occurrences: 0,
        };
        for at in 0..plan.channels {
            let mut consumers = HashMap::new();
            let first = world.random(plan.types.into());
            for _ in 0..plan.consumers {
                let chosen = first + world.random(plan.types_of_a_member.into());
                *consumers.entry(type_of(chosen % u64::from(plan.types))).or_default() += 1;
            }
            let mut member =
                Member { protocol: protocol(at, 1), incarnation: 1, links: BTreeMap::new(), consumers };
            member.announce();
            world.members.push(member);
            let phase = world.random(plan.tick_ms);
            world.after(phase, Occurrence::Tick(at));
        }
        for at in 1..plan.channels {
            world.join(at, (at - 1) / plan.branches);
        }
        world
    }

    fn random(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % below
    }

    fn after(&mut self, delay: u64, what: Occurrence) {
        self.calendar.entry(self.now + delay).or_default().push(what);
    }

    /// A phase begins, in which about so many parts of messages are sent for each pair of members.
    pub(super) fn phase(&mut self, name: &'static str, expected: f64) {
        self.before += self.expected;
        (self.phase, self.expected, self.start) = (name, expected, self.sent());
        self.tell();
    }

    /// The parts of messages so far, for each pair of members.
    fn sent(&self) -> f64 {
        let Traffic { messages, interests, requests, positions, .. } = self.traffic;
        let pairs = (self.plan.channels * self.plan.channels) as f64;
        (messages + interests + requests + positions) as f64 / pairs
    }

    fn tell(&mut self) {
        let sent = (self.sent() - self.start).min(self.expected);
        let done = ((self.before + sent) / ALL_PHASES).min(1.0);
        (self.progress)(Progress { phase: self.phase, done });
    }

    pub(super) fn run_for(&mut self, ms: u64) {
        let until = self.now + ms;
        while let Some(entry) = self.calendar.first_entry()
            && *entry.key() <= until
        {
            let (at, due) = entry.remove_entry();
            self.now = at;
            for what in due {
                self.happens(what);
                self.occurrences += 1;
                if self.occurrences.is_multiple_of(TELL) {
                    self.tell();
                }
            }
        }
        self.now = until;
    }

    fn happens(&mut self, what: Occurrence) {
        let at = match what {
            Occurrence::Tick(at) => {
                let tick = self.plan.tick_ms;
                self.members[at].protocol.tick(self.now, TIMEOUT * tick);
                self.after(tick, Occurrence::Tick(at));
                at
            }
            Occurrence::Call { to: (at, link), from, message } => {
                self.members[at].protocol.receive_message(link, &message);
                self.after(self.plan.delay_ms, Occurrence::Reply { to: from, message });
                at
            }
            Occurrence::Reply { to: (at, link), message } => {
                let member = &mut self.members[at];
                let Some(state) = member.links.get_mut(&link) else { return };
                state.calls = false;
                member.protocol.message_sent(link, &message, true);
                at
            }
            Occurrence::Event { to: (at, link), stamp, header, sender, epoch, previous } => {
                let event = Event { stamp, header, ..Event::default() };
                let event = ForwardedEvent { level: 0, sender, epoch, previous, event };
                self.members[at].protocol.receive_event(link, &event);
                at
            }
        };
        self.process(at);
    }

    /// Sends what a member has to send, and delivers to its consumers.
    fn process(&mut self, at: usize) {
        let member = &mut self.members[at];
        let mut buffer = EventBuffer::default();
        while member.protocol.deliver(&mut buffer) {
            let event_type = buffer.event().header.event_type;
            self.traffic.pushes += member.consumers.get(&event_type).copied().unwrap_or(0);
        }
        // The same delay for all, so that nothing is reordered.
        let due = self.calendar.entry(self.now + self.plan.delay_ms).or_default();
        for (&link, state) in &mut member.links {
            if !state.calls
                && let Some(message) = member.protocol.message(link, false)
            {
                state.calls = true;
                self.traffic.count(&message);
                let message = Box::new(message);
                due.push(Occurrence::Call { to: state.other, from: (at, link), message });
            }
            while let Some(sending) = member.protocol.send(link, &mut buffer) {
                let Event { stamp, header, .. } = buffer.event();
                let (epoch, previous) = (sending.epoch, sending.previous);
                member.protocol.sent(link, sending, Ok(()));
                self.traffic.events += 1;
                let sender = at as u64 + 1;
                due.push(Occurrence::Event { to: state.other, stamp, header, sender, epoch, previous });
            }
        }
    }

    fn join(&mut self, a: usize, b: usize) {
        let ends = [LinkId(self.links), LinkId(self.links + 1)];
        self.links += 2;
        for (at, link, other) in [(a, ends[0], (b, ends[1])), (b, ends[1], (a, ends[0]))] {
            self.members[at].protocol.join(link);
            self.members[at].links.insert(link, Link { other, calls: false });
        }
        self.process(a);
        self.process(b);
    }

    /// Another process of a member joins its former neighbours. They notice the end of the former
    /// one at once.
    pub(super) fn restart(&mut self, at: usize) {
        let former = std::mem::take(&mut self.members[at].links);
        let neighbours: Vec<usize> = former.values().map(|link| link.other.0).collect();
        for Link { other: (neighbour, end), .. } in former.into_values() {
            self.members[neighbour].links.remove(&end);
            self.members[neighbour].protocol.leave(end);
            self.process(neighbour);
        }
        let member = &mut self.members[at];
        member.incarnation += 1;
        member.protocol = protocol(at, member.incarnation);
        member.announce();
        for neighbour in neighbours {
            self.join(at, neighbour);
        }
    }

    /// Whether each member knows all others.
    pub(super) fn is_known(&self) -> bool {
        let others = self.members.len() - 1;
        self.members.iter().all(|member| member.protocol.interests.reached().count() == others)
    }

    /// Whether all others know the running process of a member.
    pub(super) fn is_renewed(&self, at: usize) -> bool {
        let (channel, incarnation) = (at as u64 + 1, self.members[at].incarnation);
        let mut others = self.members.iter().enumerate().filter(|(other, _)| *other != at);
        others.all(|(_, member)| member.protocol.interests.incarnation(channel) == Some(incarnation))
    }

    /// Whether all others know that a member wants such events.
    pub(super) fn all_want(&self, at: usize, event_type: i32) -> bool {
        let header = Header { event_type, ..Header::default() };
        let mut others = self.members.iter().enumerate().filter(|(other, _)| *other != at);
        others.all(|(_, member)| member.protocol.interests.want(&[at as u64 + 1], &header))
    }

    /// The virtual time until the condition holds.
    ///
    /// # Errors
    /// [`GrowthError::NotReached`].
    pub(super) fn time_until(
        &mut self,
        what: &'static str,
        condition: impl Fn(&World<'p>) -> bool,
    ) -> Result<u64, GrowthError> {
        let start = self.now;
        while !condition(self) {
            if self.now - start > 60 * self.plan.tick_ms {
                return Err(GrowthError::NotReached(what));
            }
            self.run_for(LOOK);
        }
        Ok(self.now - start)
    }

    /// Pushes an event of each type at some member. Returns the number of consumers elsewhere that
    /// want them.
    pub(super) fn push_all(&mut self) -> u64 {
        let mut wanted = 0;
        for number in 0..u64::from(self.plan.types) {
            let at = self.random(self.members.len() as u64) as usize;
            let event_type = type_of(number);
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

    /// Whether all events were delivered once.
    pub(super) fn is_delivered(&self, pushed: u64, expected: u64) -> Result<(), GrowthError> {
        let lost: u64 = self.members.iter().map(|member| member.protocol.counts.lost).sum();
        match pushed == expected && lost == 0 {
            true => Ok(()),
            false => Err(GrowthError::Delivery { pushed, expected }),
        }
    }

    /// A type that no consumer wants.
    pub(super) fn new_type(&self) -> i32 {
        type_of(self.plan.types.into())
    }

    pub(super) fn add_consumer(&mut self, at: usize, event_type: i32) {
        self.members[at].consumers.insert(event_type, 1);
        self.members[at].announce();
        self.process(at);
    }

    /// The octets of all members' filters.
    pub(super) fn filters(&self) -> u64 {
        let filters: usize = self.members.iter().map(|member| member.consumers.len()).sum();
        (filters * size_of::<Filter>()) as u64
    }
}

fn type_of(number: u64) -> i32 {
    FIRST.wrapping_add(number as i32)
}

fn protocol(at: usize, incarnation: u64) -> Protocol {
    // Of events without data.
    let history = History { events: 1_024, octets: 1 };
    Protocol::new(at as u64 + 1, incarnation, incarnation << 32, history)
}

impl Member {
    fn announce(&mut self) {
        let mut types: Vec<i32> = self.consumers.keys().copied().collect();
        types.sort_unstable();
        let filters: Vec<Filter> = types.into_iter().map(Filter::of_type).collect();
        self.protocol.own_changed(&filters);
    }
}

impl Traffic {
    fn count(&mut self, message: &ControlMessage) {
        let ControlMessage { interests, requests, positions, .. } = message;
        self.messages += 1;
        self.interests += interests.len() as u64;
        self.requests += requests.len() as u64;
        self.positions += positions.len() as u64;
        let interests = interests.iter().map(|interest| 36 + 16 * interest.filters.len());
        let requests = requests.iter().map(|request| 40 + 8 * request.consumers.len());
        let positions = positions.iter().map(|position| 32 + 16 * position.granted.len());
        self.octets += 40 + interests.chain(requests).chain(positions).sum::<usize>() as u64;
    }
}
