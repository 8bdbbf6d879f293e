//! Thread pools with all threads busy: they grow, borrow threads, buffer requests, reject them, or
//! let them wait.

mod common;

use common::rt::{Witness, arc, crowd, far, fifo, lane, poa, poa_of, real_time, server, sleepers};
use common::{EchoRef, raw::Raw};
use isorb::poa::PoaPolicies;
use isorb::rt::policy::PriorityModel::{self, ClientPropagated, ServerDeclared};
use isorb::rt::{RequestBuffering, ThreadpoolOptions};
use isorb::{Config, Kind, Orb, Reference};
use isorb_rt::sched::SchedClass;
use isorb_testkit::wait_until;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn dynamic_threads_come_when_all_are_busy_and_go_when_idle() {
    let server = server();
    let options =
        ThreadpoolOptions { idle_timeout: Some(Duration::from_millis(20)), ..ThreadpoolOptions::default() };
    let pool = server.rt().create_threadpool(lane(0, 1).dynamic_threads(2), &options).unwrap();
    let (witness, clients) = crowd(&server, pool, "growing", 4);
    let status = || server.rt().threadpool_status(pool).unwrap().remove(0);
    clients[0].ping().unwrap();
    assert_eq!(status().dynamic_threads, 0, "one is enough for one");
    let calls = sleepers(&clients);
    witness.await_inside(3);
    // The fourth request waits for a free slot; it is not rejected.
    assert_eq!((status().running, status().dynamic_threads, status().peak), (3, 2, 3));
    assert_eq!(witness.inside(), 3);
    witness.open(4);
    for (i, call) in calls.into_iter().enumerate() {
        assert_eq!(call.join().unwrap(), Ok(i as u32));
    }
    wait_until("all dynamic threads ended", || status().dynamic_threads == 0);
    assert_eq!(status().peak, 3, "never more than the limit");
    clients[1].ping().unwrap();
    server.shutdown(true).unwrap();
}

#[test]
fn requests_are_buffered_up_to_the_limit_and_then_refused() {
    let server = server();
    let buffering = RequestBuffering { max_buffered_requests: 2, max_request_buffer_size: 0 };
    let options = ThreadpoolOptions { buffering: Some(buffering), ..ThreadpoolOptions::default() };
    let pool = server.rt().create_threadpool(lane(0, 1), &options).unwrap();
    let (witness, clients) = crowd(&server, pool, "buffered", 4);
    let status = || server.rt().threadpool_status(pool).unwrap().remove(0);
    let calls = sleepers(&clients[..3]);
    wait_until("two are kept", || status().buffered_requests == 2);
    witness.await_inside(1);
    let refused = clients[3].sleep(9).unwrap_err();
    assert_eq!((refused.kind, refused.completed), (Kind::Transient, isorb::Completion::No));
    // A rejected oneway is dropped; its connection stays open.
    clients[3].feed(&[1, 2, 3]).unwrap();
    assert_eq!(clients[3].ping().unwrap_err().kind, Kind::Transient);
    witness.open(3);
    for (i, call) in calls.into_iter().enumerate() {
        assert_eq!(call.join().unwrap(), Ok(i as u32), "what was kept is run");
    }
    clients[3].ping().unwrap();
    assert_eq!(status().peak, 1);
    server.shutdown(true).unwrap();
}

/// The order in which buffered requests run, which arrived at these priorities one after the other.
fn order_of_kept(model: PriorityModel, priorities: &[i16]) -> Vec<u32> {
    let server = server();
    let buffering = RequestBuffering { max_buffered_requests: 0, max_request_buffer_size: 0 };
    let options = ThreadpoolOptions { buffering: Some(buffering), ..ThreadpoolOptions::default() };
    let pool = server.rt().create_threadpool(lane(0, 1), &options).unwrap();
    let policies = PoaPolicies::new().threadpool(pool).priority_model(model, 1);
    let witness = arc::<Witness>();
    let object: EchoRef = poa(&server, "kept", policies).activate(witness.clone()).unwrap();
    let (done, answers) = std::sync::mpsc::channel();
    let mut calls = Vec::new();
    let mut call = |number: u32, priority: i16| {
        let client = Orb::with_config(Config::default()).unwrap();
        let (object, done) = (far(&client, &object), done.clone());
        calls.push(std::thread::spawn(move || {
            client.rt_current().set_the_priority(priority).unwrap();
            done.send(object.sleep(number).unwrap()).unwrap();
        }));
    };
    call(0, 1);
    witness.await_inside(1);
    let status = || server.rt().threadpool_status(pool).unwrap().remove(0);
    for (i, priority) in priorities.iter().enumerate() {
        call(i as u32 + 1, *priority);
        wait_until("one more is kept", || status().buffered_requests == i + 1);
    }
    // One at a time, so that the replies come in the order of the upcalls.
    let mut order = Vec::new();
    for _ in 0..=priorities.len() {
        witness.open(1);
        order.push(answers.recv().unwrap());
    }
    calls.into_iter().for_each(|call| call.join().unwrap());
    server.shutdown(true).unwrap();
    order
}

#[test]
fn kept_requests_of_a_pool_without_lanes_run_in_the_order_of_their_priorities() {
    let priorities = [10, 20_000, 10, 20_000, 300];
    assert_eq!(order_of_kept(ClientPropagated, &priorities), [0, 2, 4, 5, 1, 3]);
    // The control: with server-declared priorities, all are equal.
    assert_eq!(order_of_kept(ServerDeclared, &priorities), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn the_bytes_of_buffered_requests_are_limited_too() {
    let server = server();
    let buffering = RequestBuffering { max_buffered_requests: 0, max_request_buffer_size: 1_000 };
    let options = ThreadpoolOptions { buffering: Some(buffering), ..ThreadpoolOptions::default() };
    let pool = server.rt().create_threadpool(lane(0, 1), &options).unwrap();
    let (witness, clients) = crowd(&server, pool, "bytes", 3);
    let call = sleepers(&clients[..1]);
    witness.await_inside(1);
    let large = clients[1].text(&"x".repeat(2_000)).unwrap_err();
    assert_eq!(large.kind, Kind::Transient, "more than the buffer by itself");
    let small = clients[2].clone();
    let small = std::thread::spawn(move || small.text("kept"));
    let status = || server.rt().threadpool_status(pool).unwrap().remove(0);
    wait_until("it is kept", || status().buffered_requests == 1);
    assert!((1..=1_000).contains(&status().buffered_bytes));
    witness.open(1);
    assert_eq!(small.join().unwrap().unwrap(), "kept");
    call.into_iter().for_each(|call| assert_eq!(call.join().unwrap(), Ok(0)));
    server.shutdown(true).unwrap();
}

/// A pool of a low lane with two threads and a high lane with one, and three clients of the high
/// lane's object.
fn borrower(allow_borrowing: bool) -> (Orb, u32, Arc<Witness>, Vec<EchoRef>) {
    let server = server();
    let options = ThreadpoolOptions { allow_borrowing, ..ThreadpoolOptions::default() };
    let pool = server.rt().create_threadpool_with_lanes(&[lane(10, 2), lane(20_000, 1)], &options).unwrap();
    let policies = PoaPolicies::new().threadpool(pool).priority_model(ServerDeclared, 20_000);
    let witness = arc::<Witness>();
    let poa = poa(&server, "borrower", policies);
    let object: EchoRef = poa.activate(witness.clone()).unwrap();
    let low: EchoRef = poa.activate_with_priority(arc::<Witness>(), 10).unwrap();
    let mut clients: Vec<_> =
        (0..4).map(|_| far(&Orb::with_config(Config::default()).unwrap(), &object)).collect();
    clients.push(far(&Orb::with_config(Config::default()).unwrap(), &low));
    (server, pool, witness, clients)
}

#[test]
fn a_lane_borrows_idle_threads_of_less_urgent_ones() {
    let (server, pool, witness, clients) = borrower(true);
    let calls = sleepers(&clients[..3]);
    witness.await_inside(3);
    let rt = real_time(&server);
    let mut runs = witness.take();
    runs.sort_by(|a, b| a.thread.cmp(&b.thread));
    let names: Vec<_> = runs.iter().map(|run| &*run.thread).collect();
    assert_eq!(names, ["pool1-10", "pool1-10", "pool1-20000"]);
    for run in &runs {
        assert_eq!(run.priority, Some(20_000));
        assert_eq!(run.class, if rt { fifo(20_000) } else { SchedClass::Other }, "raised for the call");
    }
    let status = server.rt().threadpool_status(pool).unwrap();
    assert_eq!((status[0].running, status[1].running), (2, 1));
    witness.open(3);
    for (i, call) in calls.into_iter().enumerate() {
        assert_eq!(call.join().unwrap(), Ok(i as u32));
    }
    for _ in 0..4 {
        clients[4].ping().unwrap();
    }
    wait_until("no request runs", || {
        server.rt().threadpool_status(pool).unwrap().iter().all(|lane| lane.running == 0)
    });
    server.shutdown(true).unwrap();
}

#[test]
fn borrowed_threads_return_to_their_priority() {
    let (server, _, witness, clients) = borrower(true);
    for _ in 0..5 {
        let calls = sleepers(&clients[..3]);
        witness.await_inside(3);
        witness.open(3);
        calls.into_iter().for_each(|call| assert!(call.join().unwrap().is_ok()));
        let low = arc::<Witness>();
        let poa = server.root_poa().unwrap().find_poa("borrower", false).unwrap();
        let object: EchoRef = poa.activate_with_priority(low.clone(), 10).unwrap();
        let objects: Vec<_> =
            (0..2).map(|_| far(&Orb::with_config(Config::default()).unwrap(), &object)).collect();
        let calls = sleepers(&objects);
        low.await_inside(2);
        let rt = real_time(&server);
        for run in low.take() {
            assert_eq!((run.priority, &*run.thread), (Some(10), "pool1-10"));
            assert_eq!(run.class, if rt { fifo(10) } else { SchedClass::Other });
        }
        low.open(2);
        calls.into_iter().for_each(|call| assert!(call.join().unwrap().is_ok()));
    }
    server.shutdown(true).unwrap();
}

#[test]
fn without_borrowing_a_lane_waits_for_its_own_threads() {
    let (server, pool, witness, clients) = borrower(false);
    let first = sleepers(&clients[..1]);
    witness.await_inside(1);
    let second = sleepers(&clients[1..2]);
    // The low lane continues to serve, and its threads are not borrowed.
    for _ in 0..10 {
        clients[4].ping().unwrap();
    }
    assert_eq!(witness.inside(), 1);
    assert_eq!(server.rt().threadpool_status(pool).unwrap()[0].running, 0);
    witness.open(2);
    first.into_iter().chain(second).for_each(|call| assert!(call.join().unwrap().is_ok()));
    server.shutdown(true).unwrap();
}

#[test]
fn threads_of_a_lane_share_a_connection() {
    let server = server();
    let pool = server.rt().create_threadpool(lane(0, 3), &ThreadpoolOptions::default()).unwrap();
    let witness = arc::<Witness>();
    let object: EchoRef = poa_of(&server, "shared", pool).activate(witness.clone()).unwrap();
    let mut raw = Raw::connect(object.object());
    // Three requests in one send, which all run at a time; replies come in any order.
    for _ in 0..3 {
        raw.send("_non_existent", &[]);
    }
    for _ in 0..3 {
        assert_eq!(raw.receive().status, 0);
    }
    let client = Orb::with_config(Config { connections_per_server: 1, ..Config::default() }).unwrap();
    let far = far(&client, &object);
    let calls = sleepers(&[far.clone(), far.clone(), far]);
    witness.await_inside(3);
    witness.open(3);
    calls.into_iter().for_each(|call| assert!(call.join().unwrap().is_ok()));
    assert_eq!(server.rt().threadpool_status(pool).unwrap()[0].connections, 2);
    server.shutdown(true).unwrap();
}

#[test]
fn a_servant_that_panics_costs_its_lane_nothing() {
    let server = server();
    let options =
        ThreadpoolOptions { buffering: Some(RequestBuffering::default()), ..ThreadpoolOptions::default() };
    let pool = server.rt().create_threadpool(lane(0, 1), &options).unwrap();
    let (_, clients) = crowd(&server, pool, "panics", 2);
    for _ in 0..5 {
        assert_eq!(clients[0].fail(0).unwrap_err().kind, Kind::Unknown);
        clients[1].ping().unwrap();
    }
    assert_eq!(server.rt().threadpool_status(pool).unwrap()[0].running, 0);
    server.shutdown(true).unwrap();
}
