//! A neighbour that does not answer a control message delays no events to others.

use crate::common::{Log, event, wait_until};
use isorb_event::federation::{
    ControlMessage, Federation, ForwardError, ForwardedEvent, Gateways, Interest, LinkDown, LinkId, Transport,
};
use isorb_event::{Channel, ConsumerQos, Filter, Priority, Quality, ThreadSetup};
use std::sync::{Arc, Condvar, Mutex, OnceLock};

/// A transport inside the process with a far end that can be frozen.
#[derive(Default)]
struct Wire {
    far: OnceLock<(Federation, LinkId)>,
    frozen: Mutex<bool>,
    thaws: Condvar,
    /// The threads that wait for its reply.
    waiting: Mutex<u32>,
}

impl Wire {
    fn freeze(&self, frozen: bool) {
        *self.frozen.lock().unwrap() = frozen;
        self.thaws.notify_all();
    }
}

impl Transport for Wire {
    fn announce(&self, messages: &[ControlMessage]) -> Result<(), LinkDown> {
        *self.waiting.lock().unwrap() += 1;
        let frozen = self.frozen.lock().unwrap();
        drop(self.thaws.wait_while(frozen, |frozen| *frozen).unwrap());
        *self.waiting.lock().unwrap() -= 1;
        let (far, link) = self.far.get().ok_or(LinkDown)?;
        messages.iter().for_each(|message| {
            far.receive_message(*link, message);
        });
        Ok(())
    }

    fn forward(&self, event: &ForwardedEvent<'_>) -> Result<(), ForwardError> {
        let (far, link) = self.far.get().ok_or(ForwardError::Down)?;
        far.receive_event(*link, event);
        Ok(())
    }
}

fn member(id: u64, gateways: Gateways) -> (Channel, Federation) {
    let channel = Channel::builder().id(id).build().unwrap();
    let node = Federation::builder(&channel).gateways(gateways).build().unwrap();
    (channel, node)
}

/// Joins two members. Returns the transport from the first to the second, and the first's link.
fn join(a: &Federation, b: &Federation) -> (Arc<Wire>, LinkId) {
    let (ab, ba) = (Arc::new(Wire::default()), Arc::new(Wire::default()));
    let (at_a, at_b) = (a.join(ab.clone()), b.join(ba.clone()));
    assert!(ab.far.set((b.clone(), at_b)).is_ok() && ba.far.set((a.clone(), at_a)).is_ok());
    (ab, at_a)
}

#[test]
fn urgent_events_pass_a_neighbour_that_does_not_answer() {
    let (source, from) = member(1, Gateways::Channel);
    let (_channel, middle) = member(2, Gateways::Threads(1, ThreadSetup::default()));
    let (sink, to) = member(3, Gateways::Channel);
    let (_idle, beside) = member(4, Gateways::Channel);
    // The neighbour that will be frozen is notified first.
    let (stalls, _) = join(&middle, &beside);
    let (_, up) = join(&middle, &from);
    join(&middle, &to);
    let log = Log::default();
    let quality = Quality { priority: Priority::MAX, ..Quality::default() };
    let _consumer = log.connect(&sink, ConsumerQos::new("urgent", Filter::of(20, 0)).quality(quality));
    let supplier = source.for_suppliers().connect().unwrap();
    let push = |n| {
        supplier.push(&event(20, 1, n).ttl(8));
    };
    let mut seen = Vec::new();
    let mut now = 0;
    wait_until("the way is made", || {
        now += 1;
        [&from, &middle, &to, &beside].iter().for_each(|node| node.tick(now, u64::MAX));
        push(now);
        seen.extend(log.take_times().concat());
        !seen.is_empty()
    });
    wait_until("what was pushed has come", || {
        seen.extend(log.take_times().concat());
        seen.last() == Some(&now)
    });

    struct Thaw<'a>(&'a Wire);
    impl Drop for Thaw<'_> {
        fn drop(&mut self) {
            self.0.freeze(false);
        }
    }
    std::thread::scope(|scope| {
        let thaw = Thaw(&stalls);
        stalls.freeze(true);
        // At the urgent level there is an update, which the next thread finds.
        let interests = vec![Interest {
            incarnation: 1,
            origin: 77,
            version: 1,
            hops: 0,
            filters: [Filter::of(30, 0)].into(),
        }];
        assert!(middle.accept_message(
            up,
            &ControlMessage { sender: 1, level: 3, interests, ..ControlMessage::default() }
        ));
        scope.spawn(|| (now + 1..=now + 3).for_each(push));
        wait_until("the frozen one is being told", || *stalls.waiting.lock().unwrap() == 1);
        wait_until("urgent events come all the same", || {
            seen.extend(log.take_times().concat());
            seen.last() == Some(&(now + 3))
        });
        assert_eq!(*stalls.waiting.lock().unwrap(), 1, "it has not answered yet");
        drop(thaw);
    });
    assert!(seen.windows(2).all(|pair| pair[0] + 1 == pair[1]), "in order, none lost: {seen:?}");
    wait_until("it answers when it thaws", || *stalls.waiting.lock().unwrap() == 0);
}
