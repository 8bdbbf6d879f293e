//! The other processes of event channels, and bare programs with the same hops and no channel.
//!
//! They speak as [`protocol`](crate::protocol) says, but for the orders. A supplier gets `events
//! WARM N GAP`: it pushes WARM events that are not measured and N that are timed, from the push to
//! the consumer, sleeps for GAP microseconds before each of these, and answers `samples N` and
//! the N times. A consumer gets `take`, and answers with such a list for each of its consumers.

mod channel;
mod consumers;
mod federated;
mod late_joiner;
mod raw;
mod supplier_consumer;

use std::fmt::Display;
use std::io::{self, BufRead, ErrorKind, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use clap::Subcommand;
use isorb::{Config, Orb};
use isorb_rt::priority::{Priority, PriorityMapping};
use isorb_rt::sync::Parker;
use isorb_rt::time::{Deadline, now_ns};

use crate::protocol::{ready, write_samples};

/// Octets of an event's payload; the time stamp comes first.
const PAYLOAD: usize = 64;
/// An event that takes longer is lost.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The programs.
#[derive(Subcommand, Debug)]
pub enum EventPeer {
    /// An event channel with TAO's interfaces
    Channel(channel::ChannelArgs),
    /// A supplier and a consumer of such a channel
    SupplierConsumer {
        /// The channel's reference
        channel: String,
    },
    /// Passes on what comes, without a channel
    RawChannel {
        /// By way of another such program, at this address
        #[arg(long)]
        through: Option<String>,
    },
    /// Its supplier and consumer
    RawSupplierConsumer {
        /// The address
        address: String,
    },
    /// Consumers that only record the age of events
    Consumers(consumers::ConsumersArgs),
    /// A consumer that reads the history, as often as it is told
    LateJoiner {
        /// The channel's reference
        channel: String,
        /// The events of the history
        kept: u64,
    },
    /// A channel that joins another, and its consumers, which work
    Federated(federated::FederatedArgs),
}

impl EventPeer {
    /// Is that program, until standard input ends.
    pub fn run(&self) -> io::Result<()> {
        match self {
            EventPeer::Channel(args) => channel::serve(args),
            EventPeer::SupplierConsumer { channel } => supplier_consumer::run(channel),
            EventPeer::RawChannel { through } => raw::serve(through.as_deref()),
            EventPeer::RawSupplierConsumer { address } => raw::supplier_consumer(address),
            EventPeer::Consumers(args) => consumers::run(args),
            EventPeer::LateJoiner { channel, kept } => late_joiner::run(channel, *kept),
            EventPeer::Federated(args) => federated::run(args),
        }
    }
}

/// Every thread of a channel at one native priority.
pub struct OneLevel(pub u8);

impl PriorityMapping for OneLevel {
    fn to_native(&self, _: Priority) -> Option<u8> {
        Some(self.0)
    }

    fn to_corba(&self, _: u8) -> Option<Priority> {
        None
    }
}

/// An ORB that serves, with these arguments.
fn orb(arguments: impl IntoIterator<Item = String>) -> io::Result<Orb> {
    let (config, _) = Config::from_args(arguments).map_err(failed)?;
    let orb = Orb::with_config(config).map_err(failed)?;
    orb.root_poa().map_err(failed)?.manager().activate().map_err(failed)?;
    Ok(orb)
}

/// A thread for each connection.
fn by_connection() -> [String; 2] {
    ["-ORBConcurrency", "connection"].map(String::from)
}

fn failed(error: impl Display) -> io::Error {
    io::Error::other(error.to_string())
}

/// Answers a harness's `take`: the lists of samples that there are, one after the other.
fn answer(lists: &[Vec<u64>]) -> io::Result<()> {
    let mut output = io::stdout().lock();
    lists.iter().try_for_each(|list| write_samples(&mut output, list))?;
    output.flush()
}

/// Answers each order of the harness by the lists that `obey` returns; `None` is no such order.
fn answer_orders(mut obey: impl FnMut(&str) -> Option<Vec<Vec<u64>>>) -> io::Result<()> {
    for line in io::stdin().lock().lines() {
        answer(&obey(&line?).ok_or(ErrorKind::InvalidData)?)?;
    }
    Ok(())
}

/// The one event that is on its way, between the thread that pushes and the one that receives.
#[derive(Default)]
struct InFlight {
    age: AtomicU64,
    arrived: Parker,
}

impl InFlight {
    /// For the consumer: an event came, with this at its beginning.
    fn arrive(&self, octets: &[u8]) {
        let stamp = octets.first_chunk().map_or(0, |&stamp| u64::from_ne_bytes(stamp));
        self.age.store(now_ns().saturating_sub(stamp), Relaxed);
        self.arrived.unpark();
    }

    /// Obeys the harness: `push` is given the octets of an event.
    fn obey(&self, mut push: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut one = || {
            let mut octets = [0; PAYLOAD];
            octets[..8].copy_from_slice(&now_ns().to_ne_bytes());
            push(&octets)?;
            if self.arrived.park_until(Deadline::after(TIMEOUT)) {
                Ok(self.age.load(Relaxed))
            } else {
                Err(io::Error::new(ErrorKind::TimedOut, "an event was lost"))
            }
        };
        ready("")?;
        for line in io::stdin().lock().lines() {
            let [warm, count, gap_us] = order(&line?).ok_or(ErrorKind::InvalidData)?;
            (0..warm).try_for_each(|_| one().map(drop))?;
            let timed = |_| {
                if gap_us > 0 {
                    std::thread::sleep(Duration::from_micros(gap_us as u64));
                }
                one()
            };
            let samples = (0..count).map(timed).collect::<io::Result<Vec<u64>>>()?;
            answer(&[samples])?;
        }
        Ok(())
    }
}

fn order(line: &str) -> Option<[usize; 3]> {
    let words = line.strip_prefix("events ")?.split(' ');
    words.map(|word| word.parse().ok()).collect::<Option<Vec<usize>>>()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders() {
        assert_eq!(order("events 20 300 0"), Some([20, 300, 0]));
        for bad in ["", "events", "events 1 2", "events 1 2 3 4", "events -1 2 0", "block 1 2 0"] {
            assert_eq!(order(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_event_that_arrives_has_an_age() {
        let flight = InFlight::default();
        flight.arrive(&(now_ns() - 5_000).to_ne_bytes());
        assert!(flight.arrived.park_until(Deadline::PAST));
        assert!((5_000..60_000_000_000).contains(&flight.age.load(Relaxed)));
    }
}
