//! `isorb event-channel`: an event channel as a process.

mod admission;
mod arguments;
mod joining;
mod processors;

pub use arguments::Args;

use super::admin;
use super::event_control::{self, Dispatching, Modules};
use super::metrics;
use crate::commands::arguments::Wrong;
use admission::{Admitting, is_scheduled, recorder, scheduler};
use arguments::{Full, Overrun, UndeclaredEvents};
use isorb_admin::ChannelSource;
use isorb_event::Containment;
use isorb_event::federation::{Federation, Gateways};
use isorb_event::servants::{
    CosEventService, EventServiceOptions, FederationServant, Layout, LinkOptions, RegistrationStore,
    RtecEventService, UdpGateway, UdpOptions, Unscheduled, peer_proxies,
};
use isorb_event::{
    AsDeclared, Channel, ChannelBuilder, Configuration, HistoryQos, Limits, Overflow, Quality,
    RunTimeScheduler, SizeClass, Strategy, ThreadSetup, Totals, Undeclared,
};
use isorb_rt::log;
use isorb_rt::sched::{NativeRange, Need, RealTime};
use joining::{is_reference, keep_joined, security};
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const LOG: &str = "isorb::event";

/// The events of a type that are kept with `--keep-for` alone.
const KEPT_FOR_A_TIME: u32 = 100;

/// Serves until it is killed. It can be killed at any time without damage.
pub fn run(args: &Args, orb_arguments: Vec<String>) -> Result<(), Box<dyn Error>> {
    if args.id == 0 && !(args.join.is_empty() && args.udp.is_empty() && args.multicast.is_empty()) {
        let wrong = "--join, --udp and --multicast need --id, the channel's number in the federation";
        return Err(Wrong(wrong.into()).into());
    }
    let named = super::listen::names_endpoint(&orb_arguments).is_some();
    if args.store.is_some() && args.service.listen.port.unwrap_or(0) == 0 && !named {
        let wrong = "--store needs --port: references stay valid only if the channel listens at the same port each time";
        return Err(Wrong(wrong.into()).into());
    }
    let mut larger = [SizeClass::default(); 3];
    if args.larger.len() > larger.len() {
        let wrong = format!("--larger is given {} times; give it at most three times", args.larger.len());
        return Err(Wrong(wrong).into());
    }
    if args.mark && crate::commands::orb::has_tls() {
        let wrong = "--mark needs a port for each level, and those have no TLS; leave out --mark or --tls";
        return Err(Wrong(wrong.into()).into());
    }
    larger.iter_mut().zip(&args.larger).for_each(|(class, wanted)| *class = *wanted);
    let mut config = args.service.config(orb_arguments, 0)?;
    let setup = setup(&args.real_time)?;
    if setup.mapping.is_none() {
        // One warning is enough, and the links' threads are like the others.
        config.real_time.mode = RealTime::Off;
    }
    let mut process = args.service.start(config)?;
    let orb = process.orb.clone();
    let store = store(args)?;
    let (configuration, strategy) = modules(args, store.as_ref())?;
    let security = security(args)?;
    args.join.iter().try_for_each(|url| is_reference(&orb, url, &security))?;
    let dependencies = recorder(args, &orb)?;
    let mut processors = Vec::new();
    let (scheduler, levels) = match scheduler(args, strategy, &orb)? {
        None if args.record => (Arc::new(Unscheduled) as _, ChannelBuilder::default_levels()),
        None => (Arc::new(AsDeclared) as Arc<dyn RunTimeScheduler>, ChannelBuilder::default_levels()),
        Some(Admitting { operations, of, processors: named }) => {
            processors = named;
            for sentence in operations.unplaced() {
                log::warn(LOG, format_args!("{of}: {sentence}; their consumers will be refused"));
            }
            if setup.mapping.is_none() {
                log::warn(
                    LOG,
                    format_args!(
                        "consumers are admitted as if threads were real-time ones, and these are not"
                    ),
                );
            }
            let levels =
                operations.levels(usize::from(args.levels)).map_err(|error| format!("{of}: {error}"))?;
            (Arc::new(operations) as _, levels)
        }
    };
    // Pushes at a level's priority have its native priority.
    let setup = setup.for_levels(&levels);
    if let Some(mapping) = &setup.mapping {
        orb.rt().set_priority_mapping(mapping.clone());
    }
    let channel = Channel::builder()
        .scheduler(scheduler)
        .levels(levels)
        .processors(processors::sets(&processors))
        .strategy(strategy)
        .configuration(configuration)
        .limits(Limits {
            events: args.events as usize,
            payload: args.payload as usize,
            larger,
            ..Limits::default()
        })
        .history(HistoryQos {
            depth: args.keep_last.unwrap_or(args.keep_for.map_or(0, |_| KEPT_FOR_A_TIME)) as usize,
            age: args.keep_for.map(Duration::from_millis),
            streams: args.keep_streams as usize,
            payload: args.keep_payload as usize,
        })
        .lifespans(args.lifespan.clone())
        .threads(setup.clone())
        .undeclared(match args.undeclared {
            UndeclaredEvents::Count => Undeclared::Count,
            UndeclaredEvents::Refuse => Undeclared::Refuse,
        })
        .id(args.id)
        // The page shows latencies.
        .trace(args.trace || args.admin.is_wanted())
        .latencies(args.admin.is_wanted())
        .build()?;
    let quality = Quality {
        queue: args.queue as usize,
        overflow: match args.full {
            Full::DropOldest => Overflow::DropOldest,
            Full::DropNewest => Overflow::DropNewest,
            Full::Block => Overflow::Block,
            Full::Refuse => Overflow::Refuse,
        },
        containment: match args.overrun {
            Overrun::Count => Containment::Count,
            Overrun::Skip => Containment::Skip,
            Overrun::Demote => Containment::Demote,
            Overrun::Disconnect => Containment::Disconnect,
        },
        ..Quality::default()
    };
    let options = EventServiceOptions {
        layout: if args.plain_header { Layout::Plain } else { Layout::Stamped },
        quality: quality.clone(),
        push_timeout: Duration::from_millis(args.push_timeout),
        threads: args.push_threads as usize,
        setup: setup.clone(),
        peer_proxies: peer_proxies(args.max_peer_proxies),
        ping: (args.ping != 0).then(|| Duration::from_millis(args.ping)),
        dependencies,
        shutdown_on_destroy: args.exit_on_destroy,
        ..EventServiceOptions::default()
    };
    let real_time = match &store {
        None => RtecEventService::start(&orb, &channel, options.clone())?,
        Some(store) => RtecEventService::start_persistent(&orb, &channel, options.clone(), store.clone())?,
    };
    let standard = CosEventService::start(&orb, &channel, options)?;
    if let Some(file) = &args.ior_file {
        std::fs::write(file, format!("{}\n", real_time.object()))
            .map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let federation = match args.id {
        0 => None,
        _ => {
            // A link that stalls must not count as failed. It has a thread of its own.
            let threads = args.join.len().clamp(1, 8);
            let federation = Federation::builder(&channel)
                .quality(Quality { failures: 0, ..quality })
                .gateways(Gateways::Threads(threads, setup.clone()))
                .security(security)
                .paces(&args.pace)
                .build()?;
            let lanes = !args.one_port && !orb.listens_only_over_tls();
            if !args.one_port && !lanes {
                log::info(
                    "isorb::event",
                    format_args!(
                        "the priority levels of links share the port over TLS, so an urgent event may wait for \
                         others: lanes have no TLS"
                    ),
                );
            }
            let links = LinkOptions::new(Duration::from_millis(args.push_timeout)).lanes(lanes);
            let links = links.marked(args.mark).peer_links(args.max_peer_joins);
            let neighbourhood = FederationServant::start(&orb, &federation, links)?;
            let gateways = args.udp.iter().chain(&args.multicast).map(|options| {
                let options = UdpOptions { marked: args.mark, ..*options };
                UdpGateway::start_with_threads(&federation, options, &setup)
                    .map_err(|error| format!("datagrams from {} to {}: {error}", options.listen, options.to))
            });
            let gateways = gateways.collect::<Result<Vec<_>, _>>()?;
            Some((federation, neighbourhood, gateways))
        }
    };
    let name = if args.id == 0 { "channel".to_owned() } else { format!("channel {}", args.id) };
    let admitted = is_scheduled(args) && args.push_threads == 0;
    let admitted = admitted.then(|| strategy.preemption()).flatten();
    let member = federation.as_ref().map(|(federation, ..)| federation.clone());
    event_control::serve(&orb, (&channel, member), name, admitted, store)?;
    orb.root_poa()?.manager().activate()?;
    if let Some(url) = &args.ns {
        super::ready::bind(&orb, url, "EventService", real_time.object())?;
        super::ready::bind(&orb, url, "CosEventService", standard.object())?;
    }
    let mut source = ChannelSource::new(&channel, args.events as usize);
    if let Some((federation, ..)) = &federation {
        source = source.federation(federation);
    }
    let page = args.admin.start(source)?;
    let mut lines = admin::line(page.as_ref());
    if let Some((_, neighbourhood, _)) = &federation {
        let url = super::ready::reference(&orb, "EventFederation", neighbourhood.object());
        lines += &format!("FEDERATION {url}\n");
    }
    let reference = super::ready::reference(&orb, "EventService", real_time.object());
    let counted = channel.clone();
    process.add_metrics(Arc::new(move |text| {
        for (name, help, value) in counters(&counted.totals()) {
            metrics::family(text, name, "counter", help, value);
        }
        processors::metrics(text, &processors, &counted);
    }));
    let _metrics = process.ready(&reference, &lines)?;
    if let Some((federation, neighbourhood, gateways)) = federation {
        let (orb, join, tick) = (orb.clone(), args.join.clone(), Duration::from_millis(args.tick));
        let member = move || {
            keep_joined(&orb, &federation, &neighbourhood, &join, tick);
            drop(gateways);
        };
        std::thread::Builder::new().name("event-federation".into()).spawn(member)?;
    }
    process.run();
    Ok(())
}

/// The counters of a channel, for `--metrics`.
fn counters(totals: &Totals) -> Vec<(&'static str, &'static str, u64)> {
    vec![
        ("isorb_event_too_large", "Pushes lost because the event is too large.", totals.too_large),
        ("isorb_event_undeclared", "Events that their supplier had not declared.", totals.undeclared),
        (
            "isorb_event_not_owned",
            "Events dropped because a stronger supplier owns their instance.",
            totals.not_owned,
        ),
        ("isorb_event_owners_changed", "Times that an instance got an owner.", totals.owners_changed),
        (
            "isorb_event_owners_unknown",
            "Events delivered without a look at ownership, since there are too many instances.",
            totals.owners_unknown,
        ),
        (
            "isorb_event_instances_missed",
            "Times that an instance was silent for longer than a consumer's period.",
            totals.instances_missed,
        ),
        ("isorb_event_suppliers_lost", "Suppliers that did not answer.", totals.suppliers_lost),
        (
            "isorb_event_unknown_proxies",
            "Pushes to proxies that the channel does not have.",
            totals.unknown_proxies,
        ),
    ]
}

fn store(args: &Args) -> Result<Option<RegistrationStore>, String> {
    let open = |file: &PathBuf| {
        RegistrationStore::open(file).map_err(|error| format!("--store {}: {error}", file.display()))
    };
    args.store.as_ref().map(open).transpose()
}

/// The modules that the arguments name; where they name none, those of the store.
fn modules(
    args: &Args,
    store: Option<&RegistrationStore>,
) -> Result<(Configuration, Strategy), Box<dyn Error>> {
    let known = if args.dispatching.is_none() && args.configuration.is_none() {
        store.map_or(Ok(None), RegistrationStore::modules)?
    } else {
        None
    };
    Ok(known.unwrap_or_else(|| {
        let dispatching = args.dispatching.unwrap_or(Dispatching::None);
        let configuration = args.configuration.unwrap_or(Modules::Full);
        (configuration.configuration(), dispatching.strategy(args.threads as usize))
    }))
}

fn setup(real_time: &str) -> Result<ThreadSetup, Box<dyn Error>> {
    let mode: RealTime = real_time.parse().map_err(|wrong| Wrong(format!("--real-time: {wrong}")))?;
    let need = Need { native_priority: NativeRange::system().max, lock_memory: None };
    let granted = mode.resolve(need).map_err(|missing| missing.to_string())?;
    for missing in granted.missing() {
        log::warn(LOG, format_args!("{missing}"));
    }
    Ok(if granted.scheduling { ThreadSetup::fifo() } else { ThreadSetup::default() })
}
