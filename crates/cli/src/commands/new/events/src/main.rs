//! Prints the positions of an event channel.

mod generated {
    isorb::include_idl!("flight");
}
use generated::flight::{GPS, POSITIONS, Position};
use isorb_event::Filter;
use isorb_event::remote::RemoteChannel;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let orb = isorb::Orb::init(std::env::args())?;
    let url = orb.arguments().get(1).ok_or("give the URL of the channel")?;
    let channel = RemoteChannel::connect(&orb, url)?;
    // Connected as long as it is kept, over restarts of the channel too.
    let _display = channel.consume_values(Filter::of(POSITIONS, GPS), |_, at: Position| {
        println!("{:.4} {:.4} at {} m", at.latitude, at.longitude, at.altitude);
    })?;
    println!("connected");
    orb.run();
    Ok(())
}
