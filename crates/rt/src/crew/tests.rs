use super::*;

const ROOM: Room = Room { requests: 2, bytes: 100 };

fn crew(rules: Rules) -> Crew<u32> {
    Crew::new(rules)
}

#[test]
fn places_grow_to_the_limit_and_shrink_again() {
    let crew = crew(Rules { static_threads: 1, dynamic_threads: 2, ..Rules::default() });
    assert_eq!((crew.rules().initial_threads(), crew.rules().most_threads()), (2, 4));
    assert_eq!(crew.admit(), Admission::Run);
    assert!(!crew.retire(), "static threads stay");
    assert_eq!(crew.admit(), Admission::RunAndGrow);
    assert_eq!(crew.admit(), Admission::RunAndGrow);
    crew.did_not_grow();
    assert_eq!(crew.census().dynamic, 1);
    assert_eq!(crew.admit(), Admission::RunAndGrow);
    assert_eq!(crew.admit(), Admission::Full);
    assert!(!crew.retire(), "all are busy");
    assert_eq!(crew.next(), None);
    assert!(crew.retire());
    assert_eq!(crew.admit(), Admission::RunAndGrow, "and grows again");
    assert_eq!(crew.census().peak, 3);
}

#[test]
fn the_buffer_is_bounded_twice() {
    let crew = crew(Rules { static_threads: 1, room: Some(ROOM), ..Rules::default() });
    assert_eq!(crew.admit(), Admission::Run);
    assert_eq!(crew.admit(), Admission::Full);
    assert_eq!(crew.keep(60, None, || 1), Kept::Buffered);
    assert_eq!(crew.keep(60, None, || 2), Kept::Overflow, "too many bytes");
    assert_eq!(crew.keep(40, None, || 3), Kept::Buffered);
    assert_eq!(crew.keep(0, None, || 4), Kept::Overflow, "too many requests");
    assert!(!crew.leave_unless_kept(), "the place goes to one that is kept");
    assert_eq!(crew.next(), Some(1), "the oldest first, none being more urgent");
    assert_eq!(crew.keep(60, None, || 5), Kept::Buffered);
    assert_eq!((crew.next(), crew.next()), (Some(3), Some(5)));
    assert_eq!(crew.next(), None);
    assert_eq!(crew.keep(60, None, || 6), Kept::Run, "there is a place again");
    assert!(crew.leave_unless_kept());
    assert_eq!(crew.admit(), Admission::Run);
    let census = Census { running: 1, peak: 1, ..Census::default() };
    assert_eq!(crew.census(), census);
}

#[test]
fn what_is_kept_is_run_by_its_priority() {
    let room = Room { requests: 8, bytes: 100 };
    let crew = crew(Rules { static_threads: 1, room: Some(room), ..Rules::default() });
    let run = |requests: &[(u32, Option<i16>)]| {
        assert_eq!(crew.admit(), Admission::Run);
        for (request, priority) in requests {
            let priority = priority.map(|priority| Priority::new(priority).unwrap());
            assert_eq!(crew.keep(10, priority, || *request), Kept::Buffered);
        }
        let order: Vec<_> = std::iter::from_fn(|| crew.next()).collect();
        assert_eq!((crew.census().kept, crew.census().kept_bytes), (0, 0));
        order
    };
    let (low, high) = (Some(5), Some(20_000));
    assert_eq!(
        run(&[(1, None), (2, low), (3, high), (4, low), (5, high), (6, None), (7, Some(0))]),
        [3, 5, 2, 4, 7, 1, 6],
        "the most urgent first, in the order of their coming within one priority"
    );
    // The control: where priorities say nothing, the order of coming is all there is.
    for equal in [None, low] {
        assert_eq!(run(&[1, 2, 3, 4, 5].map(|request| (request, equal))), [1, 2, 3, 4, 5]);
    }
}

#[test]
fn without_a_buffer_a_thread_waits_for_a_place() {
    let crew = std::sync::Arc::new(crew(Rules { static_threads: 1, borrows: true, ..Rules::default() }));
    assert_eq!(crew.admit(), Admission::Run);
    assert_eq!(crew.keep(1, None, || 1), Kept::NoBuffer);
    let other = crew.clone();
    let waiter = std::thread::spawn(move || (other.wait_for_place(), other.wait_for_place()));
    crew.leave();
    // The first wait has its place or will have; the second is for ever, until the end.
    while crew.census().running == 0 {
        std::thread::yield_now();
    }
    crew.close();
    assert_eq!(waiter.join().unwrap(), (true, false));
    assert_eq!(crew.admit(), Admission::Closed);
}

#[test]
fn places_are_lent_with_idle_threads_raised() {
    let crew = crew(Rules { static_threads: 2, lends: true, ..Rules::default() });
    let seat = crew.sit();
    assert!(seat.is_some());
    let mut raised = Vec::new();
    assert!(crew.lend(|| 7, |thread| raised.push(thread)));
    assert!(raised.is_empty(), "busy threads are left alone");
    crew.rest(seat);
    assert!(crew.lend(|| 8, |thread| raised.push(thread)));
    assert_eq!(raised, [seat.unwrap()]);
    assert!(!crew.lend(|| 9, |_| ()), "no place is left");
    assert_eq!(crew.admit(), Admission::Full, "for its own requests neither");
    assert!(crew.rise(seat));
    assert!(!crew.rise(seat), "told once");
    assert_eq!(crew.errand(), (Some(7), true));
    assert_eq!(crew.errand(), (Some(8), false));
    assert_eq!(crew.next(), None);
    assert_eq!(crew.admit(), Admission::Run);
    crew.stand(seat);
    let (kept, errands) = crew.close();
    assert!(kept.is_empty() && errands.is_empty());
    assert!(!crew.lend(|| 1, |_| ()));
}

#[test]
fn lanes_that_can_do_nothing_have_no_lookout() {
    let rules = Rules { static_threads: 3, ..Rules::default() };
    assert_eq!((rules.initial_threads(), rules.counts()), (3, false));
    let rules = Rules { static_threads: 3, lends: true, ..Rules::default() };
    assert_eq!((rules.initial_threads(), rules.counts()), (3, true));
    let rules = Rules { static_threads: 3, room: Some(ROOM), ..Rules::default() };
    assert_eq!((rules.initial_threads(), rules.counts()), (4, true));
}
