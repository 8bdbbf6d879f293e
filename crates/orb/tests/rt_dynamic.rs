//! Distributable threads across ORBs: their identity, their scheduling, and their end.
#![cfg(feature = "dynamic-scheduling")]

mod common;

use common::{Echo, EchoRef, raw::Raw};
use isorb::rt::Priority;
use isorb::rt::dynamic::{
    Current, EarliestDeadline, FixedPriority, Guid, Parameter, Scheduler, Scheduling, SchedulingError,
};
use isorb::{Config, Kind, Orb, Reference, Result, SystemException, Upcall};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

fn p(value: i16) -> Parameter {
    Parameter::Priority(Priority::new(value).unwrap())
}

/// The distributable thread of a servant's caller.
#[derive(Clone, Debug, PartialEq)]
struct Observed {
    id: Option<Guid>,
    names: Vec<String>,
    parameter: Option<Parameter>,
    priority: Option<i16>,
}

#[derive(Default)]
struct Servant {
    current: OnceLock<Current>,
    seen: Mutex<Vec<Observed>>,
}

impl Servant {
    fn current(&self) -> &Current {
        self.current.get().unwrap()
    }
    fn take(&self) -> Vec<Observed> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
    fn note(&self, cx: Upcall<'_>) {
        let current = self.current();
        self.seen.lock().unwrap().push(Observed {
            id: current.id().ok(),
            names: current.current_scheduling_segment_names(),
            parameter: current.scheduling_parameter().ok(),
            priority: cx.orb().rt_current().the_priority().ok().map(Priority::get),
        });
    }
}

fn plain(error: SchedulingError) -> SystemException {
    match error {
        SchedulingError::System(exception) => exception,
        _ => Kind::InvPolicy.into(),
    }
}

impl Echo for Servant {
    fn ping(&self, cx: Upcall<'_>) -> Result<()> {
        self.note(cx);
        Ok(())
    }
    /// Works in a segment of its own, and makes a call from there.
    fn call_back<'u>(&'u self, cx: Upcall<'u>, to: Option<&'u EchoRef>) -> Result<&'u str> {
        self.note(cx);
        let current = self.current();
        current.begin_scheduling_segment("servant", Some(p(300)), None).map_err(plain)?;
        let called = to.map_or(Ok(()), |to| to.ping());
        current.end_scheduling_segment("servant").map_err(plain)?;
        called?;
        self.note(cx);
        Ok("called")
    }
    fn fail(&self, _: Upcall<'_>, how: u32) -> Result<()> {
        let current = self.current();
        match how {
            0 => current.begin_scheduling_segment("left open", Some(p(1)), None).map_err(plain),
            1 => current.end_scheduling_segment("client").map_err(plain),
            2 => {
                let me = current.lookup(current.id().map_err(plain)?);
                me.iter().for_each(|me| current.cancel(me));
                Ok(())
            }
            _ => Err(Kind::NoPermission.into()),
        }
    }
    fn sleep(&self, _: Upcall<'_>, ms: u32) -> Result<u32> {
        std::thread::sleep(Duration::from_millis(ms.into()));
        Ok(ms)
    }
    fn feed(&self, cx: Upcall<'_>, _: &[u8]) -> Result<()> {
        self.note(cx);
        Ok(())
    }
}

/// An ORB with an object, as one process has.
struct Node {
    orb: Orb,
    current: Current,
    servant: Arc<Servant>,
    near: EchoRef,
}

fn node(scheduler: Arc<dyn Scheduler>) -> Node {
    let scheduling = Scheduling::new(scheduler);
    let orb = Orb::builder()
        .config(Config::default())
        .register(|info| Ok(scheduling.register(info)?))
        .build()
        .unwrap();
    let current = scheduling.current(&orb);
    let servant = Arc::new(Servant::default());
    let _ = servant.current.set(current.clone());
    let root = orb.root_poa().unwrap();
    root.manager().activate().unwrap();
    let near = root.activate(servant.clone()).unwrap();
    Node { orb, current, servant, near }
}

impl Node {
    fn far(&self, other: &Node) -> EchoRef {
        self.orb.resolve(&other.near.object().to_string()).unwrap()
    }
}

fn apart(f: impl FnOnce() + Send + 'static) {
    std::thread::spawn(f).join().unwrap();
}

fn fixed() -> Node {
    node(Arc::new(FixedPriority))
}

const NO_THREAD: Observed = Observed { id: None, names: vec![], parameter: None, priority: None };

#[test]
fn a_thread_is_itself_in_every_process() {
    apart(|| {
        let (a, b, c) = (fixed(), fixed(), fixed());
        let to_b = a.far(&b);
        to_b.ping().unwrap();
        assert_eq!(b.servant.take(), [NO_THREAD], "no segment, no distributable thread");
        a.current.begin_scheduling_segment("outer", Some(p(100)), None).unwrap();
        a.current.begin_scheduling_segment("client", Some(p(200)), None).unwrap();
        let id = a.current.id().ok();
        let client = |names: &[&str], priority: i16| Observed {
            id,
            names: names.iter().map(|name| (*name).into()).collect(),
            parameter: Some(p(priority)),
            priority: Some(priority),
        };
        to_b.ping().unwrap();
        a.near.ping().unwrap();
        assert_eq!(b.servant.take(), [client(&["client"], 200)]);
        assert_eq!(a.servant.take(), [client(&["client"], 200)], "in its own process, too");
        // Through B, under B's own segment, to C, and back to A.
        to_b.call_back(Some(&c.near)).unwrap();
        assert_eq!(b.servant.take(), [client(&["client"], 200), client(&["client"], 200)]);
        assert_eq!(c.servant.take(), [client(&["servant"], 300)]);
        to_b.call_back(Some(&a.near)).unwrap();
        assert_eq!(a.servant.take(), [client(&["servant"], 300)]);
        // Segments of the servants are their own.
        assert_eq!(a.current.current_scheduling_segment_names(), ["client", "outer"]);
        assert_eq!(a.orb.rt_current().the_priority().map(Priority::get), Ok(200));
        a.current.end_scheduling_segment("client").unwrap();
        a.current.end_scheduling_segment("outer").unwrap();
        to_b.ping().unwrap();
        assert_eq!(b.servant.take().pop(), Some(NO_THREAD), "and B's thread kept nothing of it");
        [a, b, c].iter().for_each(|node| node.orb.shutdown(true).unwrap());
    });
}

#[test]
fn what_a_servant_may_not_do_ends_its_request_alone() {
    apart(|| {
        let (a, b) = (fixed(), fixed());
        let to_b = a.far(&b);
        a.current.begin_scheduling_segment("client", Some(p(200)), None).unwrap();
        let kind = |result: Result<()>| result.err().map(|exception| exception.kind);
        assert_eq!(kind(to_b.fail(0)), Some(Kind::BadInvOrder), "it left a segment open");
        assert_eq!(kind(to_b.fail(1)), Some(Kind::BadInvOrder), "the caller's segment is not its to end");
        assert_eq!(kind(to_b.fail(9)), Some(Kind::NoPermission));
        b.servant.take();
        to_b.ping().unwrap();
        assert_eq!(b.servant.take()[0].names, ["client"]);
        a.current.end_scheduling_segment("client").unwrap();
        // A servant's own segment, in a request outside of any distributable thread.
        assert_eq!(kind(to_b.fail(0)), None);
        to_b.ping().unwrap();
        assert_eq!(b.servant.take(), [NO_THREAD], "what was left open ended with its request");
        [a, b].iter().for_each(|node| node.orb.shutdown(true).unwrap());
    });
}

#[test]
fn a_cancelled_thread_comes_home_with_the_news() {
    apart(|| {
        let (a, b) = (fixed(), fixed());
        let to_b = a.far(&b);
        let gone = |result: Result<()>| assert_eq!(result.unwrap_err().kind, Kind::ThreadCancelled);
        // Cancelled in the serving process.
        a.current.begin_scheduling_segment("client", Some(p(200)), None).unwrap();
        gone(to_b.fail(2));
        gone(to_b.ping());
        assert!(matches!(
            a.current.end_scheduling_segment("client"),
            Err(SchedulingError::System(exception)) if exception.kind == Kind::ThreadCancelled
        ));
        to_b.ping().unwrap();
        // Cancelled in the calling process, during a call: the exception comes at the return.
        a.current.begin_scheduling_segment("client", Some(p(200)), None).unwrap();
        let (id, current) = (a.current.id().unwrap(), a.current.clone());
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let canceller = std::thread::spawn(move || {
            receiver.recv().unwrap();
            current.cancel(&current.lookup(id).unwrap());
        });
        a.servant.take();
        sender.send(()).unwrap();
        gone(to_b.sleep(200).map(drop).and_then(|()| to_b.ping()));
        canceller.join().unwrap();
        let _ = a.current.end_scheduling_segment("client");
        [a, b].iter().for_each(|node| node.orb.shutdown(true).unwrap());
    });
}

#[test]
fn what_cannot_be_scheduled_here_is_refused_and_the_connection_goes_on() {
    apart(|| {
        let (low, high) = (Priority::new(1).unwrap(), Priority::new(2).unwrap());
        let (a, b) = (fixed(), node(Arc::new(EarliestDeadline::within(low, high))));
        let to_b = a.far(&b);
        a.current.begin_scheduling_segment("client", Some(p(200)), None).unwrap();
        assert_eq!(to_b.ping().unwrap_err().kind, Kind::InvPolicy, "another discipline");
        a.current.end_scheduling_segment("client").unwrap();
        to_b.ping().unwrap();
        let mut raw = Raw::connect_at(b.near.object(), b.orb.endpoint_addresses()[0].1);
        for octets in [&b""[..], b"\0", b"\x01\x02\x03", &[0; 40], &[0xff; 64]] {
            assert_eq!(raw.call("ping", &[(0x4953_0110, octets)]).status, 2, "{octets:?}");
            assert_eq!(raw.call("ping", &[]).status, 0, "the connection goes on");
        }
        [a, b].iter().for_each(|node| node.orb.shutdown(true).unwrap());
    });
}

#[test]
fn a_oneway_is_served_as_the_threads() {
    apart(|| {
        let (a, b) = (fixed(), fixed());
        let to_b = a.far(&b);
        a.current.begin_scheduling_segment("client", Some(p(200)), None).unwrap();
        to_b.feed(b"one").unwrap();
        to_b.ping().unwrap();
        let seen = b.servant.take();
        assert_eq!(seen.len(), 2);
        assert_eq!(seen[0], seen[1]);
        a.current.end_scheduling_segment("client").unwrap();
        [a, b].iter().for_each(|node| node.orb.shutdown(true).unwrap());
    });
}
