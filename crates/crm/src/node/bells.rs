//! Whose ring means which agents, and in which order these look.
//!
//! A process has one bell for all areas that it writes, so each ring makes all of its agents look whether it was for them: a load each, from
//! memory that another process wrote. Who is admitted looks first; when one of them has a push, the others look after its first datagrams.

use crate::plane::{Plane, PushKey};
use std::collections::HashMap;

/// The bells that a dispatching thread hears.
#[derive(Debug, Default)]
pub(super) struct Bells {
    sessions: HashMap<u64, Bell>,
    /// Sessions that rang and whose best-effort agents have not looked.
    owed: Vec<u64>,
}

#[derive(Debug, Default)]
struct Bell {
    guaranteed: Vec<PushKey>,
    others: Vec<PushKey>,
    is_owed: bool,
}

impl Bells {
    /// The ring of `session` means this agent, too.
    pub fn add(&mut self, session: u64, key: PushKey, is_guaranteed: bool) {
        let bell = self.sessions.entry(session).or_default();
        if is_guaranteed { &mut bell.guaranteed } else { &mut bell.others }.push(key);
        // So that a ring allocates nothing.
        self.owed.reserve(self.sessions.len().saturating_sub(self.owed.len()));
    }

    /// Nobody rings for this agent any more.
    pub fn remove(&mut self, key: PushKey) {
        for bell in self.sessions.values_mut() {
            bell.keys().for_each(|keys| keys.retain(|other| *other != key));
        }
        let Bells { sessions, owed } = self;
        sessions.retain(|_, bell| !bell.is_empty());
        owed.retain(|session| sessions.contains_key(session));
    }

    /// From now on `session` rings for these agents.
    pub fn hand_over(&mut self, keys: &[PushKey], session: u64) {
        for key in keys {
            let is_guaranteed = self.sessions.values().any(|bell| bell.guaranteed.contains(key));
            self.remove(*key);
            self.add(session, *key, is_guaranteed);
        }
    }

    /// A session rang.
    ///
    /// # Real-time
    /// Does not allocate. One load a guaranteed agent of the session; where none of them has a push, one for each other agent too.
    pub fn rung(&mut self, session: u64, plane: &mut Plane, now_ns: u64) {
        let Some(bell) = self.sessions.get_mut(&session) else { return };
        if !look(&bell.guaranteed, plane, now_ns) {
            look(&bell.others, plane, now_ns);
        } else if !std::mem::replace(&mut bell.is_owed, true) {
            self.owed.push(session);
        }
    }

    /// Lets everybody look who has not; false if there was nobody.
    ///
    /// # Real-time
    /// Does not allocate. One load a best-effort agent of the sessions that rang.
    pub fn settle(&mut self, plane: &mut Plane, now_ns: u64) -> bool {
        let any = !self.owed.is_empty();
        while let Some(session) = self.owed.pop() {
            let Some(bell) = self.sessions.get_mut(&session) else { continue };
            bell.is_owed = false;
            look(&bell.others, plane, now_ns);
        }
        any
    }
}

/// Lets agents look; says whether any of them has a push.
fn look(keys: &[PushKey], plane: &mut Plane, now_ns: u64) -> bool {
    let mut any = false;
    for key in keys {
        any |= plane.written_to(*key, now_ns);
    }
    any
}

impl Bell {
    fn keys(&mut self) -> impl Iterator<Item = &mut Vec<PushKey>> {
        [&mut self.guaranteed, &mut self.others].into_iter()
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

    const SESSION: u64 = 7;
    const NOW: u64 = 1_000_000_000;

    struct Area {
        writer: Writer,
        key: PushKey,
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
        bells.add(SESSION, key, guaranteed);
        Area { writer: segment.writer().unwrap(), key }
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

    fn world(guaranteed: [bool; 3]) -> (Plane, Bells, Vec<Area>) {
        let mut plane = Plane::new(PlaneConfig { pushes: 8, receives: 1, ..PlaneConfig::default() });
        let mut bells = Bells::default();
        let areas =
            (0..).zip(guaranteed).map(|(id, is)| area(&mut plane, &mut bells, id, is)).collect::<Vec<_>>();
        assert!(sent(&mut plane).is_empty(), "nothing is written");
        (plane, bells, areas)
    }

    fn write(areas: &mut [Area]) -> Vec<PushKey> {
        let written = |area: &mut Area| area.writer.write(&[1; 8]).map(|_| area.key);
        areas.iter_mut().map(written).collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn who_is_admitted_goes_before_the_others_have_looked() {
        let (mut plane, mut bells, mut areas) = world([false, true, false]);
        let keys = write(&mut areas);
        bells.rung(SESSION, &mut plane, NOW);
        // In the lower band: best effort that had looked would have gone before.
        assert_eq!(sent(&mut plane), [keys[1]]);
        assert!(bells.settle(&mut plane, NOW));
        assert_eq!(sent(&mut plane), [keys[0], keys[2]]);
        assert!(!bells.settle(&mut plane, NOW), "once");
    }

    #[test]
    fn without_a_push_of_theirs_everybody_looks_at_once() {
        let (mut plane, mut bells, mut areas) = world([false, true, false]);
        let keys = write(&mut areas[..1]);
        bells.rung(SESSION, &mut plane, NOW);
        assert_eq!(sent(&mut plane), keys);
        assert!(!bells.settle(&mut plane, NOW));
        bells.rung(SESSION + 1, &mut plane, NOW);
        assert!(!bells.settle(&mut plane, NOW), "nobody listens to that one");
    }

    #[test]
    fn agents_go_over_to_another_bell_as_what_they_are() {
        let (mut plane, mut bells, mut areas) = world([false, true, false]);
        let keys: Vec<PushKey> = areas.iter().map(|area| area.key).collect();
        bells.hand_over(&keys[..2], SESSION + 1);
        write(&mut areas);
        bells.rung(SESSION + 1, &mut plane, NOW);
        assert_eq!(sent(&mut plane), [keys[1]]);
        // What is gone looks no more, and what is owed to nobody is forgotten.
        bells.remove(keys[0]);
        bells.remove(keys[1]);
        assert!(!bells.settle(&mut plane, NOW));
        bells.rung(SESSION, &mut plane, NOW);
        assert_eq!(sent(&mut plane), [keys[2]]);
        bells.remove(keys[2]);
        assert!(bells.sessions.is_empty());
    }
}
