//! A federated channel with suppliers and consumers of its own, which do work for each event.
//!
//! The order `supply START MS` starts the suppliers at a point of the clock; `take` waits for their
//! end.

use std::io;
use std::time::Duration;

use isorb_event::Strategy;
use isorb_event::federation::Federation;
use isorb_event::servants::{FederationServant, LinkOptions};

use super::{answer_orders, by_connection, failed, orb};
use crate::experiments::pairs::{Consumers, Pair, supply_from};
use crate::protocol::ready;

/// This channel's number in the federation.
const ID: u64 = 2;
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(clap::Args, Debug)]
pub struct FederatedArgs {
    /// The neighbour's reference
    neighbour: String,
    /// Suppliers and their consumers: HZ:WORK:PRIORITY
    #[arg(long = "pair", required = true, value_parser = pair)]
    pairs: Vec<Pair>,
    /// Where the consumers run
    #[arg(long)]
    cpu: usize,
    /// They are of a real-time class
    #[arg(long)]
    real_time: bool,
    /// All by one thread, one after the other
    #[arg(long)]
    single_threaded: bool,
}

fn pair(text: &str) -> Result<Pair, String> {
    let mut words = text.split(':');
    let mut number = || words.next().and_then(|word| word.parse::<i32>().ok());
    let parsed = (|| {
        let hz = u32::try_from(number()?).ok().filter(|&hz| hz > 0)?;
        Some(Pair { hz, work: number()?, priority: i16::try_from(number()?).ok()? })
    })();
    parsed.filter(|_| words.next().is_none()).ok_or_else(|| "HZ:WORK:PRIORITY is wanted".to_owned())
}

pub(super) fn run(args: &FederatedArgs) -> io::Result<()> {
    let orb = orb(by_connection())?;
    let strategy = match args.single_threaded {
        true => Strategy::SingleThreaded,
        false => Strategy::Threads { per_level: 1 },
    };
    let consumers =
        Consumers::connect(ID, args.cpu, args.real_time, strategy, &args.pairs, 0).map_err(failed)?;
    let federation = Federation::builder(&consumers.channel).build().map_err(failed)?;
    let neighbourhood =
        FederationServant::start(&orb, &federation, LinkOptions::new(TIMEOUT)).map_err(failed)?;
    let neighbour = orb.string_to_object(&args.neighbour).map_err(failed)?;
    neighbourhood.join(&neighbour).map_err(failed)?;
    ready("")?;
    let mut supplying = None;
    answer_orders(|order| {
        let mut words = order.split(' ');
        let mut number = || words.next()?.parse::<u64>().ok();
        match order.split_once(' ') {
            Some(("supply", _)) => {
                let (_, start, ms) = (number(), number()?, u32::try_from(number()?).ok()?);
                let (channel, pairs, site) =
                    (consumers.channel.clone(), args.pairs.clone(), (args.cpu, args.real_time));
                supplying = Some(std::thread::spawn(move || supply_from(start, site, &channel, &pairs, ms)));
                Some(Vec::new())
            }
            _ => {
                supplying.take()?.join().ok()?.ok()?;
                Some(consumers.take())
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read() {
        let Pair { hz, work, priority } = pair("40:1000:20000").unwrap();
        assert_eq!((hz, work, priority), (40, 1000, 20_000));
        for bad in ["", "40", "40:1", "0:1:1", "40:1:99999", "40:1:1:1", "a:1:1"] {
            assert!(pair(bad).is_err(), "{bad}");
        }
    }
}
