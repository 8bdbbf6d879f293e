use super::*;
use crate::idl::{
    CRM_Comm, DescriptionView, GroupView, HandlesView, NodeReportView, OctetsView, OfferView, ReaderQoS,
    State as IdlState, crm_comm,
};
use crate::memory::{Geometry, Segment, Writer};
use isorb::{Kind, Result, SystemException, Upcall};
use isorb_testkit::{RunningOrb, wait_until};
use std::sync::Mutex;

const MS: u64 = 1_000_000;

#[test]
fn guaranteed_values_are_pushed_no_faster_than_admitted() {
    // A writer that writes without end: the pushes of a second.
    let (mut due, mut pushes, mut at_once) = (0, Vec::new(), 0);
    for now in 1_000..2_000 {
        let before = pushes.len();
        while now >= due {
            due = next_due(due, now, 100);
            pushes.push(now);
        }
        at_once = at_once.max(pushes.len() - before);
    }
    assert_eq!((pushes.len(), at_once), (11, 2), "{pushes:?}");
    // A push that was late does not delay those after it.
    due = 0;
    for now in [1_000, 1_100, 1_280, 1_300, 1_400] {
        assert!(now >= due, "{now}: {due}");
        due = next_due(due, now, 100);
    }
}

#[test]
fn only_oneway_pushes_have_a_window() {
    assert_eq!((window(100, false), window(100, true), window(300 << 10, true)), (1, 16, 3));
    assert_eq!((window(0, true), window(1 << 30, true)), (16, 1));
}

/// What reached the reader's node, and when.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Event {
    Push(u64),
    Beat(IdlState, Times),
}

/// The reader's node as a test wants it.
#[derive(Default)]
struct Peer {
    events: Mutex<Vec<(u64, Event)>>,
    taken: AtomicU64,
    /// Raises an exception for pushes by calls, and drops oneways.
    refuses: AtomicBool,
    /// Each call takes so long.
    slow: Duration,
}

impl Peer {
    fn record(&self, event: Event) {
        self.events.lock().unwrap().push((now_ns(), event));
        std::thread::sleep(self.slow);
    }

    fn pushed(&self, number: u64) -> bool {
        self.record(Event::Push(number));
        let accepts = !self.refuses.load(Ordering::Relaxed);
        if accepts {
            let _ = self.taken.fetch_max(number, Ordering::Relaxed);
        }
        accepts
    }

    /// The times of pushes.
    fn pushes(&self) -> Vec<u64> {
        let events = self.events.lock().unwrap();
        events.iter().filter(|(_, event)| matches!(event, Event::Push(_))).map(|(at, _)| *at).collect()
    }

    fn beats(&self) -> Vec<(IdlState, Times)> {
        let events = self.events.lock().unwrap();
        let beat = |event| if let Event::Beat(state, times) = event { Some((state, times)) } else { None };
        events.iter().filter_map(|(_, event)| beat(*event)).collect()
    }

    fn last_state(&self) -> Option<IdlState> {
        self.beats().last().map(|(state, _)| *state)
    }
}

fn not_here() -> SystemException {
    Kind::NoImplement.into()
}

impl CRM_Comm for Peer {
    fn node<'u>(&'u self, _: Upcall<'u>) -> Result<&'u str> {
        Err(not_here())
    }

    fn describe<'u>(
        &'u self,
        _: Upcall<'u>,
        _: &'u str,
        _: u32,
    ) -> Result<DescriptionView<'u>, crm_comm::DescribeError> {
        Err(not_here().into())
    }

    fn open_channel(
        &self,
        _: Upcall<'_>,
        _: &str,
        _: ReaderQoS,
        _: OfferView<'_>,
        _: Option<&CRM_CommRef>,
    ) -> Result<u64, crm_comm::OpenChannelError> {
        Err(not_here().into())
    }

    fn join_group<'u>(
        &'u self,
        _: Upcall<'u>,
        _: &'u str,
        _: ReaderQoS,
        _: &'u str,
        _: u64,
        _: Option<&'u CRM_CommRef>,
    ) -> Result<GroupView<'u>, crm_comm::JoinGroupError> {
        Err(not_here().into())
    }

    fn close_channel(&self, _: Upcall<'_>, _: u64) -> Result<u64, crm_comm::CloseChannelError> {
        Err(not_here().into())
    }

    fn set_running(&self, _: Upcall<'_>, _: u64, _: bool) -> Result<(), crm_comm::SetRunningError> {
        Err(not_here().into())
    }

    fn push(
        &self,
        _: Upcall<'_>,
        _: u32,
        _: u64,
        number: u64,
        _: u64,
        _: u64,
        _: u64,
        _: u64,
        _: OctetsView<'_>,
    ) -> Result<bool> {
        if self.pushed(number) { Ok(true) } else { Err(Kind::Transient.into()) }
    }

    fn push_oneway(
        &self,
        _: Upcall<'_>,
        _: u32,
        _: u64,
        number: u64,
        _: u64,
        _: u64,
        _: u64,
        _: u64,
        _: OctetsView<'_>,
    ) -> Result<()> {
        self.pushed(number);
        Ok(())
    }

    fn beat(
        &self,
        _: Upcall<'_>,
        _: u32,
        _: u64,
        now: IdlState,
        times: Times,
    ) -> Result<(u64, u64), crm_comm::BeatError> {
        self.record(Event::Beat(now, times));
        Ok((self.taken.load(Ordering::Relaxed), now_ns()))
    }

    fn ping(&self, _: Upcall<'_>) -> Result<()> {
        Err(not_here())
    }

    fn unread_channels<'u>(&'u self, _: Upcall<'u>, _: HandlesView<'u>) -> Result<HandlesView<'u>> {
        Err(not_here())
    }

    fn report<'u>(&'u self, _: Upcall<'u>, _: u32) -> Result<NodeReportView<'u>> {
        Err(not_here())
    }
}

/// A channel to a peer, which ends with it.
struct Line {
    peer: Arc<Peer>,
    writer: Option<Writer>,
    segment: Segment,
    control: Arc<PushControl>,
    pacing: Arc<CallPacing>,
    threads: Arc<AtomicUsize>,
    _orbs: [RunningOrb; 2],
}

impl Line {
    fn new(peer: Peer, mode: Mode, oneway: bool, pacing: CallPacing) -> Line {
        let orbs = [RunningOrb::new(), RunningOrb::new()];
        let peer = Arc::new(peer);
        let reference: CRM_CommRef = orbs[0].root_poa().unwrap().activate(peer.clone()).unwrap();
        let url = isorb::Reference::object(&reference).to_string();
        let reader = FailoverRef::of(
            &orbs[1].resolve::<CRM_CommRef>(&url).unwrap(),
            Duration::from_secs(60),
            Arc::default(),
        );
        let segment = Segment::create("line", Geometry::new(64, 8).unwrap()).unwrap();
        let (control, pacing) = (Arc::new(PushControl::default()), Arc::new(pacing));
        let threads = Arc::default();
        let push = OrbPush {
            name: "line".into(),
            source: segment.reader().unwrap(),
            channel: Channel { id: 1, epoch: 1, token: 7, size: 64, fragment: 1384, parity: 0 },
            reader,
            mode,
            oneway,
            control: control.clone(),
            pacing: pacing.clone(),
            urgency: None,
            _permit: ThreadPermit::take(&threads),
        };
        push.start().unwrap();
        let writer = Some(segment.writer().unwrap());
        Line { peer, writer, segment, control, pacing, threads, _orbs: orbs }
    }

    fn write(&mut self) {
        self.writer.as_mut().unwrap().write(&[1; 64]).unwrap();
    }

    /// Writes without end while it waits.
    fn while_writing(&mut self, what: &str, so: impl Fn(&Line) -> bool) {
        let mut writer = self.writer.take().unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    writer.write(&[1; 64]).unwrap();
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            let stop_at_end = StopAtEnd(&stop);
            wait_until(what, || so(self));
            drop(stop_at_end);
        });
        self.writer = Some(writer);
    }
}

struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.control.end();
        if !std::thread::panicking() {
            wait_until("the thread ends", || self.threads.load(Ordering::Relaxed) == 0);
        }
    }
}

fn slow_peer() -> Peer {
    Peer { slow: Duration::from_millis(20), ..Peer::default() }
}

/// The reader's node must not take a channel for dead that waits for its turn.
#[test]
fn a_channel_that_awaits_its_turn_sends_heartbeats() {
    for oneway in [false, true] {
        let mut line = Line::new(Peer::default(), Mode::OnWrite, oneway, CallPacing::new());
        wait_until("the first heartbeat", || !line.peer.beats().is_empty());
        line.pacing.set_rate(1_000);
        // A quarter of an hour of others.
        line.pacing.count(now_ns(), 900_000);
        line.write();
        let before = line.peer.beats().len();
        wait_until("heartbeats meanwhile", || line.peer.beats().len() >= before + 3);
        assert_eq!(line.peer.pushes().len(), 0, "it has no turn");
        line.pacing.set_rate(0);
        wait_until("its value", || line.peer.pushes().len() == 1);
    }
}

/// The turns of others do not wait for a channel that has ended.
#[test]
fn a_channel_that_ends_gives_its_turn_back() {
    for oneway in [false, true] {
        let mut line = Line::new(Peer::default(), Mode::OnWrite, oneway, CallPacing::new());
        wait_until("the first heartbeat", || !line.peer.beats().is_empty());
        // A call of the channel takes minutes of this link, and it comes after others.
        line.pacing.set_rate(1);
        line.pacing.count(now_ns(), 1_000);
        let pacing = line.pacing.clone();
        let others = || pacing.book(0).begin(now_ns()).unwrap_err();
        let before = others();
        line.write();
        wait_until("it awaits its turn", || others() > before + 60_000 * MS);
        line.control.end();
        wait_until("its end", || line.threads.load(Ordering::Relaxed) == 0);
        assert!(others() < before + 60_000 * MS, "its turn is that of others");
        assert_eq!(line.peer.pushes().len(), 0, "it had none");
    }
}

/// A writer that is faster than the calls: the clocks are compared all the same.
#[test]
fn pushes_do_not_take_the_place_of_heartbeats() {
    for oneway in [false, true] {
        let mut line = Line::new(slow_peer(), Mode::OnWrite, oneway, CallPacing::new());
        line.while_writing("round trips", |line| {
            let answered = line.peer.beats().iter().filter(|(_, times)| times.answered > 0).count();
            answered >= 3
        });
    }
}

#[test]
fn a_channel_whose_writer_is_faster_than_the_calls_is_stopped_and_started() {
    for oneway in [false, true] {
        let mut line = Line::new(slow_peer(), Mode::OnWrite, oneway, CallPacing::new());
        line.while_writing("pushes", |line| line.peer.pushes().len() >= 5);
        line.control.set_running(false);
        line.while_writing("stopped", |line| line.peer.last_state() == Some(IdlState::StateStopped));
        let (pushes, beats) = (line.peer.pushes().len(), line.peer.beats().len());
        line.while_writing("heartbeats", |line| line.peer.beats().len() >= beats + 2);
        assert_eq!(line.peer.pushes().len(), pushes, "oneway: {oneway}");
        line.control.set_running(true);
        line.while_writing("pushes again", |line| line.peer.pushes().len() > pushes);
    }
}

/// A value that comes late, by its period, shows no node a dead writer as alive for long.
#[test]
fn a_push_after_the_death_of_the_writer_is_followed_by_its_state() {
    for oneway in [false, true] {
        let mut line =
            Line::new(Peer::default(), Mode::Periodic { period_ns: 100 * MS }, oneway, CallPacing::new());
        line.segment.set_state(State::WriterGone).unwrap();
        wait_until("its state", || line.peer.last_state() == Some(IdlState::StateWriterGone));
        line.while_writing("pushes", |line| line.peer.pushes().len() >= 8);
        let events = line.peer.events.lock().unwrap().clone();
        let both = |pair: &[(u64, Event)]| pair.iter().all(|(_, event)| matches!(event, Event::Push(_)));
        assert!(!events.windows(2).any(both), "{events:?}");
    }
}

/// One value that the other node drops is sent again and again, with pauses, and is one push.
#[test]
fn a_oneway_that_is_not_accepted_is_sent_again_with_pauses_and_counts_once() {
    let peer = Peer { refuses: AtomicBool::new(true), ..Peer::default() };
    let mut line = Line::new(peer, Mode::OnWrite, true, CallPacing::new());
    line.write();
    let times = IN_VAIN as usize + 2;
    wait_until("resends", || line.peer.pushes().len() >= times);
    let at = line.peer.pushes();
    // The first is repeated at once: the heartbeat may have overtaken it.
    let least = RETRY.as_nanos() as u64 * (times as u64 - 2) / 10 * 9;
    assert!(at[times - 1] - at[0] >= least, "{at:?}");
    assert_eq!(line.control.stats().pushes, 1);
    line.peer.refuses.store(false, Ordering::Relaxed);
    wait_until("it is accepted", || line.peer.taken.load(Ordering::Relaxed) == 1);
    line.write();
    wait_until("the next", || line.peer.taken.load(Ordering::Relaxed) == 2);
    // The sender counts it after the other node has it.
    wait_until("it counts", || line.control.stats().pushes == 2);
}

/// Each call carries the value, whether the other node accepts it or not.
#[test]
fn a_call_that_is_repeated_takes_a_turn_each_time() {
    let peer = Peer { refuses: AtomicBool::new(true), ..Peer::default() };
    let mut line = Line::new(peer, Mode::OnWrite, false, CallPacing::new());
    // A call takes 200 ms of this link.
    line.pacing.set_rate(value_octets(64) * 5);
    line.write();
    wait_until("calls", || line.peer.pushes().len() >= 6);
    let at = line.peer.pushes();
    assert!(at[5] - at[0] >= 4 * 190 * MS, "{at:?}");
    assert!(line.control.stats().refused >= 5 && line.control.stats().pushes == 0);
    line.peer.refuses.store(false, Ordering::Relaxed);
    wait_until("it is accepted", || line.control.stats().pushes == 1);
}
