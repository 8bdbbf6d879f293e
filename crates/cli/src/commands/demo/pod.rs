//! The second process of the avionics demo: a sensor pod with a channel in the mission computer's
//! federation.

use super::cast::{FAST, MIDDLE, NAVIGATION, POD_HEALTH, Part, Player, RADAR};
use super::machine::{CALL, Machine, room};
use super::report::{print_link, print_players, record};
use crate::commands::arguments::to_write;
use crate::commands::timeline::write;
use isorb::Orb;
use isorb_event::Filter;
use isorb_event::servants::{FederationServant, LinkOptions};
use isorb_trace::encode;
use std::error::Error;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Arguments of the second process.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(long)]
    join: String,
    #[arg(long, value_parser = to_write())]
    trace: PathBuf,
    #[arg(long)]
    seconds: u64,
    #[arg(long, default_value = "prefer")]
    real_time: String,
}

pub fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let machine = Machine::start(2, &args.real_time, args.seconds)?;
    let orb = Orb::init(["-ORBListenEndpoints", "127.0.0.1:0"].map(String::from))?;
    let neighbourhood = FederationServant::start(&orb, &machine.federation, LinkOptions::new(CALL))?;
    orb.root_poa()?.manager().activate()?;
    neighbourhood.join(&orb.string_to_object(&args.join)?)?;
    let parts = [
        Part {
            name: "radar",
            filter: Filter::interval(MIDDLE),
            period: MIDDLE,
            works: Duration::from_millis(1),
            pushes: Some(RADAR),
        },
        Part {
            name: "pod health",
            filter: Filter::interval(FAST),
            period: FAST,
            works: Duration::from_micros(200),
            pushes: Some(POD_HEALTH),
        },
        Part {
            name: "recorder",
            filter: Filter::of_type(NAVIGATION),
            period: MIDDLE,
            works: Duration::from_micros(500),
            pushes: None,
        },
    ];
    let players: Vec<Player> = parts
        .into_iter()
        .map(|part| Player::connect(&machine.channel, part, room(args.seconds)))
        .collect::<Result<_, _>>()?;
    // The neighbour knows the subscriptions here before events flow.
    machine.tick();
    println!("READY {}", std::process::id());
    let (over, ended) = channel::<()>();
    std::thread::spawn(move || {
        // The process that started this one holds the other end of the pipe.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        drop(over);
    });
    while ended.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
        machine.tick();
    }
    // Counted before the parts' calls, which continue, so that no more is sent than they were
    // called for.
    let crossed = machine.federation.counts();
    let recording = record("sensor pod (process 2)", &machine, &players, "from the mission computer");
    write(&args.trace, encode(&recording))?;
    print_players(&players, &recording);
    print_link(&crossed);
    orb.shutdown(false)?;
    Ok(())
}
