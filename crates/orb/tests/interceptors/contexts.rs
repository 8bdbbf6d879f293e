//! Service contexts that interceptors add to requests and replies.

use crate::FIRST;
use crate::recorder::*;
use isorb::interceptor::*;
use isorb::{Completion, Config, Kind, SystemException, minor};
use std::sync::{Arc, Mutex};

/// Adds contexts of given lengths to requests or replies, and records the received ones.
struct Contexts {
    lengths: Vec<usize>,
    found: Arc<Mutex<Vec<Vec<u8>>>>,
}

fn octets(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i * 7) as u8).collect()
}

impl Contexts {
    fn find<'c>(&self, get: impl Fn(u32) -> isorb::Result<&'c [u8]>) {
        assert_eq!(get(1).unwrap_err().minor, minor::BAD_PARAM_CONTEXT_ID);
        let found = (0..self.lengths.len() as u32).map_while(|i| get(FIRST + i).ok().map(<[u8]>::to_vec));
        *self.found.lock().unwrap() = found.collect();
    }
}

impl ClientRequestInterceptor for Contexts {
    fn send_request(&self, info: &mut ClientRequestInfo<'_>) -> Result<(), Raised> {
        for (i, n) in self.lengths.iter().enumerate() {
            let id = FIRST + i as u32;
            info.add_request_service_context(id, b"to be replaced", false)?;
            let twice = info.add_request_service_context(id, &[], false).unwrap_err();
            assert_eq!(twice.minor, minor::BAD_INV_ORDER_CONTEXT_EXISTS);
            info.add_request_service_context(id, &octets(*n), true)?;
            assert_eq!(info.request_service_context(id)?, octets(*n));
        }
        assert!(info.reply_service_context(FIRST).is_err());
        Ok(())
    }
    fn receive_reply(&self, info: &ClientRequestInfo<'_>) -> isorb::Result<()> {
        self.find(|id| info.reply_service_context(id));
        Ok(())
    }
    fn receive_exception(&self, info: &ClientRequestInfo<'_>) -> Result<(), Raised> {
        self.find(|id| info.reply_service_context(id));
        Ok(())
    }
}

impl ServerRequestInterceptor for Contexts {
    fn receive_request_service_contexts(&self, info: &mut ServerRequestInfo<'_>) -> Result<(), Raised> {
        let found = (0..).map_while(|i| info.request_service_context(FIRST + i).ok().map(<[u8]>::to_vec));
        *self.found.lock().unwrap() = found.collect();
        if let Some(n) = self.lengths.first() {
            info.add_reply_service_context(FIRST, &octets(*n), false)?;
        }
        Ok(())
    }
    fn send_reply(&self, info: &mut ServerRequestInfo<'_>) -> isorb::Result<()> {
        for (i, n) in self.lengths.iter().enumerate().skip(1) {
            info.add_reply_service_context(FIRST + i as u32, &octets(*n), false)?;
        }
        Ok(())
    }
    fn send_exception(&self, info: &mut ServerRequestInfo<'_>) -> Result<(), Raised> {
        Ok(self.send_reply(info)?)
    }
}

#[test]
fn contexts_travel_both_ways_and_leave_values_where_they_belong() {
    for way in WAYS {
        for giop in ["1.0", "1.1", "1.2"] {
            for lengths in [vec![], vec![0], vec![4], vec![5, 1], vec![8, 3, 70_000], vec![12, 12]] {
                let config = Config { giop: giop.into(), ..Config::default() };
                let (to_server, to_client) = (Arc::default(), Arc::default());
                let make = |found: &Arc<_>| {
                    Arc::new(Contexts { lengths: lengths.clone(), found: Arc::clone(found) })
                };
                let bed = Bed::with(
                    way,
                    config,
                    &mut |info| Ok(info.add_client_request_interceptor(make(&to_client))?),
                    &mut |info| Ok(info.add_server_request_interceptor(make(&to_server))?),
                );
                let sent: Vec<_> = lengths.iter().map(|n| octets(*n)).collect();
                let check = || {
                    assert_eq!(*to_server.lock().unwrap(), sent, "{way:?} {giop}");
                    assert_eq!(*to_client.lock().unwrap(), sent, "{way:?} {giop}");
                    to_server.lock().unwrap().clear();
                    to_client.lock().unwrap().clear();
                };
                for n in [0, 1, 1000, 100_000] {
                    let numbers: Vec<f64> = (0..n).map(f64::from).collect();
                    let same = bed.client.scope(|scope| {
                        Ok::<_, SystemException>(bed.echo.numbers_in(scope, &numbers)? == numbers)
                    });
                    assert!(same.unwrap(), "{way:?} {giop} {lengths:?} {n}");
                    check();
                }
                bed.echo.ping().unwrap();
                check();
                assert_eq!(bed.echo.fail(3).unwrap_err().minor, 3);
                check();
                assert_eq!(&*bed.deny().unwrap_err().detail.unwrap(), "IDL:Test/Denied:1.0");
                check();
            }
        }
    }
}

#[test]
fn contexts_that_make_a_reply_too_large_are_refused() {
    let found = Arc::default();
    let big = Arc::new(Contexts { lengths: vec![300_000], found });
    let config = Config { message_limit: 400_000, ..Config::default() };
    let bed = Bed::with(CallPath::Connection, config, &mut |_| Ok(()), &mut |info| {
        Ok(info.add_server_request_interceptor(big.clone())?)
    });
    let numbers = vec![1.0; 20_000];
    let refused = bed.client.scope(|scope| bed.echo.numbers_in(scope, &numbers).map(drop)).unwrap_err();
    assert_eq!((refused.kind, refused.completed), (Kind::ImpLimit, Completion::Yes));
    bed.echo.ping().unwrap();
}
