//! Which ring means which agents, and in which order these look.
//!
//! Each writer has a doorbell of its own, so a ring makes only the agents of one area look, however many areas a process writes: the kernel keeps who
//! rang. Who is admitted looks first; when one of them has a push, the others look after its first datagrams.

use crate::agents::{AgentScheduler, PushKey};
use isorb_rt::Errno;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::HashMap;
use std::sync::Arc;

/// What a writer rings when it has written: a counter in the kernel, which the dispatching threads that push its area watch and nobody reads. The
/// next writer of the area gets another one, whatever this one did to it.
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

/// The doorbells that a dispatching thread hears.
#[derive(Debug, Default)]
pub(super) struct Doorbells {
    subscribers: HashMap<u64, Subscribers>,
    /// Which doorbell an agent hears.
    heard: HashMap<PushKey, u64>,
    /// Doorbells that rang and for which the best-effort agents have not looked.
    owed: Vec<u64>,
    looks: u64,
}

#[derive(Debug)]
struct Subscribers {
    doorbell: Doorbell,
    guaranteed: Vec<PushKey>,
    others: Vec<PushKey>,
    is_owed: bool,
}

impl Doorbells {
    /// The ring of `doorbell` means this agent, which hears none; says whether it meant nobody before, and is to be watched.
    pub fn add(&mut self, doorbell: &Doorbell, key: PushKey, is_guaranteed: bool) -> bool {
        let number = doorbell.number;
        let subscribers = self.subscribers.entry(number).or_insert_with(|| Subscribers::of(doorbell.clone()));
        let is_new = subscribers.is_empty();
        if is_guaranteed { &mut subscribers.guaranteed } else { &mut subscribers.others }.push(key);
        self.heard.insert(key, number);
        // So that a ring allocates nothing.
        self.owed.reserve(self.subscribers.len().saturating_sub(self.owed.len()));
        is_new
    }

    /// Nobody rings for this agent any more; gives the doorbell if it means nobody now.
    pub fn remove(&mut self, key: PushKey) -> Option<Doorbell> {
        let number = self.heard.remove(&key)?;
        let subscribers = self.subscribers.get_mut(&number)?;
        subscribers.guaranteed.retain(|other| *other != key);
        subscribers.others.retain(|other| *other != key);
        if subscribers.is_empty() { self.forget(number) } else { None }
    }

    /// Its writer is gone. Gives the doorbell if it meant anybody.
    pub fn forget(&mut self, number: u64) -> Option<Doorbell> {
        let subscribers = self.subscribers.remove(&number)?;
        for key in subscribers.guaranteed.iter().chain(&subscribers.others) {
            self.heard.remove(key);
        }
        self.owed.retain(|owed| *owed != number);
        Some(subscribers.doorbell)
    }

    /// A doorbell rang; says whether somebody who is admitted has a push now. If not, [`settle`](Self::settle) may come at once.
    ///
    /// # Real-time
    /// Does not allocate. One load a guaranteed agent of the area.
    pub fn rung(&mut self, number: u64, scheduler: &mut AgentScheduler, now_ns: u64) -> bool {
        let Some(subscribers) = self.subscribers.get_mut(&number) else { return false };
        if !subscribers.others.is_empty() && !std::mem::replace(&mut subscribers.is_owed, true) {
            self.owed.push(number);
        }
        look(&subscribers.guaranteed, scheduler, now_ns, &mut self.looks)
    }

    /// Lets everybody look who has not; false if there was nobody.
    ///
    /// # Real-time
    /// Does not allocate. One load a best-effort agent of the areas that were rung for.
    pub fn settle(&mut self, scheduler: &mut AgentScheduler, now_ns: u64) -> bool {
        let any = !self.owed.is_empty();
        while let Some(number) = self.owed.pop() {
            let Some(subscribers) = self.subscribers.get_mut(&number) else { continue };
            subscribers.is_owed = false;
            look(&subscribers.others, scheduler, now_ns, &mut self.looks);
        }
        any
    }

    /// How often an agent looked because a doorbell rang.
    pub fn looks(&self) -> u64 {
        self.looks
    }
}

/// Lets agents look; says whether any of them has a push.
fn look(keys: &[PushKey], scheduler: &mut AgentScheduler, now_ns: u64, looks: &mut u64) -> bool {
    let mut any = false;
    for key in keys {
        *looks += 1;
        any |= scheduler.written_to(*key, now_ns);
    }
    any
}

impl Subscribers {
    fn of(doorbell: Doorbell) -> Subscribers {
        Subscribers { doorbell, guaranteed: Vec::new(), others: Vec::new(), is_owed: false }
    }

    fn is_empty(&self) -> bool {
        self.guaranteed.is_empty() && self.others.is_empty()
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
        assert!(doorbells.add(&doorbell, key, guaranteed), "nobody heard it before");
        Area { writer: segment.writer().unwrap(), key, doorbell }
    }

    /// Who sends, until nobody does.
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
    fn who_is_admitted_goes_before_the_others_have_looked() {
        let (mut scheduler, mut doorbells, mut areas) = world(&[false, true, false]);
        areas.iter_mut().for_each(Area::write);
        let keys: Vec<PushKey> = areas.iter().map(|area| area.key).collect();
        // In whichever order they rang.
        let rung = areas.iter().map(|area| doorbells.rung(area.doorbell.number(), &mut scheduler, NOW));
        assert_eq!(rung.collect::<Vec<_>>(), [false, true, false]);
        // In the lower band: best effort that had looked would have gone before.
        assert_eq!(sent(&mut scheduler), [keys[1]]);
        assert!(doorbells.settle(&mut scheduler, NOW));
        let mut others = sent(&mut scheduler);
        others.sort_by_key(|key| key.number());
        assert_eq!(others, [keys[0], keys[2]]);
        assert!(!doorbells.settle(&mut scheduler, NOW), "once");
    }

    #[test]
    fn a_ring_makes_one_area_look_however_many_there_are() {
        let (mut scheduler, mut doorbells, mut areas) = world(&[false; 1000]);
        areas[700].write();
        assert!(!doorbells.rung(areas[700].doorbell.number(), &mut scheduler, NOW));
        assert!(doorbells.settle(&mut scheduler, NOW));
        assert_eq!(doorbells.looks(), 1);
        assert_eq!(sent(&mut scheduler), [areas[700].key]);
        // Twice rung before the look is one look, and a doorbell that means nobody none.
        areas[3].write();
        for number in [areas[3].doorbell.number(), areas[3].doorbell.number(), 5000] {
            doorbells.rung(number, &mut scheduler, NOW);
        }
        doorbells.settle(&mut scheduler, NOW);
        assert_eq!((doorbells.looks(), sent(&mut scheduler)), (2, vec![areas[3].key]));
    }

    #[test]
    fn agents_go_over_to_another_bell_as_what_they_are() {
        let (mut scheduler, mut doorbells, mut areas) = world(&[false, true, false]);
        let keys: Vec<PushKey> = areas.iter().map(|area| area.key).collect();
        let next = Doorbell::new(77).unwrap();
        let old = [0, 1].map(|at| doorbells.remove(keys[at]).map(|doorbell| doorbell.number()));
        assert_eq!(old, [Some(1), Some(2)], "they meant nobody else");
        assert!(doorbells.add(&next, keys[0], false) && !doorbells.add(&next, keys[1], true));
        areas.iter_mut().for_each(Area::write);
        assert!(!doorbells.rung(1, &mut scheduler, NOW) && doorbells.rung(77, &mut scheduler, NOW));
        assert_eq!(sent(&mut scheduler), [keys[1]]);
        // What is gone looks no more, and what is owed to nobody is forgotten.
        assert!(doorbells.remove(keys[0]).is_none(), "another hears it");
        assert!(doorbells.remove(keys[1]).is_some());
        assert!(!doorbells.settle(&mut scheduler, NOW));
        doorbells.rung(3, &mut scheduler, NOW);
        doorbells.settle(&mut scheduler, NOW);
        assert_eq!(sent(&mut scheduler), [keys[2]]);
        assert!(doorbells.forget(3).is_some() && doorbells.forget(3).is_none());
        assert!(doorbells.subscribers.is_empty() && doorbells.heard.is_empty());
    }
}
