//! In its steady state a scheduler allocates nothing.

use isorb_reflective_memory::agents::{
    Action, AgentScheduler, Guarantee, Mode, PushAgent, PushSpec, ReceiveAgent, ReceiveSpec, SchedulerConfig,
};
use isorb_reflective_memory::memory::{Geometry, Segment};
use isorb_reflective_memory::wire::Channel;
use isorb_rt::alloc_count::{CountingAllocator, allocations_during};
use isorb_rt::clock_sync::RoundTrips;
use std::net::SocketAddr;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn pushing_and_receiving_allocate_nothing() {
    assert!(allocations_during(|| Box::new(1)) > 0, "the allocator counts");
    let config = SchedulerConfig {
        pushes: 4,
        receives: 4,
        heartbeat_ns: 1_000_000,
        refresh_ns: 3_000_000,
        link_bytes_per_s: 0,
    };
    let (mut near, mut far) = (AgentScheduler::new(config), AgentScheduler::new(config));
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    let mut lines = Vec::new();
    for id in 0..4 {
        let geometry = Geometry::new(5_000, 1).unwrap();
        let (source, replica) = [(); 2].map(|()| Segment::create("alloc", geometry).unwrap()).into();
        assert_eq!(far.reserve().unwrap(), id);
        let channel = Channel { id, epoch: 1, token: 1, size: 5_000, fragment: 700, parity: id as usize };
        let target = replica.writer().unwrap();
        let spec = ReceiveSpec {
            channel,
            peer,
            target,
            fresh_ns: Some(2_000_000),
            silence_ns: 5_000_000,
            second: None,
            deadline_ns: (id % 2 == 1).then_some(90_000),
            clock: RoundTrips::default(),
        };
        far.add_receive(ReceiveAgent::new(spec).unwrap(), 0).unwrap();
        let guarantee = (id % 2 == 0).then_some(Guarantee {
            period_ns: 100_000,
            deadline_ns: 90_000,
            promotion_ns: 10_000,
            cost_ns: 5_000,
        });
        let reader = source.reader().unwrap();
        let spec = PushSpec {
            channel,
            to: peer,
            second: None,
            source: reader,
            mode: Mode::OnWrite,
            guarantee,
            rate: 1 << 30,
            burst: 999,
        };
        let key = near.add_push(PushAgent::new(spec).unwrap(), 0).unwrap();
        lines.push((source.writer().unwrap(), key, replica.reader().unwrap()));
    }
    let mut out = vec![0; 2_000];
    let mut value = vec![0; 5_000];
    let mut now = 1_000;
    let mut sent = 0;
    let mut work = |rounds: u64| {
        for round in 0..rounds {
            for (writer, key, _) in &mut lines {
                writer.write_at(&value[..(round % 5_000) as usize], now).unwrap();
                near.written_to(*key, now);
            }
            for _ in 0..40 {
                now += 3_000;
                if let Action::Send { len, push, .. } = near.next_action(now, &mut out) {
                    sent += 1;
                    far.received(peer, &out[..len], now);
                    near.charge(push, 1_000);
                }
                far.next_action(now, &mut []);
            }
            for (_, _, reader) in &mut lines {
                let _ = reader.latest(&mut value);
            }
        }
    };
    work(50);
    assert_eq!(allocations_during(|| work(500)), 0);
    assert!(sent > 2_000, "{sent} datagrams");
}
