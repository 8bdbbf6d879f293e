//! A gateway beside a channel, and a zenoh router, as processes.

use isorb_event::Filter;
use isorb_event_zenoh::{Bridge, BridgeError, History, Router, Settings};
use std::error::Error;
use std::time::Duration;

const USAGE: &str =
    "isorb-event-zenoh gateway --channel URL --site NAME --router ADDRESS[,ADDRESS...] [OPTIONS] [-ORB...]
isorb-event-zenoh router --listen ADDRESS[,ADDRESS...] [--router ADDRESS[,ADDRESS...]]

The gateway connects a running event channel with those of other sites; the router is a zenoh router. Both
print READY. An ADDRESS is one of zenoh, such as tcp/10.0.0.1:7447.

  --channel URL          the channel, by the URL that it prints as READY
  --site NAME            the name of this site, unique in the federation
  --federation NAME      the name of the federation (default: isorb)
  --router ADDRESS,...   the routers, of which the gateway uses one at a time
  --queue N              events that may wait for each priority (default: 4096)
  --payload OCTETS       the largest event (default: 65536)
  --history N            keep N events of each type and source; request as many at the start
  --keep TYPE[/SOURCE],...  the events to keep while no other site wants them (default: none)
  --zenoh PATH=JSON5     a further setting of zenoh; may be given several times";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let role = arguments.next().unwrap_or_default();
    let (mut channel, mut listen, mut keep, mut history, mut rest) =
        (String::new(), Vec::new(), Vec::new(), None, Vec::new());
    let mut settings = Settings::new("isorb", "", Vec::new());
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(USAGE);
        match &*argument {
            "--channel" => channel = value()?,
            "--site" => settings.site = value()?,
            "--federation" => settings.federation = value()?,
            "--router" => settings.routers = list(&value()?),
            "--listen" => listen = list(&value()?),
            "--queue" => settings.queue = value()?.parse()?,
            "--payload" => settings.payload = value()?.parse()?,
            "--history" => history = Some(value()?.parse()?),
            "--keep" => keep = list(&value()?).iter().map(|text| kept(text)).collect::<Result<_, _>>()?,
            "--zenoh" => {
                let setting = value()?;
                let (path, json5) = setting.split_once('=').ok_or(USAGE)?;
                settings.zenoh.push((path.to_string(), json5.to_string()));
            }
            _ => rest.push(argument),
        }
    }
    settings.history = history.map(|events| History { events, filters: keep });
    match &*role {
        "router" if !listen.is_empty() && rest.is_empty() => {
            let _router = Router::start(&listen, &settings.routers)?;
            println!("READY {}", listen.join(","));
            loop {
                std::thread::park();
            }
        }
        "gateway" if !channel.is_empty() => {
            let orb = isorb::Orb::init(rest)?;
            let site = settings.site.clone();
            let _bridge = start(&orb, &channel, settings)?;
            println!("READY {site}");
            orb.run();
            Ok(())
        }
        _ => Err(USAGE.into()),
    }
}

/// Tries until channel and routers answer. A name or a setting that is wrong ends the program.
fn start(orb: &isorb::Orb, channel: &str, settings: Settings) -> Result<Bridge, BridgeError> {
    let mut is_first = true;
    loop {
        match Bridge::start(orb, channel, settings.clone()) {
            Err(why) if why.may_pass() => {
                if std::mem::take(&mut is_first) {
                    eprintln!("isorb-event-zenoh: {why}; it is tried again each second");
                }
                std::thread::sleep(Duration::from_secs(1));
            }
            result => return result,
        }
    }
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::to_string).collect()
}

fn kept(text: &str) -> Result<Filter, Box<dyn Error>> {
    let (event_type, source) = text.split_once('/').unwrap_or((text, "0"));
    Ok(Filter::of(event_type.parse()?, source.parse()?))
}
