//! How a federation grows: channels with consumers in virtual time.
//!
//! The members run the protocol of real ones, over links that lose nothing. Threads, sockets and
//! octets are left out: a link carries one control message at a time, as the calls of a notifier
//! thread do, and a message takes its delay in each direction. What is counted is what the protocol
//! sends, stores and waits for. `isorb-bench federation` prints it.
//!
//! ```
//! use isorb_event::federation::growth::{Plan, grow};
//!
//! let plan = Plan { channels: 12, consumers: 5, ..Plan::default() };
//! let growth = grow(plan, &mut |_| {})?;
//! assert!(growth.formed_ms < 1_000);
//! # Ok::<(), isorb_event::federation::growth::GrowthError>(())
//! ```

mod world;

use super::protocol::MAX_CHANNELS;
use std::fmt;
use world::World;

/// The federation that is simulated: a tree, in which each member has one neighbour above it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Its members, from 2 to 1,024.
    pub channels: usize,
    /// The consumers of each member.
    pub consumers: usize,
    /// The most neighbours below a member.
    pub branches: usize,
    /// The types of events.
    pub types: u32,
    /// How many of them the consumers of a member choose from.
    pub types_of_a_member: u32,
    /// How long a message takes over a link, in ms.
    pub delay_ms: u64,
    /// The time between two announcements of a member, in ms.
    pub tick_ms: u64,
}

impl Default for Plan {
    /// A thousand channels with a hundred consumers each, four branches, eight types of 400, 1 ms a
    /// link, and the tick of `isorb event-channel`.
    fn default() -> Plan {
        Plan {
            channels: 1_000,
            consumers: 100,
            branches: 4,
            types: 400,
            types_of_a_member: 8,
            delay_ms: 1,
            tick_ms: 2_000,
        }
    }
}

/// What went over all links.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Control messages.
    pub messages: u64,
    /// The interests, requests and positions in them.
    pub interests: u64,
    /// See [`interests`](Self::interests).
    pub requests: u64,
    /// See [`interests`](Self::interests).
    pub positions: u64,
    /// Their octets, about: 40 for the frame of a message, 36 for an interest and 16 for each of
    /// its filters, 40 for a request and 8 for each of its members, 32 for a position and 16 for
    /// each grant.
    pub octets: u64,
    /// Events.
    pub events: u64,
    /// Pushes to consumers.
    pub pushes: u64,
}

impl Traffic {
    fn since(self, before: Traffic) -> Traffic {
        Traffic {
            messages: self.messages - before.messages,
            interests: self.interests - before.interests,
            requests: self.requests - before.requests,
            positions: self.positions - before.positions,
            octets: self.octets - before.octets,
            events: self.events - before.events,
            pushes: self.pushes - before.pushes,
        }
    }
}

/// What a federation took. Times are virtual.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct Growth {
    /// What was simulated.
    pub plan: Plan,
    /// Until each member knew all others.
    pub formed_ms: u64,
    /// What crossed the links until then.
    pub formed: Traffic,
    /// What crossed them in [`RESTING_TICKS`] ticks, when nothing changed any more.
    pub at_rest: Traffic,
    /// The memory of this process for each member, in octets, where the system tells.
    pub memory: Option<u64>,
    /// The filters of all members, in octets. A real member has a copy of its own of these; here
    /// all share one.
    pub filters: u64,
    /// Until an event of each type had reached its consumers, and what crossed the links.
    pub events_ms: u64,
    /// See [`events_ms`](Self::events_ms).
    pub events: Traffic,
    /// Until all members knew a consumer of a new type at one of them.
    pub change_ms: u64,
    /// Until all members knew one again that was restarted, with a part of the tree behind it, and
    /// it knew all others.
    pub restart_ms: u64,
    /// What crossed the links until then.
    pub restart: Traffic,
}

/// The ticks of [`Growth::at_rest`].
pub const RESTING_TICKS: u64 = 5;

/// How far a simulation is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Progress {
    /// What it does.
    pub phase: &'static str,
    /// From 0 to 1: what was sent, of what is expected.
    pub done: f64,
}

/// Why a federation was not simulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum GrowthError {
    /// So many channels.
    Channels(usize),
    /// A number of the plan that must be at least 1.
    Zero(&'static str),
    /// This did not happen in 60 ticks.
    NotReached(&'static str),
    /// So many events of the federation were lost, or came twice.
    Delivery {
        /// The pushes to consumers.
        pushed: u64,
        /// Those that were expected.
        expected: u64,
    },
}

impl fmt::Display for GrowthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GrowthError::Channels(channels) => write!(
                f,
                "{channels} channels: a federation has at least 2, and a member remembers at most {MAX_CHANNELS}"
            ),
            GrowthError::Zero(what) => write!(f, "{what}: must be at least 1"),
            GrowthError::NotReached(what) => write!(f, "after 60 ticks it was still not so that {what}"),
            GrowthError::Delivery { pushed, expected } => {
                write!(f, "{pushed} pushes instead of {expected}: events were lost or came twice")
            }
        }
    }
}

impl std::error::Error for GrowthError {}

impl Plan {
    fn check(&self) -> Result<(), GrowthError> {
        if !(2..=MAX_CHANNELS).contains(&self.channels) {
            return Err(GrowthError::Channels(self.channels));
        }
        let numbers = [
            ("branches", self.branches as u64),
            ("types", self.types.into()),
            ("types of a member", self.types_of_a_member.into()),
            ("delay", self.delay_ms),
            ("tick", self.tick_ms),
        ];
        match numbers.iter().find(|(_, number)| *number == 0) {
            Some(&(what, _)) => Err(GrowthError::Zero(what)),
            None => Ok(()),
        }
    }
}

/// Simulates a federation: it forms, rests, passes events, learns of a new consumer, and loses and
/// regains a member. `progress` is called every few milliseconds of this thread's time.
///
/// # Errors
/// [`GrowthError`].
///
/// # Real-time
/// Allocates. A thousand channels take minutes, and gigabytes.
pub fn grow(plan: Plan, progress: &mut dyn FnMut(Progress)) -> Result<Growth, GrowthError> {
    plan.check()?;
    let before = resident();
    let mut world = World::new(plan, progress);
    let tick = plan.tick_ms;
    // The parts of messages that are expected, for each pair of members.
    world.phase("forms", 18.0);
    let formed_ms = world.time_until("all members know each other", World::is_known)?;
    let formed = world.traffic;
    world.phase("settles", 9.0);
    world.run_for(2 * tick);
    world.phase("rests", 22.0);
    let start = world.traffic;
    world.run_for(RESTING_TICKS * tick);
    let at_rest = world.traffic.since(start);
    let memory = before.and_then(|before| Some(resident()?.saturating_sub(before) / plan.channels as u64));

    world.phase("passes events", 5.0);
    let (start, expected) = (world.traffic, world.push_all());
    let all = start.pushes + expected;
    let events_ms = world.time_until("all events arrive", |world| world.traffic.pushes >= all)?;
    // None comes twice.
    world.run_for(tick);
    let events = world.traffic.since(start);
    world.is_delivered(events.pushes, expected)?;

    world.phase("learns of a consumer", 3.0);
    let (last, changed) = (plan.channels - 1, world.new_type());
    world.add_consumer(last, changed);
    let change_ms =
        world.time_until("all members know a new consumer", |world| world.all_want(last, changed))?;

    world.phase("regains a member", 25.0);
    let start = world.traffic;
    world.restart(1);
    let restart_ms = world
        .time_until("all members know a restarted one", |world| world.is_renewed(1) && world.is_known())?;
    let restart = world.traffic.since(start);
    world.run_for(2 * tick);
    let (start, expected) = (world.traffic, world.push_all());
    world.run_for(2 * tick);
    world.is_delivered(world.traffic.since(start).pushes, expected)?;
    Ok(Growth {
        plan,
        formed_ms,
        formed,
        at_rest,
        memory,
        filters: world.filters(),
        events_ms,
        events,
        change_ms,
        restart_ms,
        restart,
    })
}

/// The memory of this process, in octets.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forty_channels_with_four_thousand_consumers_form_and_regain_a_member() {
        let plan = Plan { channels: 40, ..Plan::default() };
        let mut phases = Vec::new();
        let mut last = 0.0;
        let growth = grow(plan, &mut |progress| {
            assert!(progress.done >= last && progress.done <= 1.0, "{progress:?} after {last}");
            last = progress.done;
            if phases.last() != Some(&progress.phase) {
                phases.push(progress.phase);
            }
        })
        .unwrap();
        println!("{growth:?}");
        assert_eq!(phases.first(), Some(&"forms"));
        assert!(phases.len() == 6 && last > 0.5, "{phases:?}, {last}");
        // Each member's tick is told to all others once; and the whole state is told again.
        let others = 39 * 40 * RESTING_TICKS;
        assert!(growth.at_rest.interests >= others && growth.at_rest.interests <= 3 * others, "{growth:?}");
        assert!(growth.events.events > 0 && growth.events.pushes > growth.events.events, "{growth:?}");
        assert!(growth.change_ms < plan.tick_ms && growth.formed_ms < plan.tick_ms, "{growth:?}");
    }

    /// One delay is the least that a change takes to a neighbour, and messages wait for each other.
    #[test]
    fn a_longer_delay_takes_longer() {
        let of = |delay_ms| {
            let plan = Plan { channels: 12, consumers: 10, delay_ms, ..Plan::default() };
            grow(plan, &mut |_| {}).unwrap()
        };
        let (short, long) = (of(1), of(50));
        assert!(long.formed_ms >= short.formed_ms + 50, "{short:?} {long:?}");
        assert!(long.change_ms >= 100, "{long:?}");
    }

    #[test]
    fn a_plan_that_is_none_is_refused() {
        let with = |change: fn(&mut Plan)| {
            let mut plan = Plan::default();
            change(&mut plan);
            grow(plan, &mut |_| {}).unwrap_err().to_string()
        };
        let few = with(|plan| plan.channels = 1);
        assert!(few.contains("1 channels") && few.contains("at least 2"), "{few}");
        assert!(with(|plan| plan.channels = 1_025).contains("at most 1024"));
        assert_eq!(with(|plan| plan.branches = 0), "branches: must be at least 1");
        assert_eq!(with(|plan| plan.delay_ms = 0), "delay: must be at least 1");
    }
}
