//! Measures the costs of agents on this machine: values of three shapes pass two schedulers and a
//! pair of sockets, as in the dispatching thread.

use crate::admission::Costs;
use crate::agents::{
    Action, AgentScheduler, Mode, PushAgent, PushKey, PushSpec, ReceiveAgent, ReceiveSpec, SchedulerConfig,
};
use crate::coordinator::{Coordinator, MemoryStore};
use crate::idl::{Glob_CommRef, glob_comm};
use crate::memory::{Geometry, Segment, Writer};
use crate::wire::{Channel, HEADER};
use isorb::{Config, Orb, Reference};
use isorb_rt::clock_sync::RoundTrips;
use isorb_rt::time::{now_ns, thread_cpu_ns};
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

/// The measured values of each shape.
const VALUES: usize = 1000;
/// The values before them, which warm the caches.
const FIRST: usize = 50;
/// The percentile that is taken, in a thousand.
const OF_THOUSAND: usize = 990;
/// The result is this multiple of the measurement, because an agent that costs more is contained.
const MARGIN: u64 = 2;
const FRAGMENT: usize = 8192;

/// Measures what agents cost on the calling thread's processor: twice the 99th percentile of the
/// processor time that the dearer end of a push takes, over the loopback interface; of a call of
/// the ORB, of the whole time until its answer.
///
/// It excludes the effects of other interfaces, busy caches and lower clock rates; compare it with
/// `worst_cost_ns` of [`NodeServer::pushes`](super::NodeServer::pushes) under load.
///
/// # Errors
/// When there are no sockets, or no memory, or datagrams do not arrive.
///
/// # Real-time
/// A tool: takes about a second of processor time, and allocates.
pub fn measure_costs() -> io::Result<Costs> {
    // One datagram; many datagrams of the same bytes; many bytes.
    let (small, chosen) = Shape::new(64, 64)?.cost()?;
    let (cut, _) = Shape::new(1024, 64)?.cost()?;
    let (large, _) = Shape::new(64 * 1024, FRAGMENT)?.cost()?;
    let datagram = (cut.saturating_sub(small) / 15).max(1);
    let kib = (large.saturating_sub(small + 7 * datagram) / 63).max(1);
    let push = small.saturating_sub(datagram + kib).max(chosen).max(1);
    let call_ns = Some(MARGIN * call()?);
    Ok(Costs { push_ns: MARGIN * push, datagram_ns: MARGIN * datagram, kib_ns: MARGIN * kib, call_ns })
}

/// The time of a call with an answer over the loopback interface, which has the costs of both ends.
fn call() -> io::Result<u64> {
    let config = || Config { endpoints: vec!["127.0.0.1:0".into()], ..Config::default() };
    let orbs = [Orb::with_config(config()), Orb::with_config(config())];
    let [server, client] = orbs.map(|orb| orb.map_err(io::Error::other));
    let (server, client) = (server?, client?);
    let coordinator =
        Coordinator::start(&server, Arc::new(MemoryStore::default())).map_err(io::Error::other)?;
    let running = {
        let server = server.clone();
        crate::node::spawn("memory-measure", move || server.run()).map_err(io::Error::other)?
    };
    let measured = (|| {
        let reference = coordinator.object().object().to_string();
        let object: Glob_CommRef = client.resolve(&reference).map_err(io::Error::other)?;
        let mut times = Vec::with_capacity(VALUES);
        for round in 0..FIRST + VALUES {
            let begin = now_ns();
            object.alive("cost", 1).or_else(|error| match error {
                glob_comm::AliveError::UnknownNode(_) => Ok(()),
                error => Err(io::Error::other(error)),
            })?;
            if round >= FIRST {
                times.push(now_ns() - begin);
            }
        }
        Ok(most(&mut times).max(1))
    })();
    client.shutdown(true).map_err(io::Error::other)?;
    server.shutdown(true).map_err(io::Error::other)?;
    let _ = running.join();
    measured
}

/// A channel from this node to itself.
struct Shape {
    near: AgentScheduler,
    far: AgentScheduler,
    from: UdpSocket,
    to: UdpSocket,
    writer: Writer,
    key: PushKey,
    value: Vec<u8>,
    datagrams: usize,
}

impl Shape {
    fn new(size: usize, fragment: usize) -> io::Result<Shape> {
        let [from, to] = [UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?];
        to.set_read_timeout(Some(Duration::from_secs(5)))?;
        // No heartbeats during the measurement.
        let heartbeat_ns = u64::MAX >> 2;
        let config =
            SchedulerConfig { pushes: 1, receives: 1, heartbeat_ns, refresh_ns: 0, link_bytes_per_s: 0 };
        let (mut near, mut far) = (AgentScheduler::new(config), AgentScheduler::new(config));
        let geometry = Geometry::new(size, 1).map_err(io::Error::other)?;
        let source = Segment::create("cost-near", geometry).map_err(io::Error::other)?;
        let replica = Segment::create("cost-far", geometry).map_err(io::Error::other)?;
        let id = far.reserve().map_err(io::Error::other)?;
        let channel = Channel { id, epoch: 1, token: 1, size, fragment, parity: 0 };
        let receive = ReceiveAgent::new(ReceiveSpec {
            channel,
            peer: from.local_addr()?,
            target: replica.writer().map_err(io::Error::other)?,
            fresh_ns: None,
            silence_ns: u64::MAX,
            second: None,
            deadline_ns: None,
            clock: RoundTrips::default(),
        });
        far.add_receive(receive.map_err(io::Error::other)?, now_ns()).map_err(io::Error::other)?;
        let push = PushAgent::new(PushSpec {
            channel,
            to: to.local_addr()?,
            second: None,
            source: source.reader().map_err(io::Error::other)?,
            mode: Mode::OnWrite,
            guarantee: None,
            rate: 0,
            burst: 0,
        });
        let key = near.add_push(push.map_err(io::Error::other)?, now_ns()).map_err(io::Error::other)?;
        let writer = source.writer().map_err(io::Error::other)?;
        let datagrams = channel.datagrams(size);
        Ok(Shape { near, far, from, to, writer, key, value: vec![0x5a; size], datagrams })
    }

    /// Processor time of the dearer end for a value, and of checks without a value.
    fn cost(mut self) -> io::Result<(u64, u64)> {
        let [mut pushed, mut received, mut chosen] = [(); 3].map(|()| Vec::with_capacity(VALUES));
        let mut buffer = vec![0; HEADER + FRAGMENT];
        for round in 0..FIRST + VALUES {
            self.writer.write(&self.value).map_err(io::Error::other)?;
            let push = self.push(&mut buffer)?;
            let receive = self.receive(&mut buffer)?;
            let look = self.look(&mut buffer)?;
            if round >= FIRST {
                pushed.push(push);
                received.push(receive);
                chosen.push(look);
            }
        }
        Ok((most(&mut pushed).max(most(&mut received)), most(&mut chosen)))
    }

    fn push(&mut self, out: &mut [u8]) -> io::Result<u64> {
        let begin = thread_cpu_ns();
        let _ = self.near.written_to(self.key, now_ns());
        for _ in 0..self.datagrams {
            let before = thread_cpu_ns();
            let Action::Send { to, len, push, .. } = self.near.next_action(now_ns(), out) else {
                return Err(io::Error::other("the push agent has nothing to send"));
            };
            self.from.send_to(&out[..len], to)?;
            self.near.charge(push, thread_cpu_ns() - before);
        }
        Ok(thread_cpu_ns() - begin)
    }

    fn look(&mut self, out: &mut [u8]) -> io::Result<u64> {
        let begin = thread_cpu_ns();
        let found = self.near.written_to(self.key, now_ns());
        let idle = matches!(self.near.next_action(now_ns(), out), Action::Idle { .. });
        match idle && !found {
            true => Ok(thread_cpu_ns() - begin),
            false => Err(io::Error::other("the push agent has something left to send")),
        }
    }

    fn receive(&mut self, input: &mut [u8]) -> io::Result<u64> {
        let begin = thread_cpu_ns();
        for _ in 0..self.datagrams {
            let (len, from) = self.to.recv_from(input)?;
            let _ = self.far.received(from, &input[..len], now_ns());
        }
        Ok(thread_cpu_ns() - begin)
    }
}

fn most(costs: &mut [u64]) -> u64 {
    costs.sort_unstable();
    costs.get(costs.len() * OF_THOUSAND / 1000).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::{ChannelRequest, MAX_COST, NodeAdmission, NodeConfig};

    #[test]
    fn measured_costs_are_those_of_a_machine_and_admission_goes_by_them() {
        let costs = measure_costs().unwrap();
        let Costs { push_ns, datagram_ns, kib_ns, call_ns } = costs;
        // A system call and a copy take some time, and no machine takes a millisecond of processor
        // time for one.
        assert!((100..2_000_000).contains(&datagram_ns), "{costs}");
        assert!(kib_ns < 1_000_000 && (50..4_000_000).contains(&push_ns), "{costs}");
        assert!(call_ns.is_some_and(|ns| ns > datagram_ns / 4), "a call has two datagrams and more: {costs}");
        let channel = Channel { id: 1, epoch: 1, token: 1, size: 8192, fragment: 1024, parity: 0 };
        let request = ChannelRequest { period_ns: 1_000_000_000, deadline_ns: 900_000_000 };
        let admits = |costs| {
            let config = NodeConfig { costs, ..NodeConfig::default() };
            NodeAdmission::new(&config).admit_push("measured", &channel, request).is_ok()
        };
        assert!(admits(costs), "{costs}");
        assert!(!admits(Costs { push_ns: MAX_COST, datagram_ns: MAX_COST, kib_ns: MAX_COST, call_ns }));
        let dearer = Costs { datagram_ns: 100_000_000, ..costs };
        assert!(!admits(dearer), "eight datagrams of 100 ms do not go in an eighth of 900 ms");
    }
}
