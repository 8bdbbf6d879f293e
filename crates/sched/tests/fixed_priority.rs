//! Response times compared with published examples and with a simulation unit by unit.

use isorb_sched::{Nanos, Preemption, Response, Task, fixed_priority};
use proptest::prelude::*;

fn us(us: u64) -> Nanos {
    Nanos::from_us(us)
}

fn task(name: &str, cost: u64, period: u64, deadline: u64, priority: u32) -> Task {
    Task::new(name, us(cost), us(period)).deadline(us(deadline)).priority(priority)
}

fn responses(tasks: &[Task], preemption: Preemption) -> Vec<Option<Nanos>> {
    fixed_priority(tasks, preemption).unwrap().verdicts.iter().map(|v| v.response.bound()).collect()
}

/// Lehoczky 1990: the fifth of seven jobs of a busy period is the worst.
#[test]
fn deadlines_beyond_the_period() {
    let set = |deadline| [task("a", 26, 70, 70, 2), task("b", 62, 100, deadline, 1)];
    assert_eq!(responses(&set(118), Preemption::Full), [Some(us(26)), Some(us(118))]);
    let verdict = fixed_priority(&set(117), Preemption::Full).unwrap().verdicts[1];
    assert_eq!(verdict.response, Response::Over(us(118)));
    assert!(!verdict.met());
}

/// Davis, Burns, Bril and Lukkien 2007, table 3: without preemption the second job of the least
/// urgent message is the worst.
#[test]
fn the_second_message_is_late() {
    let messages = |last| {
        [task("a", 1000, 2500, 2500, 3), task("b", 1000, 3500, 3250, 2), task("c", 1000, 3500, last, 1)]
    };
    let just_under = |time: Nanos| time.minus(Nanos::new(1));
    assert_eq!(
        responses(&messages(3500), Preemption::None),
        // A less urgent message has begun a nanosecond before at the latest.
        [Some(just_under(us(2000))), Some(just_under(us(3000))), Some(us(3500))]
    );
    assert_eq!(
        fixed_priority(&messages(3250), Preemption::None).unwrap().verdicts[2].response,
        Response::Over(us(3500))
    );
}

#[test]
fn jitter_and_blocking_delay() {
    let tasks = [
        task("a", 10, 50, 50, 3).jitter(us(15)),
        task("b", 25, 100, 100, 2).blocking(us(5)),
        task("c", 9, 200, 200, 1),
    ];
    // b: 5 + 25 + 10 = 40 > 35, when the late first job of a is followed by an early second: 5 + 25
    // + 20.
    assert_eq!(responses(&tasks, Preemption::Full), [Some(us(25)), Some(us(50)), Some(us(54))]);
}

#[test]
fn deferred_preemption_waits_for_a_section() {
    let tasks = [task("a", 10, 50, 50, 2), task("b", 30, 100, 100, 1).section(us(4))];
    let verdicts = fixed_priority(&tasks, Preemption::Deferred).unwrap().verdicts;
    assert_eq!(verdicts[0].response.bound(), Some(us(14).minus(Nanos::new(1))));
    assert_eq!(verdicts[0].blocking, us(4).minus(Nanos::new(1)));
    assert_eq!(verdicts[1].response.bound(), Some(us(40)));
}

#[test]
fn an_overload_has_no_bound() {
    let tasks = [task("a", 30, 50, 50, 2), task("b", 30, 60, 60, 1)];
    let analysis = fixed_priority(&tasks, Preemption::Full).unwrap();
    assert_eq!(analysis.verdicts[1].response, Response::Unbounded);
    assert_eq!(analysis.utilisation.to_string(), "110.0 %");
    assert!(!analysis.schedulable());
}

#[test]
fn numbers_that_would_overflow() {
    let longest = Nanos::LONGEST;
    let tasks: Vec<Task> =
        (0..64).map(|i| Task::new("long", longest, longest).jitter(Nanos::ZERO).priority(i)).collect();
    let analysis = fixed_priority(&tasks, Preemption::None).unwrap();
    assert!(!analysis.schedulable());
    let odd =
        [Task::new("a", Nanos::new(1), Nanos::new(1)).priority(2), Task::new("b", Nanos::new(1), longest)];
    assert_eq!(fixed_priority(&odd, Preemption::Full).unwrap().verdicts[1].response, Response::Unbounded);
    let jittery = [
        Task::new("a", Nanos::new(1), Nanos::new(2)).jitter(longest).deadline(longest).priority(2),
        Task::new("b", Nanos::new(1), longest).priority(2),
    ];
    assert!(
        fixed_priority(&jittery, Preemption::Full).is_err(),
        "the deadline is shorter than jitter and cost"
    );
}

/// Tasks of equal priority are served in order of arrival: later arrivals do not delay a job.
#[test]
fn equals_in_order_of_arrival() {
    let tasks = [task("fast", 1, 4, 10, 1), task("slow", 6, 20, 20, 1)];
    assert_eq!(responses(&tasks, Preemption::Full), [Some(us(7)), Some(us(7))]);
    let ranked = [task("fast", 1, 4, 10, 2), task("slow", 6, 20, 20, 1)];
    assert_eq!(responses(&ranked, Preemption::Full), [Some(us(1)), Some(us(8))]);
}

/// Every job of a synchronous release, unit by unit: the longest response of each task until the
/// processor is first idle.
fn count(tasks: &[(u64, u64)]) -> Option<Vec<u64>> {
    let mut worst = vec![0; tasks.len()];
    let mut left: Vec<Vec<(u64, u64)>> = vec![Vec::new(); tasks.len()];
    for now in 0..20_000 {
        for (i, (cost, period)) in tasks.iter().enumerate() {
            if now % period == 0 {
                left[i].push((now, *cost));
            }
        }
        match left.iter().position(|jobs| !jobs.is_empty()) {
            None => return Some(worst),
            Some(i) => {
                left[i][0].1 -= 1;
                if left[i][0].1 == 0 {
                    let (released, _) = left[i].remove(0);
                    worst[i] = worst[i].max(now + 1 - released);
                }
            }
        }
    }
    None
}

proptest! {
    #[test]
    fn preemptive_responses_are_exact(set in prop::collection::vec((1_u64..8, 4_u64..60), 1..7)) {
        // The most urgent first, in whatever order the periods came.
        let tasks: Vec<Task> = set.iter().zip((0..100).rev())
            .map(|((cost, period), priority)| {
                Task::new("t", Nanos::new(*cost), Nanos::new(*period)).deadline(Nanos::from_ms(1)).priority(priority)
            })
            .collect();
        let analysis = fixed_priority(&tasks, Preemption::Full).unwrap();
        if let Some(counted) = count(&set) {
            let computed: Vec<u64> = analysis.verdicts.iter().map(|v| v.response.bound().unwrap().ns()).collect();
            prop_assert_eq!(computed, counted);
        }
    }
}
