//! Where a call's time goes: client and server stamp their ends of it, by the clock that they
//! share.
//!
//! ```text
//!   client  begun ─ arguments written ─┐                                     ┌─ results in hand ─ ended
//!                     client-send      │ to-server                 to-client │     client-receive
//!   server                             └─ received ─ begun ─ ended ─ replied ┘
//!                                     server-before  upcall   server-after
//! ```
//!
//! The client's stamps are taken where a stub writes arguments and reads results, the server's by
//! an interceptor and by the servant. The server cannot tell in a reply when it sent that same
//! reply, so it says it in the next one. What lies between the last stamp of one side and the first
//! of the other, `to-server` and `to-client`, is the system calls, the kernel, the network, and
//! waiting for the thread that reads: a lane that is background with another request leaves this
//! one in the socket. A raw socket, stamped at the same places, says how much of it is not the
//! ORB's.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use isorb::generated::{Encode, Operation};
use isorb::interceptor::{Raised, ServerRequestInfo, ServerRequestInterceptor};
use isorb::{Orb, Reference, Result, Upcall};
use isorb_rt::time::now_ns;

use super::client::MAX_SAMPLES;
use crate::load::work;
use crate::stats::Samples;
use crate::subjects::isorb::generated::bench::{Layered, LayeredRef, MessageView, Stamps};

/// The parts of a call through the ORB, in their order.
pub const ORB: [&str; 7] =
    ["client-send", "to-server", "server-before", "upcall", "server-after", "to-client", "client-receive"];
/// Those of a raw socket.
pub const RAW: [&str; 3] = ["raw-to-server", "raw-server", "raw-to-client"];

const OPERATION: &str = "timed";
static TIMED: Operation = Operation { name: OPERATION, oneway: false };

/// The times between stamps that follow each other. Clocks of two processors may differ by less
/// than can be measured; never below zero.
pub(super) fn parts<const STAMPS: usize>(stamps: [u64; STAMPS]) -> impl Iterator<Item = u64> {
    (1..STAMPS).map(move |i| stamps[i].saturating_sub(stamps[i - 1]))
}

/// Each of the parts `names` with its distribution; `parts` has those of one call after those of
/// another.
pub fn distributions(names: &'static [&'static str], parts: &[u64]) -> Vec<(&'static str, Samples)> {
    let of = |(i, &name)| {
        let mut samples = Samples::new();
        samples.extend(parts.iter().skip(i).step_by(names.len()).copied());
        (name, samples)
    };
    names.iter().enumerate().map(of).collect()
}

/// When the server received the current call, and when it last replied.
#[derive(Default)]
pub(super) struct ServerTimes {
    received: AtomicU64,
    replied: AtomicU64,
}

/// Runs first of all when a request has been read, and last before a reply is sent.
pub(super) struct Stamper(pub Arc<ServerTimes>);

impl ServerRequestInterceptor for Stamper {
    fn receive_request_service_contexts(
        &self,
        info: &mut ServerRequestInfo<'_>,
    ) -> std::result::Result<(), Raised> {
        if info.operation() == OPERATION {
            self.0.received.store(now_ns(), Ordering::Relaxed);
        }
        Ok(())
    }

    fn send_reply(&self, info: &mut ServerRequestInfo<'_>) -> Result<()> {
        if info.operation() == OPERATION {
            self.0.replied.store(now_ns(), Ordering::Relaxed);
        }
        Ok(())
    }
}

/// The servant.
pub(super) struct Timed(pub Arc<ServerTimes>);

impl Layered for Timed {
    fn timed<'u>(&'u self, _: Upcall<'u>, m: &mut MessageView<'u>) -> Result<Stamps> {
        let begun = now_ns();
        work(m.work);
        Ok(Stamps {
            received: self.0.received.load(Ordering::Relaxed),
            begun,
            replied_before: self.0.replied.load(Ordering::Relaxed),
            ended: now_ns(),
        })
    }
}

/// An ORB with the interceptor, and the servant that belongs to it.
pub(super) fn server(config: isorb::Config) -> Result<(Orb, Timed)> {
    let seen = Arc::new(ServerTimes::default());
    let stamper = Arc::new(Stamper(seen.clone()));
    let orb = Orb::builder()
        .config(config)
        .register(|info| Ok(info.add_server_request_interceptor(stamper)?))
        .build()?;
    Ok((orb, Timed(seen)))
}

/// The client: one thread that has one call on its way at a time.
pub(super) struct Caller<'a> {
    orb: &'a Orb,
    target: &'a LayeredRef,
    /// The previous call; its time of reply is not known yet.
    before: Option<Call>,
    /// Of the calls before that, one after another; of very many, those that came first.
    parts: Vec<u64>,
}

struct Call {
    begun: u64,
    written: u64,
    served: Stamps,
    read: u64,
    ended: u64,
}

impl<'a> Caller<'a> {
    pub fn new(orb: &'a Orb, target: &'a LayeredRef) -> Caller<'a> {
        Caller { orb, target, before: None, parts: Vec::new() }
    }

    /// A call that does not count.
    pub fn warm_up(&mut self) -> Result<()> {
        self.call(0, &[])?;
        self.before = None;
        Ok(())
    }

    /// The parts of all calls; asks for the last one's with a call that does not count.
    pub fn finish(mut self) -> Result<Vec<u64>> {
        self.call(0, &[])?;
        Ok(self.parts)
    }

    /// One call.
    pub fn call(&mut self, work: i32, payload: &[u8]) -> Result<()> {
        let written = Cell::new(0);
        let begun = now_ns();
        let (served, read) = self.orb.scope(|scope| {
            let reply = self.target.object().invoke(&TIMED, scope, &|e| {
                Encode::encode(MessageView { work, payload }, e);
                written.set(now_ns());
            })?;
            let read = now_ns();
            let (served, _): (Stamps, MessageView<'_>) = reply.results(|d| Ok((d.read()?, d.read()?)))?;
            Ok::<_, isorb::SystemException>((served, read))
        })?;
        let ended = now_ns();
        let replied = served.replied_before;
        let call = Call { begun, written: written.get(), served, read, ended };
        if let Some(before) = self.before.replace(call)
            && self.parts.len() < MAX_SAMPLES * ORB.len()
        {
            self.parts.extend(before.parts(replied));
        }
        Ok(())
    }
}

impl Call {
    fn parts(self, replied: u64) -> impl Iterator<Item = u64> {
        let Call { begun, written, served: s, read, ended } = self;
        parts([begun, written, s.received, s.begun, s.ended, replied, read, ended])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isorb::Config;
    use isorb::poa::PoaPolicies;

    #[test]
    fn parts_belong_to_their_names() {
        assert_eq!(parts([10, 11, 13, 12]).collect::<Vec<_>>(), [1, 2, 0]);
        let found = distributions(&RAW, &[1, 2, 3, 5, 6, 7]);
        let means: Vec<_> = found.iter().map(|(name, of)| (*name, of.summary().mean_ns)).collect();
        assert_eq!(means, [("raw-to-server", 3.0), ("raw-server", 4.0), ("raw-to-client", 5.0)]);
    }

    #[test]
    fn a_call_is_the_sum_of_its_parts() {
        let (orb, servant) = server(Config::default()).unwrap();
        let poa = orb.root_poa().unwrap().create_poa("timed", None, PoaPolicies::new()).unwrap();
        let there: LayeredRef = poa.activate(Arc::new(servant)).unwrap();
        poa.manager().activate().unwrap();
        let client = Orb::with_config(Config::default()).unwrap();
        let target: LayeredRef = client.resolve(&there.object().to_string()).unwrap();
        let mut caller = Caller::new(&client, &target);
        caller.warm_up().unwrap();
        let begun = now_ns();
        for payload in [0, 100, 10_000] {
            caller.call(50, &vec![1; payload]).unwrap();
        }
        let parts = caller.finish().unwrap();
        let all = now_ns() - begun;
        assert_eq!(parts.len(), 3 * ORB.len());
        assert!(parts.iter().sum::<u64>() <= all);
        let work = ORB.iter().position(|&name| name == "upcall").unwrap();
        for call in parts.chunks(ORB.len()) {
            assert!(call[work] > 0 && call.iter().all(|&part| part < all), "{call:?}");
        }
        orb.shutdown(true).unwrap();
    }
}
