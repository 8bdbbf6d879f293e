//! Members of the cluster are killed and come back, each in turn, while areas are set up.
//!
//! `ISORB_ETCD_KILLS` says how many kills (6 if it is not set).

mod members;

use isorb_etcd::EtcdRegister;
use isorb_reflective_memory::coordinator::{AreaLocation, CoordinatorStore};
use isorb_reflective_memory::idl::Area;
use members::Members;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Sets up areas until `over`. Returns those that were acknowledged, and the longest call.
fn set_up(store: &EtcdRegister, over: &AtomicBool) -> (Vec<String>, Duration) {
    let (mut acknowledged, mut longest) = (Vec::new(), Duration::ZERO);
    for i in 0.. {
        if over.load(Ordering::Acquire) {
            break;
        }
        let name = format!("area-{i}");
        let area = Area { name: name.clone(), size: 8, ..Area::default() };
        let start = Instant::now();
        // As a coordinator does. A call fails where no member has answered for 3 s.
        assert!(store.area(&name).expect("a member answers within 3 s").is_none());
        store.set_area(&AreaLocation { area, node: "n".into() }).expect("a member answers within 3 s");
        longest = longest.max(start.elapsed());
        acknowledged.push(name);
        std::thread::sleep(Duration::from_millis(2));
    }
    (acknowledged, longest)
}

#[test]
fn no_acknowledged_area_is_lost_while_members_are_killed() {
    let Some(mut members) = Members::start() else { return };
    let kills =
        std::env::var("ISORB_ETCD_KILLS").map_or(6, |kills| kills.parse().expect("a number of kills"));
    let store = EtcdRegister::new(Arc::new(members.cluster("failover")));
    let over = AtomicBool::new(false);
    let (acknowledged, longest) = std::thread::scope(|scope| {
        let setting_up = scope.spawn(|| set_up(&store, &over));
        for kill in 0..kills {
            if setting_up.is_finished() {
                break;
            }
            let member = kill % 3;
            std::thread::sleep(Duration::from_millis(300));
            members.kill(member);
            std::thread::sleep(Duration::from_millis(1500));
            members.run(member);
            members.await_member(member);
        }
        over.store(true, Ordering::Release);
        setting_up.join().unwrap()
    });
    println!("{kills} kills, {} areas acknowledged, the longest set-up took {longest:?}", acknowledged.len());
    assert!(acknowledged.len() > kills, "set-ups go on");
    let there: BTreeSet<String> =
        store.areas().unwrap().into_iter().map(|location| location.area.name).collect();
    let lost: Vec<&String> = acknowledged.iter().filter(|name| !there.contains(*name)).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
}

/// Without a majority calls fail, with a sentence, and they go on once there is one again.
#[test]
fn without_a_majority_calls_fail_and_resume() {
    let Some(mut members) = Members::start() else { return };
    let store =
        EtcdRegister::new(Arc::new(members.cluster("majority").answer_within(Duration::from_millis(800))));
    let location = |name: &str| AreaLocation {
        area: Area { name: name.into(), size: 8, ..Area::default() },
        node: "n".into(),
    };
    store.set_area(&location("before")).unwrap();
    members.kill(0);
    members.kill(1);
    let error = store.set_area(&location("meanwhile")).unwrap_err();
    assert!(error.to_string().contains("no server of the store answers"), "{error}");
    members.run(0);
    members.await_member(0);
    store.set_area(&location("after")).unwrap();
    let there = store.areas().unwrap();
    assert!(["before", "after"].iter().all(|name| there.iter().any(|location| location.area.name == *name)));
}
