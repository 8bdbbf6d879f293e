//! An event channel as a process.

use std::io;
use std::sync::Arc;

use isorb_event::servants::{EventServiceOptions, RtecEventService};
use isorb_event::{Channel, Event, HistoryQos, ThreadSetup};
use isorb_rt::priority::PriorityMapping;
use isorb_rt::sched::SchedClass;

use super::supplier_consumer::{SOURCE, TYPE};
use super::{OneLevel, PAYLOAD, failed, orb};
use crate::protocol::{exit_at_end_of_input, ready};

#[derive(clap::Args, Debug)]
pub struct ChannelArgs {
    /// Threads that push to consumers; 0 pushes on the thread that reads from the supplier
    #[arg(long, default_value_t = 0)]
    push_threads: usize,
    /// So many events of 64 octets are there already, in the history
    #[arg(long, default_value_t = 0)]
    keep: usize,
    /// A trace is kept
    #[arg(long)]
    trace: bool,
    /// The ORB's arguments
    #[arg(last = true)]
    orb: Vec<String>,
}

pub(super) fn serve(args: &ChannelArgs) -> io::Result<()> {
    let orb = orb(args.orb.iter().cloned())?;
    let history = HistoryQos { streams: 1, payload: PAYLOAD, ..HistoryQos::keep_last(args.keep) };
    let channel = Channel::builder().trace(args.trace).history(history).build().map_err(failed)?;
    if args.keep > 0 {
        let supplier = channel.for_suppliers().connect().map_err(failed)?;
        let event = Event::new(TYPE, SOURCE).octets(&[7; PAYLOAD]);
        for _ in 0..args.keep {
            supplier.push(&event);
        }
    }
    let native = SchedClass::current().ok().and_then(SchedClass::native_priority);
    let mapping = native.map(|native| Arc::new(OneLevel(native)) as Arc<dyn PriorityMapping>);
    let setup = ThreadSetup { mapping, ..ThreadSetup::default() };
    let options = EventServiceOptions {
        threads: args.push_threads,
        setup,
        ping: None,
        ..EventServiceOptions::default()
    };
    let face = RtecEventService::start(&orb, &channel, options).map_err(failed)?;
    exit_at_end_of_input();
    ready(face.object())?;
    orb.run();
    Ok(())
}
