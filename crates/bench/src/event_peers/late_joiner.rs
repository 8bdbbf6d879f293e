//! A consumer that connects after the events, and reads them from the channel's history.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use isorb_event::remote::{RemoteChannel, RemoteQos};
use isorb_event::{Filter, HistoryRequest};
use isorb_rt::sync::Parker;
use isorb_rt::time::{Deadline, now_ns};

use super::supplier_consumer::{SOURCE, TYPE};
use super::{TIMEOUT, answer_orders, by_connection, failed, orb};
use crate::protocol::ready;

/// Obeys `join`: connects, and answers the nanoseconds for each of `kept` events.
pub(super) fn run(channel: &str, kept: u64) -> io::Result<()> {
    let orb = orb(by_connection())?;
    let channel = RemoteChannel::connect(&orb, channel).map_err(failed)?;
    ready("")?;
    answer_orders(|order| {
        let join = || -> Option<u64> {
            let arrived = Arc::new((AtomicU64::new(0), Parker::new()));
            let counting = arrived.clone();
            let qos = RemoteQos::history(HistoryRequest::last(usize::try_from(kept).ok()?));
            let begin = now_ns();
            let count = move |_: &isorb_event::Event<'_>| {
                if counting.0.fetch_add(1, Relaxed) + 1 == kept {
                    counting.1.unpark();
                }
            };
            let consumer = channel.consume_with(qos, Filter::of(TYPE, SOURCE), count).ok()?;
            let all = arrived.1.park_until(Deadline::after(TIMEOUT));
            let took = now_ns() - begin;
            drop(consumer);
            all.then_some(took / kept.max(1))
        };
        (order == "join").then(|| join().map(|each| vec![vec![each]])).flatten()
    })
}
