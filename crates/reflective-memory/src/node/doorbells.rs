//! Doorbells: they wake the agents of an area after a write.
//!
//! Each writer has a doorbell, so a ring runs only the agents of one area, however many areas a
//! process writes. The kernel keeps which doorbells rang. Guaranteed agents are checked first. If
//! one of them has a push, best-effort agents are checked after its first datagrams.

use crate::agents::{AgentScheduler, PushKey};
use isorb_rt::Errno;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::HashMap;
use std::sync::Arc;

/// An eventfd that a writer adds to after each value. The dispatching threads that push its area
/// poll it and never read it. The next writer of the area gets another one, so a former writer
/// cannot disturb it.
#[derive(Clone, Debug)]
pub(super) struct Doorbell {
    number: u64,
    file: Arc<OwnedFd>,
}

impl Doorbell {
    /// The number is its token in pollers.
    ///
    /// # Errors
    /// MFILE, NFILE, NOMEM.
    pub fn new(number: u64) -> Result<Doorbell, Errno> {
        let file = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Doorbell { number, file: Arc::new(file) })
    }

    pub fn number(&self) -> u64 {
        self.number
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The doorbells of a dispatching thread.
#[derive(Debug, Default)]
pub(super) struct Doorbells {
    subscribers: HashMap<u64, Subscribers>,
    /// The doorbell of each agent.
    subscriptions: HashMap<PushKey, u64>,
    /// Doorbells that rang and have best-effort agents to be checked.
    pending: Vec<u64>,
    checks: u64,
}

#[derive(Debug)]
struct Subscribers {
    doorbell: Doorbell,
    guaranteed: Vec<PushKey>,
    best_effort: Vec<PushKey>,
    is_pending: bool,
}

impl Doorbells {
    /// Subscribes an agent that has no doorbell. Returns true for the first subscriber; the caller
    /// then adds the doorbell to its poller.
    pub fn subscribe(&mut self, doorbell: &Doorbell, key: PushKey, is_guaranteed: bool) -> bool {
        let number = doorbell.number;
        let subscribers = self.subscribers.entry(number).or_insert_with(|| Subscribers::of(doorbell.clone()));
        let is_first = subscribers.is_empty();
        if is_guaranteed { &mut subscribers.guaranteed } else { &mut subscribers.best_effort }.push(key);
        self.subscriptions.insert(key, number);
        // So that a ring allocates nothing.
        self.pending.reserve(self.subscribers.len().saturating_sub(self.pending.len()));
        is_first
    }

    /// Ends an agent's subscription. Gives the doorbell if that was the last one.
    pub fn unsubscribe(&mut self, key: PushKey) -> Option<Doorbell> {
        let number = self.subscriptions.remove(&key)?;
        let subscribers = self.subscribers.get_mut(&number)?;
        subscribers.guaranteed.retain(|other| *other != key);
        subscribers.best_effort.retain(|other| *other != key);
        if subscribers.is_empty() { self.remove(number) } else { None }
    }

    /// Removes a doorbell after its writer ended. Gives it if it had subscribers.
    pub fn remove(&mut self, number: u64) -> Option<Doorbell> {
        let subscribers = self.subscribers.remove(&number)?;
        for key in subscribers.guaranteed.iter().chain(&subscribers.best_effort) {
            self.subscriptions.remove(key);
        }
        self.pending.retain(|pending| *pending != number);
        Some(subscribers.doorbell)
    }

    /// A doorbell rang. Returns true if a guaranteed agent has a push now; else the caller may
    /// [check the others](Self::check_pending) at once.
    ///
    /// # Real-time
    /// Does not allocate. One load a guaranteed agent of the area.
    pub fn ring(&mut self, number: u64, scheduler: &mut AgentScheduler, now_ns: u64) -> bool {
        let Some(subscribers) = self.subscribers.get_mut(&number) else { return false };
        if !subscribers.best_effort.is_empty() && !std::mem::replace(&mut subscribers.is_pending, true) {
            self.pending.push(number);
        }
        check(&subscribers.guaranteed, scheduler, now_ns, &mut self.checks)
    }

    /// Checks the best-effort agents of doorbells that rang. Returns false if there were none.
    ///
    /// # Real-time
    /// Does not allocate. One load a best-effort agent of the areas with a ring.
    pub fn check_pending(&mut self, scheduler: &mut AgentScheduler, now_ns: u64) -> bool {
        let any = !self.pending.is_empty();
        while let Some(number) = self.pending.pop() {
            let Some(subscribers) = self.subscribers.get_mut(&number) else { continue };
            subscribers.is_pending = false;
            check(&subscribers.best_effort, scheduler, now_ns, &mut self.checks);
        }
        any
    }

    /// Checks of agents because a doorbell rang.
    pub fn checks(&self) -> u64 {
        self.checks
    }
}

/// Checks whether the agents' area was written. Returns true if one of them has a push.
fn check(keys: &[PushKey], scheduler: &mut AgentScheduler, now_ns: u64, checks: &mut u64) -> bool {
    let mut any = false;
    for key in keys {
        *checks += 1;
        any |= scheduler.written_to(*key, now_ns);
    }
    any
}

impl Subscribers {
    fn of(doorbell: Doorbell) -> Subscribers {
        Subscribers { doorbell, guaranteed: Vec::new(), best_effort: Vec::new(), is_pending: false }
    }

    fn is_empty(&self) -> bool {
        self.guaranteed.is_empty() && self.best_effort.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::{Action, Guarantee, Mode, PushAgent, PushSpec, SchedulerConfig};
    use crate::memory::{Geometry, Segment, Writer};
    use crate::wire::Channel;
    use std::net::SocketAddr;

    const NOW: u64 = 1_000_000_000;

    struct Area {
        writer: Writer,
        key: PushKey,
        doorbell: Doorbell,
    }

    impl Area {
        fn write(&mut self) {
            self.writer.write(&[1; 8]).unwrap();
        }
    }

    fn area(scheduler: &mut AgentScheduler, doorbells: &mut Doorbells, id: u32, guaranteed: bool) -> Area {
        let segment = Segment::create("area", Geometry::new(8, 1).unwrap()).unwrap();
        let (period_ns, deadline_ns) = (50_000_000, 10_000_000);
        let guarantee =
            Guarantee { period_ns, deadline_ns, promotion_ns: deadline_ns / 2, cost_ns: 1_000_000 };
        let spec = PushSpec {
            channel: Channel { id, epoch: 1, token: 1, size: 8, fragment: 1000, parity: 0 },
            to: SocketAddr::from(([127, 0, 0, 1], 9)),
            second: None,
            source: segment.reader().unwrap(),
            mode: Mode::OnWrite,
            guarantee: guaranteed.then_some(guarantee),
            rate: 0,
            burst: 0,
        };
        let key = scheduler.add_push(PushAgent::new(spec).unwrap(), NOW).unwrap();
        let doorbell = Doorbell::new(u64::from(id) + 1).unwrap();
        assert!(doorbells.subscribe(&doorbell, key, guaranteed), "it had no subscriber");
        Area { writer: segment.writer().unwrap(), key, doorbell }
    }

    /// The agents that send, until none has anything to send.
    fn sent(scheduler: &mut AgentScheduler) -> Vec<PushKey> {
        let mut out = vec![0; 2000];
        std::iter::from_fn(|| match scheduler.next_action(NOW, &mut out) {
            Action::Send { push, .. } => Some(push),
            _ => None,
        })
        .collect()
    }

    fn world(guaranteed: &[bool]) -> (AgentScheduler, Doorbells, Vec<Area>) {
        let config = SchedulerConfig { pushes: guaranteed.len(), receives: 1, ..SchedulerConfig::default() };
        let (mut scheduler, mut doorbells) = (AgentScheduler::new(config), Doorbells::default());
        let areas = (0..)
            .zip(guaranteed)
            .map(|(id, is)| area(&mut scheduler, &mut doorbells, id, *is))
            .collect::<Vec<_>>();
        assert!(sent(&mut scheduler).is_empty(), "nothing is written");
        (scheduler, doorbells, areas)
    }

    #[test]
    fn guaranteed_agents_are_checked_before_best_effort() {
        let (mut scheduler, mut doorbells, mut areas) = world(&[false, true, false]);
        areas.iter_mut().for_each(Area::write);
        let keys: Vec<PushKey> = areas.iter().map(|area| area.key).collect();
        // In any order of rings.
        let rung = areas.iter().map(|area| doorbells.ring(area.doorbell.number(), &mut scheduler, NOW));
        assert_eq!(rung.collect::<Vec<_>>(), [false, true, false]);
        // It is in the lower band: best effort that had been checked would have gone before.
        assert_eq!(sent(&mut scheduler), [keys[1]]);
        assert!(doorbells.check_pending(&mut scheduler, NOW));
        let mut others = sent(&mut scheduler);
        others.sort_by_key(|key| key.number());
        assert_eq!(others, [keys[0], keys[2]]);
        assert!(!doorbells.check_pending(&mut scheduler, NOW), "once");
    }

    #[test]
    fn a_ring_checks_the_agents_of_one_area_only() {
        let (mut scheduler, mut doorbells, mut areas) = world(&[false; 1000]);
        areas[700].write();
        assert!(!doorbells.ring(areas[700].doorbell.number(), &mut scheduler, NOW));
        assert!(doorbells.check_pending(&mut scheduler, NOW));
        assert_eq!(doorbells.checks(), 1);
        assert_eq!(sent(&mut scheduler), [areas[700].key]);
        // Two rings before a check are one check; a doorbell without subscribers causes none.
        areas[3].write();
        for number in [areas[3].doorbell.number(), areas[3].doorbell.number(), 5000] {
            doorbells.ring(number, &mut scheduler, NOW);
        }
        doorbells.check_pending(&mut scheduler, NOW);
        assert_eq!((doorbells.checks(), sent(&mut scheduler)), (2, vec![areas[3].key]));
    }

    #[test]
    fn agents_keep_their_kind_with_another_doorbell() {
        let (mut scheduler, mut doorbells, mut areas) = world(&[false, true, false]);
        let keys: Vec<PushKey> = areas.iter().map(|area| area.key).collect();
        let next = Doorbell::new(77).unwrap();
        let old = [0, 1].map(|at| doorbells.unsubscribe(keys[at]).map(|doorbell| doorbell.number()));
        assert_eq!(old, [Some(1), Some(2)], "they had no other subscriber");
        assert!(doorbells.subscribe(&next, keys[0], false) && !doorbells.subscribe(&next, keys[1], true));
        areas.iter_mut().for_each(Area::write);
        assert!(!doorbells.ring(1, &mut scheduler, NOW) && doorbells.ring(77, &mut scheduler, NOW));
        assert_eq!(sent(&mut scheduler), [keys[1]]);
        // An agent without a doorbell is not checked.
        assert!(doorbells.unsubscribe(keys[0]).is_none(), "it has another subscriber");
        assert!(doorbells.unsubscribe(keys[1]).is_some());
        assert!(!doorbells.check_pending(&mut scheduler, NOW));
        doorbells.ring(3, &mut scheduler, NOW);
        doorbells.check_pending(&mut scheduler, NOW);
        assert_eq!(sent(&mut scheduler), [keys[2]]);
        assert!(doorbells.remove(3).is_some() && doorbells.remove(3).is_none());
        assert!(doorbells.subscribers.is_empty() && doorbells.subscriptions.is_empty());
    }
}
