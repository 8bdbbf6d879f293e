//! Consumers that ask for combinations of events: by type and source, both of two, or silence.
#![forbid(unsafe_code)]

use isorb_event::{Channel, ConsumerQos, Event, Filter, VirtualClock};
use std::sync::Arc;
use std::time::Duration;

const POSITION: i32 = 16; // types of the application begin at 16
const SPEED: i32 = 17;
const GPS: i32 = 1;
const INERTIAL: i32 = 2;

/// Prints what one consumer receives.
fn printing(name: &'static str) -> Arc<impl Fn(&[Event<'_>]) + Send + Sync> {
    Arc::new(move |events: &[Event<'_>]| {
        let list: Vec<_> =
            events.iter().map(|event| (event.header.event_type, event.header.source)).collect();
        println!("{name}: {list:?}");
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A clock of our own, so that the output is the same every time.
    let clock = Arc::new(VirtualClock::new());
    let channel = Channel::builder().own_threads(false).clock(Arc::new(clock.clone())).build()?;
    let consumers = channel.for_consumers();

    // Events of one type from one source.
    let exact = Filter::of(POSITION, GPS);
    let _exact = consumers.connect(printing("position of the GPS"), ConsumerQos::new("exact", exact))?;

    // All but one source.
    let others = Filter::Not(Box::new(Filter::from_source(GPS)));
    let _others = consumers.connect(printing("not from the GPS"), ConsumerQos::new("others", others))?;

    // Both readings in one push; or nothing for 40 ms, as a time-out.
    let both = Filter::any_of([
        Filter::all_of([Filter::of(POSITION, GPS), Filter::of(SPEED, INERTIAL)]),
        Filter::deadline(Duration::from_millis(40)),
    ]);
    let _both = consumers.connect(printing("both or silence"), ConsumerQos::new("both", both))?;

    let supplier = channel.for_suppliers().connect()?;
    println!("push a position");
    supplier.push(&Event::new(POSITION, GPS));
    println!("push a speed");
    supplier.push(&Event::new(SPEED, INERTIAL));
    println!("wait 41 ms");
    clock.advance(41_000_000);
    channel.expire();
    Ok(())
}
