//! Federations in virtual time. A seed decides how links are slow, stall, are cut, lose and
//! reorder, and how members stall and restart. Links are joined and left by calls, as between
//! processes. A member that was left while it stalled learns this, handles old messages and sends
//! the events of its suppliers in some order.
//!
//! The oracle: whatever happens, a consumer receives the events of a source in order and never
//! twice, and no event crosses a link without a subscriber beyond it. When all faults are mended,
//! every event has arrived that was pushed since its consumer was known, or is counted as lost.

mod links;
mod world;

use world::{Kind, World};

/// The parameters of a run.
struct Plan {
    nodes: usize,
    edges: Vec<(usize, usize)>,
    kind: Kind,
    /// The number of faults.
    faults: usize,
    /// The kinds of faults, each as often as it should occur.
    faulty: &'static [Fault],
    history: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    /// A link delivers nothing for a time, then everything.
    StallLink,
    /// A member does nothing for a time: others consider it silent, leave it and join again. Its
    /// suppliers go on.
    StallNode,
    /// All packets on a link are lost until it is mended.
    CutLink,
    /// A member between others, without suppliers and consumers, is restarted.
    Restart,
    /// Any member is restarted. Its unsent and unreceived messages are lost; later events must
    /// arrive.
    RestartAny,
    /// As `RestartAny`, after the clock of the day was set back.
    RestartEarlier,
}

const STOPS: &[Fault] = &[Fault::StallNode];
const LINES: &[Fault] = &[Fault::StallLink, Fault::StallNode];
const ALL: &[Fault] = &[Fault::StallLink, Fault::StallNode, Fault::CutLink];
const BETWEEN: &[Fault] = &[Fault::StallLink, Fault::StallNode, Fault::CutLink, Fault::Restart];
const ANY: &[Fault] = &[Fault::StallLink, Fault::CutLink, Fault::RestartAny];
const EARLIER: &[Fault] = &[Fault::StallLink, Fault::CutLink, Fault::RestartEarlier];

fn link_entry(count: usize) -> Vec<(usize, usize)> {
    (1..count).map(|i| (i - 1, i)).collect()
}

fn ring(count: usize) -> Vec<(usize, usize)> {
    link_entry(count).into_iter().chain([(count - 1, 0)]).collect()
}

/// A ring with a chord and an appendix.
fn mesh(count: usize) -> Vec<(usize, usize)> {
    ring(count - 1).into_iter().chain([(0, count / 2), (count - 2, count - 1)]).collect()
}

/// Runs a plan under a seed. Returns the number of missing events and of those counted as lost.
fn run(plan: &Plan, seed: u64) -> (u64, u64) {
    let mut world = faults(plan, seed);
    world.run_for(10_000);
    world.judge()
}

/// All members know each other before they begin to push.
fn faults(plan: &Plan, seed: u64) -> World {
    let mut world = World::new(plan.nodes, &plan.edges, plan.kind, plan.history, seed);
    world.run_for(1_500);
    world.begin(true);
    inject_faults(world, plan)
}

/// Members push before they know each other.
fn early(nodes: usize, edges: Vec<(usize, usize)>, seed: u64) -> World {
    let plan = Plan { nodes, edges, kind: Kind::Calls, faults: 4, faulty: ALL, history: 10_000 };
    let mut world = World::new(plan.nodes, &plan.edges, plan.kind, plan.history, seed);
    world.begin(false);
    let mut world = inject_faults(world, &plan);
    world.run_for(10_000);
    world
}

/// Injects the faults and mends them; then all members push once more.
fn inject_faults(mut world: World, plan: &Plan) -> World {
    for _ in 0..plan.faults {
        let length = [50, 400, 1_000, 3_000][world.random(4) as usize];
        let fault = plan.faulty[world.random(plan.faulty.len() as u64) as usize];
        match fault {
            Fault::StallLink => world.stall_link(length),
            Fault::StallNode => world.stall_node(length),
            Fault::CutLink => world.cut_link(length),
            Fault::RestartAny | Fault::RestartEarlier => {
                world.clock_goes_back = fault == Fault::RestartEarlier;
                let node = world.random(plan.nodes as u64) as usize;
                world.restart(node);
            }
            Fault::Restart => world.restart(1),
        }
        let pause = world.random(1_500);
        world.run_for(pause);
    }
    world.heal();
    world.run_for(14_000);
    if [Fault::RestartAny, Fault::RestartEarlier].iter().any(|fault| plan.faulty.contains(fault)) {
        world.forget();
    }
    world.burst();
    world
}

/// The seeds. `ISORB_SIMULATIONS` multiplies their number, `ISORB_SIMULATIONS_FROM` is the first.
fn seeds(count: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|number| number.parse().ok());
    let first = number("ISORB_SIMULATIONS_FROM").unwrap_or(0);
    first..first + count * number("ISORB_SIMULATIONS").unwrap_or(1)
}

fn assert_all_arrive(plan: &Plan, seeds: std::ops::Range<u64>) {
    let failed: Vec<(u64, u64)> =
        seeds.map(|seed| (seed, run(plan, seed).0)).filter(|(_, missing)| *missing != 0).collect();
    assert!(failed.is_empty(), "{} members, seeds and missing events: {failed:?}", plan.nodes);
}

#[test]
fn without_faults_all_events_arrive() {
    for (nodes, edges) in [(4, link_entry(4)), (5, ring(5)), (6, mesh(6))] {
        assert_all_arrive(
            &Plan { nodes, edges, kind: Kind::Calls, faults: 0, faulty: ALL, history: 1_000 },
            seeds(2),
        );
    }
}

/// A busy machine: links and members look silent, and are not.
#[test]
fn slowness_loses_no_events() {
    for (nodes, edges) in [(3, link_entry(3)), (3, ring(3)), (5, ring(5)), (6, mesh(6))] {
        assert_all_arrive(
            &Plan { nodes, edges, kind: Kind::Calls, faults: 8, faulty: LINES, history: 10_000 },
            seeds(4),
        );
    }
}

/// Includes the events that its own suppliers push meanwhile, which it forwards before its
/// neighbours are back.
#[test]
fn a_stopped_member_loses_no_events() {
    for (nodes, edges) in [(2, link_entry(2)), (3, link_entry(3)), (4, link_entry(4)), (4, ring(4))] {
        assert_all_arrive(
            &Plan { nodes, edges, kind: Kind::Calls, faults: 8, faulty: STOPS, history: 10_000 },
            seeds(5),
        );
    }
}

/// The events of a neighbour that enter once it knows the subscription, although the first grant
/// may be lost.
#[test]
fn new_neighbours_lose_no_events() {
    let failed: Vec<u64> = seeds(20).filter(|seed| early(2, link_entry(2), *seed).judge().0 != 0).collect();
    assert!(failed.is_empty(), "seeds {failed:?}");
}

/// Further away, events may be missed while routes are established, but none after the first.
#[test]
fn after_the_first_event_all_arrive() {
    let tree = vec![(0, 1), (1, 2), (1, 3), (0, 4)];
    for (nodes, edges) in [(4, link_entry(4)), (5, tree), (4, ring(4)), (6, mesh(6))] {
        let failed: Vec<u64> =
            seeds(4).filter(|seed| early(nodes, edges.clone(), *seed).holes() != 0).collect();
        assert!(failed.is_empty(), "of {nodes} channels, seeds {failed:?}");
    }
}

#[test]
fn a_cut_link_loses_no_events() {
    for (nodes, edges) in [(3, ring(3)), (5, ring(5)), (6, mesh(6))] {
        assert_all_arrive(
            &Plan { nodes, edges, kind: Kind::Calls, faults: 8, faulty: ALL, history: 10_000 },
            seeds(4),
        );
    }
}

/// The member between has neither suppliers nor consumers, but it is the route.
#[test]
fn a_restarted_member_between_loses_no_events() {
    for (nodes, edges) in [(3, ring(3)), (5, ring(5)), (6, mesh(6))] {
        assert_all_arrive(
            &Plan { nodes, edges, kind: Kind::Calls, faults: 8, faulty: BETWEEN, history: 10_000 },
            seeds(4),
        );
    }
}

#[test]
fn a_restarted_member_receives_no_event_twice() {
    for (nodes, edges) in [(2, link_entry(2)), (3, ring(3)), (5, ring(5))] {
        assert_all_arrive(
            &Plan { nodes, edges, kind: Kind::Calls, faults: 5, faulty: ANY, history: 10_000 },
            seeds(4),
        );
    }
}

/// The neighbours remember larger numbers than the new process begins with.
#[test]
fn a_member_whose_clock_was_set_back_is_heard_again() {
    for (nodes, edges) in [(2, link_entry(2)), (4, link_entry(4)), (3, ring(3)), (5, ring(5))] {
        assert_all_arrive(
            &Plan { nodes, edges, kind: Kind::Calls, faults: 5, faulty: EARLIER, history: 10_000 },
            seeds(4),
        );
    }
}

#[test]
fn lost_doubled_and_reordered_datagrams_arrive_once_and_in_order() {
    for (nodes, edges) in [(2, link_entry(2)), (4, link_entry(4)), (5, ring(5))] {
        assert_all_arrive(
            &Plan { nodes, edges, kind: Kind::Datagrams, faults: 3, faulty: ALL, history: 10_000 },
            seeds(3),
        );
    }
}

/// As many faults as over links with replies. All events arrive, but it takes longer. A missing
/// event is requested as far as its source, at least once a tick. Over three links that is a
/// request, a grant and the event, nine datagrams, each of which arrives with probability 0.98. So
/// each tick brings the next event with probability 0.83, and members that are 400 events behind
/// have caught up after 480 ticks, or 48 s. The test waits twice as long.
#[test]
fn members_far_behind_over_datagrams_catch_up() {
    for (nodes, edges) in [(4, link_entry(4)), (4, ring(4))] {
        let plan = Plan { nodes, edges, kind: Kind::Datagrams, faults: 8, faulty: ALL, history: 10_000 };
        for seed in seeds(3) {
            let mut world = faults(&plan, seed);
            let caught_up = (0..96).any(|_| {
                world.run_for(1_000);
                world.judge().0 == 0
            });
            assert!(caught_up, "of {nodes} channels, seed {seed}: {} missing", world.judge().0);
        }
    }
}

/// Missing events that the history does not reach are counted.
#[test]
fn events_beyond_the_history_are_counted() {
    let plan = Plan { nodes: 3, edges: ring(3), kind: Kind::Calls, faults: 8, faulty: ALL, history: 20 };
    let mut lost = 0;
    for seed in seeds(15) {
        let (missing, counted) = run(&plan, seed);
        assert!(missing <= counted, "seed {seed}: {missing} missing, {counted} counted");
        lost += missing;
    }
    assert!(lost > 0, "the history was never too short, so nothing was tested");
}
