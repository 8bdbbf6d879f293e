use super::*;
use crate::rt::{RealTime, RealTimeConfig};
use crate::{Config, Kind};
use isorb_rt::sched::SchedClass;
use isorb_rt::time::now_ns;
use std::sync::mpsc;

fn p(value: i16) -> Parameter {
    Parameter::Priority(Priority::new(value).unwrap())
}

fn by(ms: u64) -> Parameter {
    Parameter::Deadline { at_ns: now_ns() + ms * 1_000_000, importance: 0 }
}

fn orb(scheduling: &Scheduling) -> Orb {
    Orb::builder().config(Config::default()).register(|info| Ok(scheduling.register(info)?)).build().unwrap()
}

fn fixed() -> (Scheduling, Orb, Current) {
    let scheduling = Scheduling::new(Arc::new(FixedPriority));
    let orb = orb(&scheduling);
    let current = scheduling.current(&orb);
    (scheduling, orb, current)
}

/// Runs `f` on a thread of its own, so that its settings do not stay with the test's thread.
fn apart(f: impl FnOnce() + Send + 'static) {
    std::thread::spawn(f).join().unwrap();
}

fn kind<T>(result: Result<T, SchedulingError>) -> Option<Kind> {
    match result {
        Err(SchedulingError::System(exception)) => Some(exception.kind),
        _ => None,
    }
}

#[test]
fn calls_out_of_order_are_refused() {
    apart(|| {
        let (_, _, current) = fixed();
        let order = Some(Kind::BadInvOrder);
        assert_eq!(kind(current.id()), order);
        assert_eq!(kind(current.scheduling_parameter()), order);
        assert_eq!(kind(current.implicit_scheduling_parameter()), order);
        assert_eq!(kind(current.update_scheduling_segment("a", Some(p(1)), None)), order);
        assert_eq!(kind(current.end_scheduling_segment("a")), order);
        assert_eq!(kind(current.spawn("a", Some(p(1)), None, 0, Priority::MIN, || ())), order);
        assert!(current.current_scheduling_segment_names().is_empty());
        assert_eq!(kind(current.begin_scheduling_segment("a", None, None)), Some(Kind::BadParam));
        let other = current.begin_scheduling_segment("a", Some(by(1)), None);
        assert_eq!(other, Err(SchedulingError::UnsupportedDiscipline));
        let other = current.begin_scheduling_segment("a", Some(p(1)), Some(by(1)));
        assert_eq!(other, Err(SchedulingError::UnsupportedDiscipline));
        assert_eq!(kind(current.id()), order, "nothing has begun");
        current.begin_scheduling_segment("a", Some(p(1)), None).unwrap();
        assert_eq!(kind(current.end_scheduling_segment("b")), order);
        assert_eq!(kind(current.update_scheduling_segment("b", Some(p(2)), None)), order);
        assert_eq!(current.scheduling_parameter(), Ok(p(1)));
        current.end_scheduling_segment("a").unwrap();
        assert_eq!(kind(current.end_scheduling_segment("a")), order);
    });
}

#[test]
fn segments_nest_and_give_back_what_they_took() {
    apart(|| {
        let (_, orb, current) = fixed();
        let priority = || orb.rt_current().the_priority().map(Priority::get);
        current.begin_scheduling_segment("outer", Some(p(100)), Some(p(50))).unwrap();
        let id = current.id().unwrap();
        assert_eq!(priority(), Ok(100));
        current.begin_scheduling_segment("inner", None, None).unwrap();
        assert_eq!((priority(), current.scheduling_parameter()), (Ok(50), Ok(p(50))), "the implicit one");
        assert_eq!(current.current_scheduling_segment_names(), ["inner", "outer"]);
        assert_eq!(current.implicit_scheduling_parameter(), Ok(None));
        current.update_scheduling_segment("inner", Some(p(70)), Some(p(1))).unwrap();
        assert_eq!(priority(), Ok(70));
        assert_eq!((current.id(), current.implicit_scheduling_parameter()), (Ok(id), Ok(Some(p(1)))));
        current.end_scheduling_segment("inner").unwrap();
        assert_eq!(priority(), Ok(100));
        assert_eq!(current.lookup(id).map(|thread| thread.id()), Some(id));
        current.end_scheduling_segment("outer").unwrap();
        assert_eq!(priority().unwrap_err().kind, Kind::Initialize, "as before the first segment");
        assert_eq!(current.lookup(id), None, "it has ended");
        current.begin_scheduling_segment("next", Some(p(1)), None).unwrap();
        assert_ne!(current.id(), Ok(id));
        current.end_scheduling_segment("next").unwrap();
    });
}

#[test]
fn a_cancelled_thread_learns_it_at_its_next_scheduling_point() {
    apart(|| {
        let (_, _, current) = fixed();
        let gone = Some(Kind::ThreadCancelled);
        current.begin_scheduling_segment("a", Some(p(1)), None).unwrap();
        current.begin_scheduling_segment("b", Some(p(2)), None).unwrap();
        let thread = current.lookup(current.id().unwrap()).unwrap();
        assert_eq!(thread.state(), State::Active);
        let (other, same) = (current.clone(), thread.clone());
        apart(move || other.cancel(&same));
        assert_eq!(thread.state(), State::Cancelled);
        assert_eq!(kind(current.begin_scheduling_segment("c", Some(p(1)), None)), gone);
        assert_eq!(kind(current.update_scheduling_segment("b", Some(p(1)), None)), gone);
        assert_eq!(kind(current.spawn("s", Some(p(1)), None, 0, Priority::MIN, || ())), gone);
        // It ends the segment that it began, and gets the error.
        assert_eq!(kind(current.end_scheduling_segment("b")), gone);
        assert_eq!(kind(current.end_scheduling_segment("a")), gone);
        assert_eq!(kind(current.id()), Some(Kind::BadInvOrder));
        current.begin_scheduling_segment("new", Some(p(1)), None).unwrap();
        current.end_scheduling_segment("new").unwrap();
    });
}

#[test]
fn a_spawned_thread_is_another_one() {
    apart(|| {
        let (_, orb, current) = fixed();
        current.begin_scheduling_segment("parent", Some(p(10)), Some(p(20))).unwrap();
        let (sender, receiver) = mpsc::channel();
        let (child, its_orb) = (current.clone(), orb.clone());
        let spawned = current
            .spawn("child", None, None, 128 * 1024, Priority::new(5).unwrap(), move || {
                let names = child.current_scheduling_segment_names();
                let priority = its_orb.rt_current().the_priority().unwrap();
                // A thread cannot end the segment that it was spawned in.
                let ended = kind(child.end_scheduling_segment("child"));
                sender.send((child.id().unwrap(), names, priority.get(), ended)).unwrap();
                child.begin_scheduling_segment("left open", Some(p(1)), None).unwrap();
            })
            .unwrap();
        let (id, names, priority, ended) = receiver.recv().unwrap();
        assert_eq!((id, priority, ended), (spawned.id(), 20, Some(Kind::BadInvOrder)));
        assert_eq!(names, ["child"]);
        assert_ne!(current.id(), Ok(id));
        current.end_scheduling_segment("parent").unwrap();
    });
}

#[test]
fn the_earliest_deadline_ranks_highest() {
    apart(|| {
        let band = |value| Priority::new(value).unwrap();
        let scheduling = Scheduling::new(Arc::new(EarliestDeadline::within(band(10_000), band(20_000))));
        let real_time = RealTimeConfig { mode: RealTime::Prefer, ..RealTimeConfig::default() };
        let config = Config { real_time, ..Config::default() };
        let orb =
            Orb::builder().config(config).register(|info| Ok(scheduling.register(info)?)).build().unwrap();
        let current = scheduling.current(&orb);
        let native = || SchedClass::current().unwrap().native_priority();
        let before = native();
        assert_eq!(
            current.begin_scheduling_segment("a", Some(p(1)), None),
            Err(SchedulingError::UnsupportedDiscipline)
        );
        current.begin_scheduling_segment("mine", Some(by(60_000)), None).unwrap();
        if !orb.sched().priorities.are_schedulable() {
            return println!("skipped: this process may not schedule in real time");
        }
        let alone = native().unwrap();
        // Another thread with an earlier deadline takes the first rank, loses it when its deadline
        // moves back, and ends.
        let (go, steps) = mpsc::channel::<()>();
        let (sender, receiver) = mpsc::channel();
        let other = current.clone();
        let thread = std::thread::spawn(move || {
            let native = || SchedClass::current().unwrap().native_priority();
            // It began with the class of its creator.
            SchedClass::Other.set_current().unwrap();
            other.begin_scheduling_segment("other", Some(by(30_000)), None).unwrap();
            sender.send(native()).unwrap();
            steps.recv().unwrap();
            other.update_scheduling_segment("other", Some(by(90_000)), None).unwrap();
            sender.send(native()).unwrap();
            steps.recv().unwrap();
            other.end_scheduling_segment("other").unwrap();
            sender.send(native()).unwrap();
        });
        let step = || receiver.recv().unwrap();
        assert_eq!((step(), native()), (Some(alone), Some(alone - 1)));
        go.send(()).unwrap();
        assert_eq!((step(), native()), (Some(alone - 1), Some(alone)));
        // A nested segment with a later deadline, and back.
        current.begin_scheduling_segment("nested", Some(by(120_000)), None).unwrap();
        assert_eq!(native(), Some(alone - 1));
        current.end_scheduling_segment("nested").unwrap();
        assert_eq!(native(), Some(alone));
        go.send(()).unwrap();
        assert_eq!((step(), native()), (None, Some(alone)), "an ordinary thread again");
        thread.join().unwrap();
        current.end_scheduling_segment("mine").unwrap();
        assert_eq!(native(), before);
    });
}

#[test]
fn any_octets_are_a_context_or_marshal() {
    let (_, orb, _) = fixed();
    let segment = stack::Segment { name: "s".into(), parameter: p(7), implicit: Some(p(8)) };
    let id = Guid([9; 16]);
    let good = context::write(id, &segment).unwrap();
    let (read, same) = context::read(&orb, &good).unwrap();
    assert_eq!((read, same.name, same.parameter, same.implicit), (id, "s".into(), p(7), Some(p(8))));
    for length in 0..good.len() {
        assert_eq!(context::read(&orb, &good[..length]).unwrap_err().kind, Kind::Marshal, "{length} octets");
    }
    for place in 0..good.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut bad = good.clone();
            bad[place] = value;
            if let Err(exception) = context::read(&orb, &bad) {
                assert!(matches!(exception.kind, Kind::Marshal | Kind::DataConversion), "{exception}");
            }
        }
    }
    let deadline = stack::Segment { name: String::new(), parameter: by(5_000), implicit: None };
    let (_, read) = context::read(&orb, &context::write(id, &deadline).unwrap()).unwrap();
    let (Parameter::Deadline { at_ns, .. }, Parameter::Deadline { at_ns: sent, .. }) =
        (read.parameter, deadline.parameter)
    else {
        panic!("deadlines")
    };
    assert!(at_ns >= sent, "no deadline moved closer");
}
