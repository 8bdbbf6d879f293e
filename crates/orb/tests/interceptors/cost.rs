//! Interceptors that do nothing allocate nothing.

use crate::Idle;
use crate::recorder::*;
use isorb::Config;
use isorb::interceptor::*;
use isorb_rt::alloc_count::allocations_during;
use std::sync::{Arc, Mutex};

#[test]
fn interceptors_that_add_nothing_cost_no_allocation() {
    assert!(allocations_during(|| Box::new(1)) > 0, "the allocator counts");
    for way in WAYS {
        let idle = |name| Arc::new(Idle(name, Arc::default()));
        let bed = Bed::with(
            way,
            Config::default(),
            &mut |info| {
                info.allocate_slot_id();
                Ok(info.add_client_request_interceptor(idle("a"))?)
            },
            &mut |info| {
                info.allocate_slot_id();
                Ok(info.add_server_request_interceptor(idle("a"))?)
            },
        );
        let call = || {
            bed.client.scope(|scope| bed.echo.text_in(scope, "hello").map(str::len)).unwrap();
            bed.echo.feed(&[1, 2, 3]).unwrap();
        };
        (0..50).for_each(|_| call());
        let count = allocations_during(|| (0..100).for_each(|_| call()));
        assert_eq!(count, 0, "{way:?}");
    }
}

/// Counts the allocations of the serving thread between one request and the next.
struct Meter(Mutex<Vec<u64>>);

impl ServerRequestInterceptor for Meter {
    fn receive_request_service_contexts(&self, _: &mut ServerRequestInfo<'_>) -> Result<(), Raised> {
        let mut seen = self.0.lock().unwrap();
        if seen.len() < seen.capacity() {
            seen.push(isorb_rt::alloc_count::thread_allocations());
        }
        Ok(())
    }
}

#[test]
fn a_server_with_interceptors_allocates_nothing_either() {
    let meter = Arc::new(Meter(Mutex::new(Vec::with_capacity(200))));
    let bed = Bed::with(CallPath::Connection, Config::default(), &mut |_| Ok(()), &mut |info| {
        info.allocate_slot_id();
        Ok(info.add_server_request_interceptor(meter.clone())?)
    });
    for _ in 0..200 {
        assert_eq!(bed.echo.text("hello").unwrap(), "hello");
    }
    let seen = meter.0.lock().unwrap();
    assert_eq!(seen[50], seen[199], "allocations of the serving thread after its first requests");
}
