//! Two event channels that act as one: an event crosses the link only if a consumer there wants it.
#![forbid(unsafe_code)]

use isorb::Orb;
use isorb_event::federation::Federation;
use isorb_event::servants::{FederationServant, LinkOptions};
use isorb_event::{Channel, ConsumerQos, Event, Filter};
use std::error::Error;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

const TARGET: i32 = 16;
const HEALTH: i32 = 17;
const RADAR: i32 = 1;

/// A channel with an ORB and a link to others.
struct Member {
    orb: Orb,
    channel: Channel,
    federation: Federation,
    servant: FederationServant,
}

/// Starts a member. `id` is its number in the federation.
fn member(id: u64) -> Result<Member, Box<dyn Error>> {
    let orb = Orb::builder().build()?;
    orb.root_poa()?.manager().activate()?;
    let channel = Channel::builder().id(id).build()?;
    let federation = Federation::builder(&channel).build()?;
    let servant = FederationServant::start(&orb, &federation, LinkOptions::new(Duration::from_secs(5)))?;
    Ok(Member { orb, channel, federation, servant })
}

fn main() -> Result<(), Box<dyn Error>> {
    let (cockpit, pod) = (member(1)?, member(2)?);

    // A consumer at the cockpit wants targets of the radar.
    let (sender, received) = channel();
    let consumer = move |events: &[Event<'_>]| {
        for event in events {
            let _ = sender.send(String::from_utf8_lossy(event.data.octets).into_owned());
        }
    };
    let wants = ConsumerQos::new("display", Filter::of(TARGET, RADAR));
    let _connected = cockpit.channel.for_consumers().connect(Arc::new(consumer), wants)?;

    // The pod joins the cockpit by its reference.
    let url = cockpit.servant.object().to_string();
    pod.servant.join(&pod.orb.string_to_object(&url)?)?;

    // The supplier is at the pod. The subscription takes a moment to arrive there.
    let radar = pod.channel.for_suppliers().connect()?;
    let first = loop {
        radar.push(&Event::new(TARGET, RADAR).ttl(8).octets(b"first target"));
        if let Ok(text) = received.recv_timeout(Duration::from_millis(20)) {
            break text;
        }
    };
    println!("cockpit: {first}");
    let before = pod.federation.counts().forwarded;
    radar.push(&Event::new(HEALTH, RADAR).ttl(8).octets(b"all well"));
    println!("health crossed the link {} times", pod.federation.counts().forwarded - before);
    radar.push(&Event::new(TARGET, RADAR).ttl(8).octets(b"last target"));
    while received.recv()? != "last target" {}
    println!("cockpit: last target");
    pod.orb.shutdown(true)?;
    cockpit.orb.shutdown(true)?;
    Ok(())
}
