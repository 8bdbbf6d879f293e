//! Events to other sites: a consumer of the channel, a queue and a thread for each priority of
//! zenoh.
//!
//! ```text
//!   supplier's thread: wanted? ─► number ─► queue of its priority ─► thread isorb-zenoh-N ─► zenoh
//! ```
//!
//! A put waits while zenoh's own queue of that priority is full. So a link that stalls fills the
//! queues here, which count what they drop, and no event waits behind a less urgent one.

use crate::counts::{Counters, count};
use crate::interests::{PRIORITIES, Table};
use crate::keys::Keys;
use crate::message::{Sequence, encode};
use crate::pattern::Pattern;
use crate::settings::Settings;
use isorb_event::{Event, Failure, PushConsumer};
use isorb_rt::sync::{Parker, PiMutex};
use isorb_rt::time::Deadline;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;
use zenoh::pubsub::Publisher;
use zenoh::qos::{CongestionControl, Priority};
use zenoh::{Session, Wait};
use zenoh_ext::{AdvancedPublisher, AdvancedPublisherBuilderExt, CacheConfig, MissDetectionConfig};

/// The most types and sources with a publisher of their own at a priority. Others are published by
/// their key, without history.
const MAX_PUBLISHERS: usize = 4096;
/// How often an advanced publisher says which number was the last, if that changed.
const HEARTBEAT: Duration = Duration::from_millis(500);

pub(crate) struct Outgoing {
    /// The number in the [`Origin`](isorb_event::Origin) of events that came from other sites.
    pub id: u64,
    pub incarnation: u64,
    pub connected: AtomicBool,
    pub keys: Keys,
    pub settings: Settings,
    pub counters: Counters,
    state: PiMutex<State>,
    queues: [Queue; PRIORITIES as usize],
    stopped: AtomicBool,
}

#[derive(Default)]
struct State {
    wanted: Arc<Table>,
    /// The numbers of the last events, by type and source.
    numbers: HashMap<(i32, i32), u64>,
}

#[derive(Default)]
struct Queue {
    waiting: PiMutex<Waiting>,
    parker: Parker,
}

#[derive(Default)]
struct Waiting {
    messages: VecDeque<Message>,
    /// Buffers of messages that were sent.
    spare: Vec<Vec<u8>>,
}

struct Message {
    key: (i32, i32),
    octets: Vec<u8>,
}

impl Outgoing {
    pub fn new(settings: Settings) -> Outgoing {
        Outgoing {
            id: isorb_rt::random_u64() | 1,
            incarnation: isorb_rt::random_u64() | 1,
            connected: AtomicBool::new(true),
            keys: Keys::new(&settings.federation),
            settings,
            counters: Counters::default(),
            state: PiMutex::default(),
            queues: Default::default(),
            stopped: AtomicBool::new(false),
        }
    }

    pub fn set_wanted(&self, wanted: Arc<Table>) {
        self.state.lock().wanted = wanted;
    }

    /// Queues an event if another site wants it.
    ///
    /// # Real-time
    /// Two PI locks for short sections, and one wake-up if the thread is idle. Allocates for the
    /// first event of a type and source, and while more or larger events wait than ever before.
    fn offer(&self, event: &Event<'_>) {
        if event.origin.supplier == self.id {
            return; // It came from another site.
        }
        let key = (event.header.event_type, event.header.source);
        let mut state = self.state.lock();
        let Some(priority) = state.wanted.priority(key.0, key.1) else { return };
        if event.header.ttl < 1 {
            return count(&self.counters.expired);
        }
        if event.data.octets.len() + event.data.any.len() > self.settings.payload {
            return count(&self.counters.too_large);
        }
        let room = state.numbers.len() < self.settings.streams;
        let number = match state.numbers.get_mut(&key) {
            Some(number) => number,
            None if room => state.numbers.entry(key).or_default(),
            None => return count(&self.counters.unnumbered),
        };
        // A number is used up even if the event finds no room, so that receivers miss it.
        *number += 1;
        let sequence = Sequence { incarnation: self.incarnation, number: *number };
        let Some(queue) = self.queues.get(usize::from(priority) - 1) else { return };
        // With the state locked, so that events are queued in the order of their numbers.
        let mut waiting = queue.waiting.lock();
        if waiting.messages.len() >= self.settings.queue {
            return count(&self.counters.overflowed);
        }
        let mut octets = waiting.spare.pop().unwrap_or_default();
        encode(event, sequence, &mut octets);
        waiting.messages.push_back(Message { key, octets });
        let is_first = waiting.messages.len() == 1;
        drop(waiting);
        drop(state);
        if is_first {
            queue.parker.unpark();
        }
    }

    /// The body of the thread of a priority.
    pub fn run(&self, priority: u8, session: &Session) {
        let Some(queue) = self.queues.get(usize::from(priority) - 1) else { return };
        let mut publications = Publications { outgoing: self, priority, session, publishers: HashMap::new() };
        let (mut batch, mut sent) = (VecDeque::new(), Vec::new());
        while !self.stopped.load(Acquire) {
            let mut waiting = queue.waiting.lock();
            waiting.spare.append(&mut sent);
            std::mem::swap(&mut waiting.messages, &mut batch);
            drop(waiting);
            if batch.is_empty() {
                queue.parker.park_until(Deadline::NONE);
            }
            for message in batch.drain(..) {
                publications.publish(&message);
                sent.push(message.octets);
            }
        }
    }

    /// Ends the threads. Events that wait are lost.
    pub fn stop(&self) {
        self.stopped.store(true, Release);
        self.queues.iter().for_each(|queue| queue.parker.unpark());
    }
}

/// The consumer of the channel. It runs on the supplier's thread.
pub(crate) struct Collector(pub Arc<Outgoing>);

impl PushConsumer for Collector {
    fn push(&self, events: &[Event<'_>]) -> Result<(), Failure> {
        events.iter().for_each(|event| self.0.offer(event));
        Ok(())
    }
}

/// The publishers of a priority.
struct Publications<'a> {
    outgoing: &'a Outgoing,
    priority: u8,
    session: &'a Session,
    publishers: HashMap<(i32, i32), AnyPublisher>,
}

enum AnyPublisher {
    Plain(Publisher<'static>),
    WithHistory(AdvancedPublisher<'static>),
}

impl Publications<'_> {
    fn publish(&mut self, message: &Message) {
        let Outgoing { counters, connected, settings, .. } = self.outgoing;
        let is_connected = connected.load(Acquire);
        // A history has it for later.
        let sent = (is_connected || settings.history.is_some()) && self.put(message).is_ok();
        count(if sent { &counters.sent } else { &counters.unsent });
    }

    fn put(&mut self, message: &Message) -> zenoh::Result<()> {
        let (event_type, source) = message.key;
        let octets = message.octets.as_slice();
        if !self.publishers.contains_key(&message.key) {
            let key = self.outgoing.keys.data(Pattern { event_type, source });
            let priority = Priority::try_from(self.priority)?;
            if self.publishers.len() >= MAX_PUBLISHERS {
                let put = self.session.put(key, octets).priority(priority);
                return put.congestion_control(CongestionControl::Block).wait();
            }
            let plain = self.session.declare_publisher(key).priority(priority);
            let plain = plain.congestion_control(CongestionControl::Block);
            let publisher = match &self.outgoing.settings.history {
                None => AnyPublisher::Plain(plain.wait()?),
                Some(history) => {
                    let cached = plain.cache(CacheConfig::default().max_samples(history.events.max(1)));
                    let misses = MissDetectionConfig::default().sporadic_heartbeat(HEARTBEAT);
                    let advanced = cached.sample_miss_detection(misses).publisher_detection();
                    AnyPublisher::WithHistory(advanced.wait()?)
                }
            };
            self.publishers.insert(message.key, publisher);
        }
        match self.publishers.get(&message.key) {
            Some(AnyPublisher::Plain(publisher)) => publisher.put(octets).wait(),
            Some(AnyPublisher::WithHistory(publisher)) => publisher.put(octets).wait(),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interests::Interests;
    use crate::keys::Interest;
    use isorb_event::{Header, Origin};
    use std::collections::BTreeSet;

    fn outgoing(change: impl FnOnce(&mut Settings)) -> Outgoing {
        let mut settings = Settings::new("plant", "vienna", vec!["tcp/127.0.0.1:1".into()]);
        change(&mut settings);
        let outgoing = Outgoing::new(settings);
        let mut wants = Interests::default();
        for (priority, event_type) in [(2, 20), (6, 0)] {
            let pattern = Pattern { event_type, source: 0 };
            let want = Interest { site: "graz".into(), incarnation: 1, priority, pattern };
            wants.add(want, 10).expect("there is room");
        }
        outgoing.set_wanted(Arc::new(wants.table(&BTreeSet::new())));
        outgoing
    }

    fn waiting(outgoing: &Outgoing, priority: usize) -> Vec<(i32, u64)> {
        let waiting = outgoing.queues[priority - 1].waiting.lock();
        let read = |message: &Message| {
            let (event, sequence) = crate::message::decode(&message.octets, message.key, 100).unwrap();
            (event.header.event_type, sequence.number)
        };
        waiting.messages.iter().map(read).collect()
    }

    #[test]
    fn an_event_waits_at_its_priority_and_has_its_number() {
        let outgoing = outgoing(|_| ());
        for event_type in [20, 21, 20, 22] {
            outgoing.offer(&Event::new(event_type, 1));
        }
        assert_eq!(waiting(&outgoing, 2), [(20, 1), (20, 2)]);
        assert_eq!(waiting(&outgoing, 6), [(21, 1), (22, 1)]);
    }

    #[test]
    fn an_event_of_another_site_is_not_sent_back() {
        let outgoing = outgoing(|_| ());
        let origin = Origin { supplier: outgoing.id, number: 1 };
        outgoing.offer(&Event { origin, ..Event::new(20, 1).ttl(5) });
        assert_eq!(waiting(&outgoing, 2), []);
        assert_eq!(outgoing.counters.read(), Default::default());
    }

    #[test]
    fn what_is_not_sent_is_counted_and_receivers_miss_what_found_no_room() {
        let outgoing = outgoing(|settings| {
            (settings.queue, settings.payload, settings.streams) = (2, 3, 1);
        });
        for _ in 0..4 {
            outgoing.offer(&Event::new(20, 1));
        }
        outgoing.queues[1].waiting.lock().messages.clear();
        outgoing.offer(&Event::new(20, 1));
        assert_eq!(waiting(&outgoing, 2), [(20, 5)]);
        outgoing.offer(&Event { header: Header { ttl: 0, ..Event::new(20, 1).header }, ..Event::default() });
        outgoing.offer(&Event::new(20, 1).octets(b"four"));
        outgoing.offer(&Event::new(20, 2));
        let counts = outgoing.counters.read();
        let lost = (counts.overflowed, counts.expired, counts.too_large, counts.unnumbered);
        assert_eq!(lost, (2, 1, 1, 1));
    }
}
