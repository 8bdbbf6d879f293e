//! Which ring means which agents, and in which order these look.
//!
//! Each writer has a bell of its own, so a ring makes only the agents of one area look, however many areas a process writes: the kernel keeps who
//! rang. Who is admitted looks first; when one of them has a push, the others look after its first datagrams.

use crate::plane::{Plane, PushKey};
use isorb_rt::Errno;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::HashMap;
use std::sync::Arc;

/// What a writer rings when it has written: a counter in the kernel, which the dispatching threads that push its area watch and nobody reads. The
/// next writer of the area gets another one, whatever this one did to it.
#[derive(Clone, Debug)]
pub(super) struct Bell {
    number: u64,
    file: Arc<OwnedFd>,
}

impl Bell {
    /// The number is its token in pollers.
    ///
    /// # Errors
    /// MFILE, NFILE, NOMEM.
    pub fn new(number: u64) -> Result<Bell, Errno> {
        let file = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Bell { number, file: Arc::new(file) })
    }

    pub fn number(&self) -> u64 {
        self.number
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The bells that a dispatching thread hears.
#[derive(Debug, Default)]
pub(super) struct Bells {
    hearers: HashMap<u64, Hearers>,
    /// Which bell an agent hears.
    heard: HashMap<PushKey, u64>,
    /// Bells that rang and for which the best-effort agents have not looked.
    owed: Vec<u64>,
    looks: u64,
}

#[derive(Debug)]
struct Hearers {
    bell: Bell,
    guaranteed: Vec<PushKey>,
    others: Vec<PushKey>,
    is_owed: bool,
}

impl Bells {
    /// The ring of `bell` means this agent, which hears none; says whether it meant nobody before, and is to be watched.
    pub fn add(&mut self, bell: &Bell, key: PushKey, is_guaranteed: bool) -> bool {
        let number = bell.number;
        let hearers = self.hearers.entry(number).or_insert_with(|| Hearers::of(bell.clone()));
        let is_new = hearers.is_empty();
        if is_guaranteed { &mut hearers.guaranteed } else { &mut hearers.others }.push(key);
        self.heard.insert(key, number);
        // So that a ring allocates nothing.
        self.owed.reserve(self.hearers.len().saturating_sub(self.owed.len()));
        is_new
    }

    /// Nobody rings for this agent any more; gives the bell if it means nobody now.
    pub fn remove(&mut self, key: PushKey) -> Option<Bell> {
        let number = self.heard.remove(&key)?;
        let hearers = self.hearers.get_mut(&number)?;
        hearers.guaranteed.retain(|other| *other != key);
        hearers.others.retain(|other| *other != key);
        if hearers.is_empty() { self.forget(number) } else { None }
    }

    /// Its writer is gone. Gives the bell if it meant anybody.
    pub fn forget(&mut self, number: u64) -> Option<Bell> {
        let hearers = self.hearers.remove(&number)?;
        for key in hearers.guaranteed.iter().chain(&hearers.others) {
            self.heard.remove(key);
        }
        self.owed.retain(|owed| *owed != number);
        Some(hearers.bell)
    }

    /// A bell rang; says whether somebody who is admitted has a push now. If not, [`settle`](Self::settle) may come at once.
    ///
    /// # Real-time
    /// Does not allocate. One load a guaranteed agent of the area.
    pub fn rung(&mut self, number: u64, plane: &mut Plane, now_ns: u64) -> bool {
        let Some(hearers) = self.hearers.get_mut(&number) else { return false };
        if !hearers.others.is_empty() && !std::mem::replace(&mut hearers.is_owed, true) {
            self.owed.push(number);
        }
        look(&hearers.guaranteed, plane, now_ns, &mut self.looks)
    }

    /// Lets everybody look who has not; false if there was nobody.
    ///
    /// # Real-time
    /// Does not allocate. One load a best-effort agent of the areas that were rung for.
    pub fn settle(&mut self, plane: &mut Plane, now_ns: u64) -> bool {
        let any = !self.owed.is_empty();
        while let Some(number) = self.owed.pop() {
            let Some(hearers) = self.hearers.get_mut(&number) else { continue };
            hearers.is_owed = false;
            look(&hearers.others, plane, now_ns, &mut self.looks);
        }
        any
    }

    /// How often an agent looked because a bell rang.
    pub fn looks(&self) -> u64 {
        self.looks
    }
}

/// Lets agents look; says whether any of them has a push.
fn look(keys: &[PushKey], plane: &mut Plane, now_ns: u64, looks: &mut u64) -> bool {
    let mut any = false;
    for key in keys {
        *looks += 1;
        any |= plane.written_to(*key, now_ns);
    }
    any
}

impl Hearers {
    fn of(bell: Bell) -> Hearers {
        Hearers { bell, guaranteed: Vec::new(), others: Vec::new(), is_owed: false }
    }

    fn is_empty(&self) -> bool {
        self.guaranteed.is_empty() && self.others.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Geometry, Segment, Writer};
    use crate::plane::{Guarantee, Mode, PlaneConfig, PushAgent, PushSpec, Step};
    use crate::wire::Channel;
    use std::net::SocketAddr;

    const NOW: u64 = 1_000_000_000;

    struct Area {
        writer: Writer,
        key: PushKey,
        bell: Bell,
    }

    impl Area {
        fn write(&mut self) {
            self.writer.write(&[1; 8]).unwrap();
        }
    }

    fn area(plane: &mut Plane, bells: &mut Bells, id: u32, guaranteed: bool) -> Area {
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
        let key = plane.add_push(PushAgent::new(spec).unwrap(), NOW).unwrap();
        let bell = Bell::new(u64::from(id) + 1).unwrap();
        assert!(bells.add(&bell, key, guaranteed), "nobody heard it before");
        Area { writer: segment.writer().unwrap(), key, bell }
    }

    /// Who sends, until nobody does.
    fn sent(plane: &mut Plane) -> Vec<PushKey> {
        let mut out = vec![0; 2000];
        std::iter::from_fn(|| match plane.step(NOW, &mut out) {
            Step::Send { push, .. } => Some(push),
            _ => None,
        })
        .collect()
    }

    fn world(guaranteed: &[bool]) -> (Plane, Bells, Vec<Area>) {
        let config = PlaneConfig { pushes: guaranteed.len(), receives: 1, ..PlaneConfig::default() };
        let (mut plane, mut bells) = (Plane::new(config), Bells::default());
        let areas =
            (0..).zip(guaranteed).map(|(id, is)| area(&mut plane, &mut bells, id, *is)).collect::<Vec<_>>();
        assert!(sent(&mut plane).is_empty(), "nothing is written");
        (plane, bells, areas)
    }

    #[test]
    fn who_is_admitted_goes_before_the_others_have_looked() {
        let (mut plane, mut bells, mut areas) = world(&[false, true, false]);
        areas.iter_mut().for_each(Area::write);
        let keys: Vec<PushKey> = areas.iter().map(|area| area.key).collect();
        // In whichever order they rang.
        let rung = areas.iter().map(|area| bells.rung(area.bell.number(), &mut plane, NOW));
        assert_eq!(rung.collect::<Vec<_>>(), [false, true, false]);
        // In the lower band: best effort that had looked would have gone before.
        assert_eq!(sent(&mut plane), [keys[1]]);
        assert!(bells.settle(&mut plane, NOW));
        let mut others = sent(&mut plane);
        others.sort_by_key(|key| key.number());
        assert_eq!(others, [keys[0], keys[2]]);
        assert!(!bells.settle(&mut plane, NOW), "once");
    }

    #[test]
    fn a_ring_makes_one_area_look_however_many_there_are() {
        let (mut plane, mut bells, mut areas) = world(&[false; 1000]);
        areas[700].write();
        assert!(!bells.rung(areas[700].bell.number(), &mut plane, NOW));
        assert!(bells.settle(&mut plane, NOW));
        assert_eq!(bells.looks(), 1);
        assert_eq!(sent(&mut plane), [areas[700].key]);
        // Twice rung before the look is one look, and a bell that means nobody none.
        areas[3].write();
        for number in [areas[3].bell.number(), areas[3].bell.number(), 5000] {
            bells.rung(number, &mut plane, NOW);
        }
        bells.settle(&mut plane, NOW);
        assert_eq!((bells.looks(), sent(&mut plane)), (2, vec![areas[3].key]));
    }

    #[test]
    fn agents_go_over_to_another_bell_as_what_they_are() {
        let (mut plane, mut bells, mut areas) = world(&[false, true, false]);
        let keys: Vec<PushKey> = areas.iter().map(|area| area.key).collect();
        let next = Bell::new(77).unwrap();
        let old = [0, 1].map(|at| bells.remove(keys[at]).map(|bell| bell.number()));
        assert_eq!(old, [Some(1), Some(2)], "they meant nobody else");
        assert!(bells.add(&next, keys[0], false) && !bells.add(&next, keys[1], true));
        areas.iter_mut().for_each(Area::write);
        assert!(!bells.rung(1, &mut plane, NOW) && bells.rung(77, &mut plane, NOW));
        assert_eq!(sent(&mut plane), [keys[1]]);
        // What is gone looks no more, and what is owed to nobody is forgotten.
        assert!(bells.remove(keys[0]).is_none(), "another hears it");
        assert!(bells.remove(keys[1]).is_some());
        assert!(!bells.settle(&mut plane, NOW));
        bells.rung(3, &mut plane, NOW);
        bells.settle(&mut plane, NOW);
        assert_eq!(sent(&mut plane), [keys[2]]);
        assert!(bells.forget(3).is_some() && bells.forget(3).is_none());
        assert!(bells.hearers.is_empty() && bells.heard.is_empty());
    }
}
