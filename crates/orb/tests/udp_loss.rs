//! UDP over a bad network: datagrams are lost, duplicated and reordered. Each call gets its own
//! reply or a time-out, never another call's.

mod common;

use common::*;
use isorb::{Config, Orb, Reference};
use isorb_giop::profile::TAG_TAO_DIOP;
use isorb_giop::{IiopProfile, Ior, Kind, TaggedProfile};
use isorb_netlab::Plan;
use isorb_netlab::relay::DatagramRelay;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

fn pair(ms: u64, there: Plan, back: Plan) -> (Orb, Orb, EchoRef, DatagramRelay, std::sync::Arc<Parrot>) {
    let serving = Config { endpoints: vec!["udp:127.0.0.1:0;lane=1".into()], ..Config::default() };
    let calling = Config { round_trip_timeout_ms: ms, ..Config::default() };
    let (server, client, far, parrot) = pair_with(serving, calling);
    let ior = far.object().ior();
    let profile = IiopProfile::parse(&ior.profiles[0].data).unwrap();
    let relay = DatagramRelay::start(([127, 0, 0, 1], profile.port).into(), there, back).unwrap();
    let profile = IiopProfile { port: relay.address().port(), ..profile };
    let profile = TaggedProfile { tag: TAG_TAO_DIOP, ..profile.to_tagged().unwrap() };
    let ior = Ior { type_id: ior.type_id.clone(), profiles: vec![profile] };
    let far: EchoRef = client.resolve(&ior.to_string()).unwrap();
    (server, client, far, relay, parrot)
}

#[test]
fn each_call_gets_its_own_answer_or_a_time_out() {
    let bad = |seed| Plan {
        seed,
        loss: 0.15,
        duplicate: 0.3,
        reorder: 0.3,
        delay_ns: 1_000_000,
        jitter_ns: 1_000_000,
    };
    let (server, client, far, relay, _) = pair(400, bad(7), bad(8));
    let (mut answered, mut timed_out) = (0, 0);
    let end = Instant::now() + Duration::from_secs(100);
    // Several at a time, so that replies meet.
    for round in 0.. {
        let results = std::thread::scope(|scope| {
            let calls: Vec<_> = (0..6)
                .map(|i| {
                    let far = &far;
                    let text = format!("{round} {i} {}", "x".repeat(i * 100));
                    scope.spawn(move || (far.text(&text), text))
                })
                .collect();
            calls.into_iter().map(|call| call.join().unwrap()).collect::<Vec<_>>()
        });
        for (result, sent) in results {
            match result {
                Ok(text) => {
                    assert_eq!(text, sent, "the answer of another call");
                    answered += 1;
                }
                Err(error) => {
                    assert_eq!(error.kind, Kind::Timeout, "{error:?}");
                    timed_out += 1;
                }
            }
        }
        if answered >= 60 && timed_out >= 6 {
            break;
        }
        assert!(Instant::now() < end, "{answered} answered, {timed_out} timed out, {} lost", relay.dropped());
    }
    assert!(relay.dropped() > 0);
    client.shutdown(true).unwrap();
    server.shutdown(true).unwrap();
}

#[test]
fn what_comes_twice_is_served_twice_and_answers_no_other_call() {
    let twice = Plan { duplicate: 1.0, ..Plan::default() };
    let (server, client, far, _relay, parrot) = pair(60_000, twice, twice);
    for i in 1..=50u64 {
        far.feed(&[7; 10]).unwrap();
        assert_eq!(far.text(&i.to_string()).unwrap(), i.to_string());
    }
    let end = Instant::now() + Duration::from_secs(60);
    while parrot.fed.load(Ordering::Relaxed) < 2 * 50 * 10 {
        assert!(Instant::now() < end, "the second ones did not come");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(parrot.fed.load(Ordering::Relaxed), 2 * 50 * 10);
    client.shutdown(true).unwrap();
    server.shutdown(true).unwrap();
}
