//! Members in a line, a tree and a ring: each event arrives exactly once, and unwanted events cross
//! no link.

use crate::common::*;
use isorb_event::federation::{
    ControlMessage, Federation, ForwardError, ForwardedEvent, Gateways, Interest, LinkDown, LinkId,
    StreamPosition, StreamRequest, Transport,
};
use isorb_event::{
    Channel, ConsumerQos, ContentFilter, Filter, HistoryQos, Limits, ProxyPushSupplier, Quality, ThreadSetup,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// A transport inside the process that can be cut.
struct Wire {
    far: OnceLock<(Federation, LinkId)>,
    up: AtomicBool,
}

impl Transport for Wire {
    fn announce(&self, messages: &[ControlMessage]) -> Result<(), LinkDown> {
        let (far, link) = self.far()?;
        messages.iter().for_each(|message| {
            far.receive_message(*link, message);
        });
        Ok(())
    }

    fn forward(&self, event: &ForwardedEvent<'_>) -> Result<(), ForwardError> {
        let (far, link) = self.far().map_err(|_| ForwardError::Down)?;
        far.receive_event(*link, event);
        Ok(())
    }
}

impl Wire {
    fn far(&self) -> Result<&(Federation, LinkId), LinkDown> {
        self.far.get().filter(|_| self.up.load(Ordering::SeqCst)).ok_or(LinkDown)
    }
}

struct Net {
    channels: Vec<Channel>,
    nodes: Vec<Federation>,
    wires: Vec<[(usize, LinkId, Arc<Wire>); 2]>,
}

impl Net {
    fn new(count: usize, edges: impl IntoIterator<Item = (usize, usize)>) -> Net {
        let limits = Limits {
            consumers: 32,
            suppliers: 32,
            events: 8,
            sets: 8,
            trace_threads: 0,
            ..Limits::default()
        };
        let channel = |i: usize| {
            let config = Channel::builder().id(i as u64 + 1).limits(limits).own_threads(false);
            config.build().unwrap()
        };
        let channels: Vec<Channel> = (0..count).map(channel).collect();
        let nodes = channels.iter().map(|c| Federation::builder(c).build().unwrap()).collect();
        let mut net = Net { channels, nodes, wires: vec![] };
        edges.into_iter().for_each(|(a, b)| net.join(a, b));
        net
    }

    fn join(&mut self, a: usize, b: usize) {
        self.link(a, b);
        // The state was sent before the other end existed: send it again.
        self.nodes[a].tick(1, 1);
        self.nodes[b].tick(1, 1);
    }

    fn link(&mut self, a: usize, b: usize) {
        let wire = || Arc::new(Wire { far: OnceLock::new(), up: AtomicBool::new(true) });
        let (ab, ba) = (wire(), wire());
        let (at_a, at_b) = (self.nodes[a].join(ab.clone()), self.nodes[b].join(ba.clone()));
        assert!(ab.far.set((self.nodes[b].clone(), at_b)).is_ok());
        assert!(ba.far.set((self.nodes[a].clone(), at_a)).is_ok());
        self.wires.push([(a, at_a, ab), (b, at_b, ba)]);
    }

    fn cut(&mut self, wire: usize) {
        for (node, link, wire) in self.wires.swap_remove(wire) {
            wire.up.store(false, Ordering::SeqCst);
            self.nodes[node].leave(link);
        }
    }

    fn consumer(&self, at: usize, log: &Log, filter: Filter) -> ProxyPushSupplier {
        log.connect(&self.channels[at], ConsumerQos::new("consumer", filter))
    }

    fn push(&self, at: usize, event_type: i32, time: u64) {
        let supplier = self.channels[at].for_suppliers().connect().unwrap();
        supplier.push(&event(event_type, 1, time).ttl(64));
    }

    /// Events that crossed links.
    fn crossed(&self) -> u64 {
        self.nodes.iter().map(|node| node.counts().forwarded).sum()
    }
}

fn line(count: usize) -> Vec<(usize, usize)> {
    (1..count).map(|i| (i - 1, i)).collect()
}

fn shapes(count: usize) -> [Vec<(usize, usize)>; 3] {
    let tree = (1..count).map(|i| ((i - 1) / 2, i)).collect();
    let ring = line(count).into_iter().chain([(count - 1, 0)]).collect();
    [line(count), tree, ring]
}

#[test]
fn fifty_channels_deliver_exactly_once() {
    const N: usize = 50;
    for edges in shapes(N) {
        let net = Net::new(N, edges);
        assert!(net.nodes.iter().all(|node| node.known() == N - 1));
        let logs: Vec<Log> = (0..N).map(|_| Log::default()).collect();
        let _everywhere: Vec<_> = (0..N).map(|i| net.consumer(i, &logs[i], Filter::of(20, 0))).collect();
        for at in [0, 17, 49] {
            net.push(at, 20, at as u64);
            for (i, log) in logs.iter().enumerate() {
                assert_eq!(log.take_times(), [[at as u64]], "from {at} to {i}");
            }
        }
    }
}

#[test]
fn unwanted_events_never_cross_a_link() {
    const N: usize = 50;
    for edges in shapes(N) {
        let net = Net::new(N, edges);
        let (far, near) = (Log::default(), Log::default());
        let consumer = net.consumer(30, &far, Filter::of(20, 0));
        let _near = net.consumer(0, &near, Filter::Everything);
        let before = net.crossed();
        net.push(0, 21, 1);
        assert_eq!((near.take().len(), net.crossed() - before), (1, 0));
        net.push(0, 20, 2);
        assert_eq!(far.take_times(), [[2]]);
        let hops = net.crossed() - before;
        assert!((1..=30).contains(&hops), "by one way only: {hops}");
        // With the consumer, its interest goes everywhere.
        drop(consumer);
        let before = net.crossed();
        net.push(0, 20, 3);
        assert_eq!(net.crossed(), before);
    }
}

#[test]
fn the_condition_of_a_consumer_holds_for_events_of_links() {
    let number = |value: i32| isorb_event::remote::encode(&value).unwrap();
    let net = Net::new(3, line(3));
    let (some, all) = (Log::default(), Log::default());
    let condition = ContentFilter::new("payload > 5", &isorb_any::TypeCode::LONG).unwrap();
    let qos = ConsumerQos::new("some", Filter::of(20, 0)).content(condition);
    let proxy = some.connect(&net.channels[2], qos);
    let _all = net.consumer(1, &all, Filter::of(20, 0));
    let supplier = net.channels[0].for_suppliers().connect().unwrap();
    for value in 0..10 {
        supplier.push(&event(20, 1, value).ttl(64).octets(&number(value as i32)));
    }
    supplier.push(&event(20, 1, 10).ttl(64).octets(b"no long"));
    assert_eq!(some.take_times(), [[6], [7], [8], [9]]);
    assert_eq!(all.take().len(), 11);
    let counts = proxy.counts();
    assert_eq!((counts.pushed, counts.filtered, counts.unreadable), (4, 6, 1));
}

#[test]
fn events_of_links_are_kept_by_the_channel_of_their_supplier_only() {
    let keeping = |id: u64| {
        let history = HistoryQos { streams: 8, ..HistoryQos::keep_last(4) };
        Channel::builder().id(id).history(history).own_threads(false).build().unwrap()
    };
    let mut net = Net::new(0, []);
    net.channels = vec![keeping(1), keeping(2)];
    net.nodes = net.channels.iter().map(|c| Federation::builder(c).build().unwrap()).collect();
    net.join(0, 1);
    let log = Log::default();
    let _c = net.consumer(1, &log, Filter::of(20, 0));
    net.push(0, 20, 1);
    assert_eq!(log.take_times(), [[1]]);
    let kept = |at: usize| net.channels[at].history().unwrap().streams.iter().map(|s| s.kept).sum::<usize>();
    assert_eq!((kept(0), kept(1)), (1, 0));
}

#[test]
fn conjunctions_are_fed_from_both_sides() {
    let net = Net::new(3, line(3));
    let log = Log::default();
    let _c = net.consumer(1, &log, Filter::all_of([Filter::of(20, 0), Filter::of(21, 0)]));
    net.push(0, 20, 1);
    assert!(log.take().is_empty());
    net.push(2, 21, 2);
    assert_eq!(log.take_times(), [[1, 2]]);
}

#[test]
fn a_time_to_live_ends_the_way() {
    let net = Net::new(4, line(4));
    let logs: Vec<Log> = (0..4).map(|_| Log::default()).collect();
    let _c: Vec<_> = (0..4).map(|i| net.consumer(i, &logs[i], Filter::of(20, 0))).collect();
    net.channels[0].for_suppliers().connect().unwrap().push(&event(20, 1, 0).ttl(2));
    assert_eq!(logs.iter().map(|log| log.take().len()).collect::<Vec<_>>(), [1, 1, 1, 0]);
    assert_eq!(net.nodes[2].counts().expired, 1);
}

#[test]
fn a_ring_that_is_cut_is_a_line_and_joins_again() {
    let [_, _, ring] = shapes(6);
    let mut net = Net::new(6, ring);
    let log = Log::default();
    let _c = net.consumer(3, &log, Filter::of(20, 0));
    for (n, cut) in [(1, true), (2, true), (3, false)] {
        net.push(0, 20, n);
        assert_eq!(log.take_times(), [[n]]);
        if cut {
            // First one of the two routes from 0 to 3, then, after mending, the other.
            if n == 2 {
                net.join(2, 3);
            }
            let wire = net.wires.iter().position(|[a, b]| (a.0, b.0) == if n == 1 { (2, 3) } else { (3, 4) });
            net.cut(wire.unwrap());
            // A member that still knows a shorter route takes another when that one lags three
            // versions behind.
            (0..3).for_each(|_| net.nodes.iter().for_each(|node| node.tick(n * 10, u64::MAX)));
        }
    }
}

/// As when it was stopped for a time and its neighbours left it.
#[test]
fn events_of_an_isolated_member_arrive_after_it_joins_again() {
    let mut net = Net::new(2, line(2));
    let log = Log::default();
    let _c = net.consumer(1, &log, Filter::of(20, 0));
    net.push(0, 20, 1);
    net.cut(0);
    (2..=10).for_each(|n| net.push(0, 20, n));
    // No member has ever wanted this.
    net.push(0, 21, 11);
    assert_eq!(log.take_times().concat(), [1]);
    net.join(0, 1);
    net.push(0, 20, 12);
    assert_eq!(log.take_times().concat(), [2, 3, 4, 5, 6, 7, 8, 9, 10, 12]);
    let counts = net.nodes[0].counts();
    assert_eq!((counts.forwarded, counts.lost), (11, 0));
}

#[test]
fn channels_that_fall_silent_are_forgotten() {
    let mut net = Net::new(3, line(3));
    let log = Log::default();
    let _c = net.consumer(2, &log, Filter::of(20, 0));
    net.nodes.iter().for_each(|node| node.tick(100, 50));
    assert_eq!(net.nodes[0].known(), 2);
    net.cut(1);
    // Channel 1 renews, channel 2 cannot.
    for now in [120, 140, 160, 180] {
        net.nodes[1].tick(now, 50);
        net.nodes[0].tick(now, 50);
    }
    assert_eq!(net.nodes[0].known(), 1);
    let before = net.crossed();
    net.push(0, 20, 1);
    assert_eq!((net.crossed(), log.take().len()), (before, 0));
}

#[test]
fn messages_before_the_first_tick_do_not_expire() {
    let mut net = Net::new(2, []);
    net.link(0, 1);
    let log = Log::default();
    // Sent to channel 0 before the first tick of either.
    let _c = net.consumer(1, &log, Filter::of(20, 0));
    net.nodes[1].resend(net.wires[0][1].1);
    assert_eq!(net.nodes[0].known(), 1);
    net.nodes[0].tick(1_000_000, 50);
    assert_eq!(net.nodes[0].known(), 1);
    net.push(0, 20, 1);
    assert_eq!(log.take().len(), 1);
}

/// A transport that blocks until it is released.
struct Stalled(AtomicBool);

impl Transport for Stalled {
    fn announce(&self, _: &[ControlMessage]) -> Result<(), LinkDown> {
        Ok(())
    }

    fn forward(&self, _: &ForwardedEvent<'_>) -> Result<(), ForwardError> {
        while !self.0.load(Ordering::SeqCst) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        Err(ForwardError::Down)
    }
}

#[test]
fn a_stalled_link_delays_no_consumer() {
    use isorb_event::dispatch::{Dispatch, Queued};
    let channel = Channel::builder().id(1).build().unwrap();
    let setup = ThreadSetup::default();
    let strategy = isorb_event::Strategy::Threads { per_level: 1 };
    let dispatch = Queued::alone(strategy, &[isorb_event::Priority::MIN], &setup).unwrap().unwrap();
    let quality = Quality { queue: 2, ..Quality::default() };
    let dispatch: Arc<dyn Dispatch> = Arc::new(dispatch);
    let federation = Federation::builder(&channel)
        .quality(quality)
        .gateways(Gateways::Dispatcher(dispatch))
        .build()
        .unwrap();
    let stalled = Arc::new(Stalled(AtomicBool::new(false)));
    let link = federation.join(stalled.clone());
    let interests = vec![Interest {
        incarnation: 1,
        origin: 2,
        version: 1,
        hops: 0,
        filters: [Filter::of(20, 0)].into(),
    }];
    let requests = vec![StreamRequest { source: 1, parent: 1, number: 1, after: None, consumers: vec![2] }];
    federation.receive_message(
        link,
        &ControlMessage { sender: 2, level: 0, interests, requests, positions: vec![] },
    );
    let log = Log::default();
    let _c = log.connect(&channel, wants(Filter::of(20, 0)));
    let supplier = channel.for_suppliers().connect().unwrap();
    (1..=10).for_each(|n| assert_eq!(supplier.push(&event(20, 1, n)).taken, 2));
    assert_eq!(log.take_times().concat(), (1..=10).collect::<Vec<_>>());
    stalled.0.store(true, Ordering::SeqCst);
    federation.leave(link);
}

#[test]
fn a_member_with_too_many_filters_is_sent_everything() {
    use isorb_event::federation::MAX_FILTERS;
    let net = Net::new(2, line(2));
    let log = Log::default();
    let many: Vec<Filter> = (0..=MAX_FILTERS as i32).map(|i| Filter::of(1_000 + i, 1)).collect();
    let _c: Vec<_> = many
        .chunks(isorb_event::MAX_TERMS * 16)
        .map(|some| {
            let filters = some.chunks(isorb_event::MAX_TERMS).map(|some| Filter::any_of(some.to_vec()));
            log.connect(
                &net.channels[1],
                ConsumerQos { filters: filters.collect(), ..ConsumerQos::default() },
            )
        })
        .collect();
    net.push(0, 1_000 + MAX_FILTERS as i32, 1);
    net.push(0, 20, 2);
    assert_eq!((log.take_times(), net.nodes[0].counts().forwarded), (vec![vec![1]], 2));
}

/// A transport without a far end that records requests.
#[derive(Default)]
struct Sink {
    requests: Mutex<Vec<StreamRequest>>,
    last: AtomicU64,
}

impl Sink {
    /// Whether events of channel 9 are requested of it; `None` if there was no message.
    fn requested(&self) -> Option<bool> {
        let requests = std::mem::take(&mut *self.requests.lock().unwrap());
        requests.last().map(|pull| !pull.consumers.is_empty())
    }
}

impl Transport for Sink {
    fn announce(&self, messages: &[ControlMessage]) -> Result<(), LinkDown> {
        for pull in messages.iter().flat_map(|message| &message.requests).filter(|pull| pull.source == 9) {
            // The same request may be repeated, to acknowledge the grant.
            let again = self.last.swap(pull.number, Ordering::SeqCst) == pull.number;
            if !again || pull.consumers.is_empty() {
                self.requests.lock().unwrap().push(pull.clone());
            }
        }
        Ok(())
    }
    fn forward(&self, _: &ForwardedEvent<'_>) -> Result<(), ForwardError> {
        Ok(())
    }
}

/// Each tick's version arrives by all routes. The order of arrival must not decide the route, or
/// events would be reordered.
#[test]
fn a_longer_way_that_is_ahead_does_not_take_the_events() {
    let channel = Channel::builder().id(1).own_threads(false).build().unwrap();
    let node = Federation::builder(&channel).build().unwrap();
    let (near, far) = (Arc::new(Sink::default()), Arc::new(Sink::default()));
    let (short, long) = (node.join(near.clone()), node.join(far.clone()));
    let log = Log::default();
    let _c = log.connect(&channel, wants(Filter::of(20, 0)));
    let receives = |link: LinkId, version, hops| {
        let interests = vec![Interest { incarnation: 1, origin: 9, version, hops, filters: [].into() }];
        let sender = u64::from(100 + link.0);
        // Every request is granted.
        let sink = if link == short { &near } else { &far };
        let granted = vec![(1, sink.last.load(Ordering::SeqCst))];
        let positions = vec![StreamPosition { source: 9, epoch: version, position: 0, granted }];
        assert!(node.receive_message(
            link,
            &ControlMessage { sender, level: 0, interests, requests: vec![], positions }
        ));
    };
    receives(short, 1, 0);
    assert_eq!((near.requested(), far.requested()), (Some(true), None));
    for version in 2..20 {
        receives(long, version, 1);
        assert_eq!(
            (near.requested(), far.requested()),
            (None, None),
            "version {version} by the long way first"
        );
        receives(short, version, 0);
    }
    // A route that does not keep up is abandoned until it does. The old stream continues until the
    // new one has begun.
    (20..23).for_each(|version| receives(long, version, 1));
    assert_eq!((near.requested(), far.requests.lock().unwrap().len()), (None, 1));
    receives(long, 23, 1);
    assert_eq!((near.requested(), far.requested()), (Some(false), Some(true)));
    receives(short, 23, 0);
    assert_eq!((near.requested(), far.requested()), (Some(true), None));
    assert!(!node.receive_message(LinkId(99), &ControlMessage::default()), "a link that is gone says so");
}

/// A neighbour requests events after a number far beyond the current one. Others behind the same
/// member still receive their events.
#[test]
fn a_request_beyond_the_end_harms_no_other_member() {
    let net = Net::new(3, line(3));
    let forger = Arc::new(Sink::default());
    let link = net.nodes[1].join(forger);
    let interests = vec![Interest {
        incarnation: 1,
        origin: 9,
        version: 1,
        hops: 0,
        filters: [Filter::of(20, 0)].into(),
    }];
    let requests =
        vec![StreamRequest { source: 1, parent: 2, number: 1, after: Some(u64::MAX), consumers: vec![9] }];
    net.nodes[1].receive_message(
        link,
        &ControlMessage { sender: 9, level: 0, interests, requests, positions: vec![] },
    );
    net.push(0, 20, 1);
    let log = Log::default();
    let _c = net.consumer(2, &log, Filter::of(20, 0));
    net.push(0, 20, 2);
    assert_eq!(log.take_times(), [[2]]);
}

/// Others may remember its earlier versions; it must not need to exceed them one by one.
#[test]
fn a_restarted_member_is_recognised_at_once() {
    let mut net = Net::new(3, line(3));
    let log = Log::default();
    let _before = net.consumer(2, &log, Filter::of(20, 0));
    (0..50).for_each(|_| net.nodes[2].tick(1, 1_000));
    net.push(0, 20, 1);
    assert_eq!(log.take_times(), [[1]]);
    // It ends, notifying only its neighbour, and returns with the same number.
    net.cut(1);
    let limits = Limits { trace_threads: 0, ..Limits::default() };
    let config = Channel::builder().id(3).limits(limits).own_threads(false);
    net.channels[2] = config.build().unwrap();
    net.nodes[2] = Federation::builder(&net.channels[2]).build().unwrap();
    let _after = net.consumer(2, &log, Filter::of(21, 0));
    net.join(1, 2);
    net.push(0, 21, 2);
    assert_eq!(log.take_times(), [[2]]);
}

/// A neighbour that is unreachable for the whole time-out is left, and the link's consumer is
/// disconnected.
#[test]
fn a_neighbour_that_stays_away_is_left() {
    let net = Net::new(2, line(2));
    let log = Log::default();
    let _far = net.consumer(1, &log, Filter::of(20, 0));
    let (_, link, wire) = &net.wires[0][0];
    wire.up.store(false, Ordering::SeqCst);
    net.nodes[0].tick(1_000, 500);
    assert!(!net.nodes[0].is_up(*link));
    assert_eq!(net.nodes[0].links(), 1);
    net.nodes[0].tick(1_499, 500);
    assert_eq!(net.nodes[0].links(), 1);
    net.nodes[0].tick(1_500, 500);
    assert_eq!((net.nodes[0].links(), net.channels[0].consumers().len()), (0, 0));
}
