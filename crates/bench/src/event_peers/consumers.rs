//! Consumers of a remote channel that only note how old the events are that come.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use isorb::{Result, Upcall};
use isorb_event::servants::stamped::rtec_event_channel_admin::EventChannelRef;
use isorb_event::servants::stamped::rtec_event_comm::{EventSetView, PushConsumer};
use isorb_rt::time::now_ns;

use super::{answer_orders, by_connection, failed, orb, supplier_consumer};
use crate::protocol::ready;

#[derive(clap::Args, Debug)]
pub struct ConsumersArgs {
    /// The channel's reference
    channel: String,
    /// How many
    #[arg(long)]
    count: usize,
}

pub(super) fn run(args: &ConsumersArgs) -> io::Result<()> {
    let orb = orb(by_connection())?;
    let channel: EventChannelRef = orb.resolve(&args.channel).map_err(failed)?;
    let recorders: Vec<Arc<AgeRecorder>> = (0..args.count).map(|_| Arc::default()).collect();
    for recorder in &recorders {
        supplier_consumer::connect(&orb, &channel, recorder.clone())?;
    }
    ready("")?;
    // The first consumer's, and the last one's.
    answer_orders(|order| {
        let take = |recorder: &Arc<AgeRecorder>| {
            std::mem::take(&mut *recorder.0.lock().unwrap_or_else(PoisonError::into_inner))
        };
        let lists: Vec<Vec<u64>> = recorders.iter().map(take).collect();
        let ends = [lists.first(), lists.last()].into_iter().flatten().cloned().collect();
        (order == "take").then_some(ends)
    })
}

/// The ages of what it saw, in nanoseconds.
#[derive(Default)]
struct AgeRecorder(Mutex<Vec<u64>>);

impl PushConsumer for AgeRecorder {
    fn push(&self, _: Upcall<'_>, events: EventSetView<'_>) -> Result<()> {
        let now = now_ns();
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for event in events {
            let stamp = event.data.payload.first_chunk().map_or(0, |&stamp| u64::from_ne_bytes(stamp));
            seen.push(now.saturating_sub(stamp));
        }
        Ok(())
    }

    fn disconnect_push_consumer(&self, _: Upcall<'_>) -> Result<()> {
        Ok(())
    }
}
