//! Best effort by multicast on the credits of the group's members: the least one counts, and a
//! member that is gone holds up none of the others for long.

use super::*;

const WINDOW: u64 = 12_000;
const SIZE: usize = 90_000;
const SILENCE_NS: u64 = 350 * MS;

/// A writer's node and two that read by multicast.
struct World {
    near: AgentScheduler,
    /// With their addresses.
    members: [(AgentScheduler, SocketAddr, Reader, u32); 2],
    writer: Writer,
    push: PushKey,
    now: u64,
    value: u8,
}

impl World {
    fn new() -> World {
        let config = SchedulerConfig {
            pushes: 4,
            receives: 4,
            heartbeat_ns: 100 * MS,
            refresh_ns: 0,
            link_bytes_per_s: 0,
        };
        let (now, geometry) = (1_000 * MS, Geometry::new(SIZE, 1).unwrap());
        let channel = Channel { id: GROUP | 1, epoch: 1, token: 42, size: SIZE, fragment: 1000, parity: 0 };
        let source = Segment::create("near", geometry).unwrap();
        let (to, guarantee) = (SocketAddr::from(([239, 255, 0, 1], 9)), None);
        let (source_reader, mode) = (source.reader().unwrap(), Mode::OnWrite);
        let spec =
            PushSpec { channel, to, second: None, source: source_reader, mode, guarantee, rate: 0, burst: 0 };
        let mut near = AgentScheduler::new(config);
        let agent = PushAgent::new(spec).unwrap().credit_of_members(SILENCE_NS);
        let push = near.add_push(agent, now).unwrap();
        let members = [3, 4].map(|port| {
            let replica = Segment::create("far", geometry).unwrap();
            let spec = ReceiveSpec {
                channel,
                peer: FROM,
                target: replica.writer().unwrap(),
                fresh_ns: None,
                silence_ns: SILENCE_NS,
                second: None,
                deadline_ns: None,
                clock: RoundTrips::default(),
            };
            let mut member = AgentScheduler::new(config);
            let number = member.join(ReceiveAgent::new(spec).unwrap().credit_of_group(), now).unwrap();
            (member, SocketAddr::from(([127, 0, 0, 1], port)), replica.reader().unwrap(), number)
        });
        World { near, members, writer: source.writer().unwrap(), push, now, value: 0 }
    }

    fn write(&mut self) {
        self.value += 1;
        self.writer.write_at(&[self.value; SIZE], self.now).unwrap();
        self.near.written_to(self.push, self.now);
    }

    /// What the writer's node sends at once, and its octets on the wire that are not heartbeats.
    fn sent(&mut self) -> (Vec<Vec<u8>>, u64) {
        let (mut out, mut datagrams, mut octets) = (vec![0; 2000], Vec::new(), 0);
        while let Action::Send { len, .. } = self.near.next_action(self.now, &mut out) {
            let kind = Datagram::read(&out[..len]).unwrap().kind;
            octets += if kind == Kind::Fragment { (len + WIRE_OVERHEAD) as u64 } else { 0 };
            datagrams.push(out[..len].to_vec());
            assert!(datagrams.len() < 10_000, "there is an end");
            // No two are sent at the same nanosecond.
            self.now += 1;
        }
        (datagrams, octets)
    }

    /// These of the members receive, and their answers arrive.
    fn received(&mut self, datagrams: &[Vec<u8>], which: impl Fn(usize) -> bool) {
        let mut out = [0; 2000];
        for (number, (member, address, ..)) in self.members.iter_mut().enumerate() {
            for datagram in datagrams.iter().filter(|_| which(number)) {
                member.received(FROM, datagram, self.now);
                while let Action::Report { len, .. } = member.next_action(self.now, &mut out) {
                    self.near.received(*address, &out[..len], self.now);
                }
            }
        }
    }

    /// A heartbeat to these, and what is sent at once after it.
    fn beat(&mut self, which: impl Fn(usize) -> bool) -> (Vec<Vec<u8>>, u64) {
        self.now += 130 * MS;
        let (datagrams, before) = self.sent();
        self.received(&datagrams, which);
        let (datagrams, octets) = self.sent();
        (datagrams, before + octets)
    }

    /// Goes on until all is sent. The most octets that went at once.
    fn drain(&mut self, mut datagrams: Vec<Vec<u8>>, which: impl Fn(usize) -> bool) -> u64 {
        let mut most = 0;
        for _ in 0..200 {
            self.received(&datagrams, &which);
            let (next, octets) = self.sent();
            (datagrams, most) = (next, most.max(octets));
        }
        most
    }

    /// The first octet of the value that a member shows.
    fn shown(&mut self, number: usize) -> Option<u8> {
        let mut out = vec![0; SIZE];
        let sample = self.members[number].2.latest(&mut out).ok()?;
        assert!(out[..sample.len].iter().all(|octet| *octet == out[0]), "torn");
        Some(out[0])
    }
}

#[test]
fn the_member_with_guaranteed_channels_limits_what_is_on_its_way_to_all() {
    let mut world = World::new();
    world.write();
    let (all, octets) = world.sent();
    assert!(octets > SIZE as u64, "no member limits the group");
    world.received(&all, |_| true);
    assert_eq!([world.shown(0), world.shown(1)], [Some(1); 2]);

    world.members[0].0.limit_best_effort(Some(WINDOW));
    world.beat(|_| true);
    for paused in [false, true] {
        // Also for a reader that is stopped: the datagrams come by its node's port all the same.
        let number = world.members[0].3;
        world.members[0].0.set_receiving(number, !paused, world.now);
        world.write();
        let (first, octets) = world.sent();
        assert!((WINDOW / 2..=WINDOW).contains(&octets), "{octets}");
        let most = world.drain(first, |_| true);
        assert!(most <= WINDOW, "{most}");
        let value = world.value;
        assert_eq!(world.shown(1), Some(value), "paused {paused}");
        assert_eq!(world.shown(0), Some(if paused { value - 1 } else { value }));
    }
    let number = world.members[0].3;
    world.members[0].0.set_receiving(number, true, world.now);

    // All that is on its way to the member is lost; its answer to a heartbeat ends the wait.
    world.write();
    let (lost, _) = world.sent();
    world.received(&lost, |number| number == 1);
    assert_eq!(world.sent().1, 0, "there is no credit left");
    let (next, octets) = world.beat(|_| true);
    assert!((WINDOW / 2..=WINDOW).contains(&octets), "{octets}");
    world.drain(next, |_| true);

    // Its last guaranteed channel ends.
    world.members[0].0.limit_best_effort(None);
    world.beat(|_| true);
    world.write();
    assert!(world.sent().1 > SIZE as u64);
}

#[test]
fn the_others_wait_for_a_dead_member_no_longer_than_the_silence() {
    let mut world = World::new();
    world.members[0].0.limit_best_effort(Some(WINDOW));
    world.beat(|_| true);
    // Alive, but idle for long.
    (0..20).for_each(|_| drop(world.beat(|_| true)));
    world.write();
    let (first, octets) = world.sent();
    assert!((WINDOW / 2..=WINDOW).contains(&octets), "{octets}");
    // Now it dies.
    let alive = |number: usize| number == 1;
    let begun = world.now;
    world.received(&first, alive);
    let (mut beats, mut octets) = (0, 0);
    while octets == 0 {
        beats += 1;
        assert!(beats < 10, "the group waits for a dead member");
        let (datagrams, sent) = world.beat(alive);
        octets = sent;
        world.received(&datagrams, alive);
    }
    assert!(world.now - begun >= SILENCE_NS, "it waits for the silence: {beats} heartbeats");
    assert!(octets > 60_000, "the whole rest: {octets}");
    let rest = world.sent().0;
    world.drain(rest, alive);
    assert_eq!(world.shown(1), Some(1));
}

#[test]
fn members_share_no_credit_and_the_least_one_counts() {
    let mut world = World::new();
    world.members[0].0.limit_best_effort(Some(40_000));
    world.members[1].0.limit_best_effort(Some(WINDOW));
    world.beat(|_| true);
    world.write();
    let (first, octets) = world.sent();
    assert!((WINDOW / 2..=WINDOW).contains(&octets), "{octets}");
    // Only the other one makes room.
    world.received(&first, |number| number == 0);
    assert_eq!(world.sent().1, 0);
    let most = world.drain(first, |number| number == 1);
    assert!((1..=WINDOW).contains(&most), "{most}");
}
