//! `isorb event-control`: replaces the modules of a running event channel, or fetches its trace.

use super::timeline::write;
use crate::commands::arguments::{object_url, to_write};
use isorb::poa::PoaPolicies;
use isorb::{Kind, Orb, Reference, SystemException, Upcall};
use isorb_event::federation::Federation;
use isorb_event::servants::RegistrationStore;
use isorb_event::servants::isorb_link::isorb_event as idl;
use isorb_event::{Channel, Configuration, Strategy};
use isorb_giop::{IiopProfile, Ior};
use isorb_sched::Preemption;
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The key of a channel's operator interface in a `corbaloc` URL. The channel prints the URL of its
/// real-time interface when it is ready.
const KEY: &str = "EventOperator";
const SERVICE: &str = "EventService";

/// How the channel dispatches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Dispatching {
    /// Events are pushed on the thread that received them.
    None,
    /// One thread, the most urgent consumer first.
    Single,
    /// Threads for each priority level.
    Threads,
    /// One thread, on which a consumer can yield to a more urgent one.
    Upcalls,
}

/// The modules of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Modules {
    /// Filtering, correlation, dispatching.
    Full,
    /// Filtering and correlation.
    Discriminator,
    /// Filtering; the events of a conjunction are pushed one by one.
    Filtering,
    /// None: every consumer gets every event.
    Broadcaster,
}

impl Dispatching {
    /// The strategy with this number of threads for each level.
    pub fn strategy(self, threads: usize) -> Strategy {
        match self {
            Dispatching::None => Strategy::Direct,
            Dispatching::Single => Strategy::SingleThreaded,
            Dispatching::Threads => Strategy::Threads { per_level: threads },
            Dispatching::Upcalls => Strategy::Upcalls,
        }
    }

    /// How consumers preempt each other; `None` if the dispatching has no order.
    pub fn preemption(self) -> Option<Preemption> {
        self.strategy(1).preemption()
    }
}

impl Modules {
    pub fn configuration(self) -> Configuration {
        match self {
            Modules::Full => Configuration::Full,
            Modules::Discriminator => Configuration::ForwardingDiscriminator,
            Modules::Filtering => Configuration::SubscriptionAndFiltering,
            Modules::Broadcaster => Configuration::Broadcaster,
        }
    }
}

/// Arguments of `isorb event-control`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true).args(["configuration", "trace"]))]
pub struct Args {
    /// URL of the channel, from its line READY.
    #[arg(value_name = "URL", value_parser = object_url)]
    channel: String,
    /// Replaces the modules while events flow.
    #[arg(long, value_enum)]
    configuration: Option<Modules>,
    /// How events are dispatched from then on (`--configuration full`) [default: none, whatever the
    /// channel did before].
    #[arg(long, value_enum, requires = "configuration")]
    dispatching: Option<Dispatching>,
    /// Number of threads for each priority level (`--dispatching threads`).
    #[arg(long, default_value_t = 1)]
    threads: u32,
    /// Timeout for events under way, in milliseconds.
    #[arg(long, alias = "patience", default_value_t = 10_000)]
    timeout: u32,
    /// File to write the trace to, for `isorb timeline`.
    #[arg(long, value_name = "FILE", value_parser = to_write())]
    trace: Option<PathBuf>,
}

pub fn run(args: &Args, orb_arguments: Vec<String>) -> Result<(), Box<dyn Error>> {
    let (config, _) = isorb::Config::from_args(orb_arguments)?;
    let orb = super::orb::plain(config)?;
    let operator: idl::OperatorRef = orb.resolve(&operator_at(&args.channel)?)?;
    if let Some(modules) = args.configuration {
        let modules = match modules {
            Modules::Full => idl::Configuration::Full,
            Modules::Discriminator => idl::Configuration::Discriminator,
            Modules::Filtering => idl::Configuration::Filtering,
            Modules::Broadcaster => idl::Configuration::Broadcaster,
        };
        let dispatching = match args.dispatching.unwrap_or(Dispatching::None) {
            Dispatching::None => idl::Dispatching::Direct,
            Dispatching::Single => idl::Dispatching::Single,
            Dispatching::Threads => idl::Dispatching::Threads,
            Dispatching::Upcalls => idl::Dispatching::Upcalls,
        };
        match operator.reconfigure(modules, dispatching, args.threads, args.timeout) {
            Err(idl::operator::ReconfigureError::NotReconfigured(refused)) => {
                return Err(format!("the channel refused: {}", refused.why).into());
            }
            other => other?,
        }
    }
    if let Some(file) = &args.trace {
        write(file, operator.recording()?)?;
        println!("{}", file.display());
    }
    Ok(())
}

/// Upper limit of threads for each priority level.
pub const MOST_THREADS: u32 = 64;

/// The operator's reference at the place of a channel's. A channel over TLS prints an IOR, since
/// `corbaloc` URLs have no TLS.
pub fn operator_at(channel: &str) -> Result<String, Box<dyn Error>> {
    if let Some(address) = channel.strip_suffix(SERVICE) {
        return Ok(format!("{address}{KEY}"));
    }
    let operator = idl::OperatorRef::INTERFACE.id;
    match channel.parse::<Ior>() {
        Ok(ior) if ior.type_id != operator => {
            let profile =
                ior.iiop_profiles().next().ok_or("the channel's reference has no IIOP profile")??;
            let profile = IiopProfile { key: KEY.into(), ..profile };
            Ok(Ior::iiop(operator, &profile)?.to_string())
        }
        _ => Ok(channel.into()),
    }
}

/// Upper limit of the timeout of an operator's call.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(60);

struct Operator {
    channel: Channel,
    federation: Option<Federation>,
    name: String,
    admitted: Option<Preemption>,
    store: Option<RegistrationStore>,
}

/// Serves the channel's operator; the guard of the ORB decides which clients may use it. If the
/// channel's schedule `admitted` consumers for one kind of preemption, dispatching with another
/// kind is refused. With a `store`, the next process has the modules that were chosen last. A trace
/// of a federation's member has its neighbours' clocks.
pub fn serve(
    orb: &Orb,
    (channel, federation): (&Channel, Option<Federation>),
    name: String,
    admitted: Option<Preemption>,
    store: Option<RegistrationStore>,
) -> Result<(), SystemException> {
    let root = orb.root_poa()?;
    let poa = root
        .create_poa("event-operator", Some(&root.manager()), PoaPolicies::new())
        .map_err(|_| Kind::BadInvOrder)?;
    let operator = Operator { channel: channel.clone(), federation, name, admitted, store };
    let operator: idl::OperatorRef = poa.activate(Arc::new(operator))?;
    orb.register_corbaloc_key(KEY, operator.object());
    Ok(())
}

impl idl::Operator for Operator {
    fn reconfigure(
        &self,
        _: Upcall<'_>,
        modules: idl::Configuration,
        dispatching: idl::Dispatching,
        threads: u32,
        timeout_ms: u32,
    ) -> Result<(), idl::operator::ReconfigureError> {
        let configuration = match modules {
            idl::Configuration::Full => Modules::Full,
            idl::Configuration::Discriminator => Modules::Discriminator,
            idl::Configuration::Filtering => Modules::Filtering,
            idl::Configuration::Broadcaster => Modules::Broadcaster,
        };
        let dispatching = match dispatching {
            idl::Dispatching::Direct => Dispatching::None,
            idl::Dispatching::Single => Dispatching::Single,
            idl::Dispatching::Threads => Dispatching::Threads,
            idl::Dispatching::Upcalls => Dispatching::Upcalls,
        };
        let refused = |why: String| idl::NotReconfigured { why };
        if !(1..=MOST_THREADS).contains(&threads) {
            return Err(
                refused(format!("{threads} threads a level; 1 to {MOST_THREADS} there can be")).into()
            );
        }
        let dispatches = if modules == idl::Configuration::Full { dispatching } else { Dispatching::None };
        if self.admitted.is_some() && self.admitted != dispatches.preemption() {
            return Err(refused(
                "its schedule admitted consumers for the dispatching that it has; start it with the other one"
                    .into(),
            )
            .into());
        }
        let strategy = dispatching.strategy(threads as usize);
        let timeout = Duration::from_millis(timeout_ms.into()).min(LONGEST_TIMEOUT);
        let configuration = configuration.configuration();
        let swapped = self.channel.reconfigure(configuration, strategy, timeout);
        swapped.map_err(|error| refused(error.to_string()))?;
        let kept = self.store.as_ref().map_or(Ok(()), |store| store.put_modules(configuration, strategy));
        let not_kept = |why| {
            refused(format!(
                "the channel has the new modules, but its --store does not, so that it starts with the old ones: {why}"
            ))
        };
        Ok(kept.map_err(not_kept)?)
    }

    fn state<'u>(&'u self, cx: Upcall<'u>) -> isorb::Result<idl::ChannelStateView<'u>> {
        cx.give(state(&self.channel))
    }

    fn recording<'u>(&'u self, cx: Upcall<'u>) -> isorb::Result<&'u [u8]> {
        let name = self.name.clone();
        let recording = match &self.federation {
            Some(federation) => federation.recording(name, &[]),
            None => self.channel.recording(name, &[]),
        };
        Ok(cx.keep(isorb_trace::encode(&recording))?)
    }
}

/// The channel for `isorb event ls`.
fn state(channel: &Channel) -> idl::ChannelState {
    let consumer = |status: isorb_event::ConsumerStatus| {
        let counts = status.counts;
        idl::ConsumerState {
            id: status.id,
            name: status.name,
            priority: status.priority.get(),
            level: status.level,
            processor: status.processor.map(|processor| processor.to_string()).unwrap_or_default(),
            suspended: status.suspended,
            waiting: status.waiting as u32,
            queue: status.queue as u32,
            pushed: counts.pushed,
            lost: counts.dropped
                + counts.refused
                + counts.not_kept
                + counts.too_large
                + counts.skipped
                + counts.history_lost,
            expired: counts.expired,
            too_soon: counts.too_soon,
            failed: counts.failed,
        }
    };
    let history = channel.history();
    let keeps_history = history.is_some();
    let history = history.unwrap_or_default();
    let stream = |stream: &isorb_event::StreamStatus| idl::StreamState {
        type_: stream.event_type,
        source: stream.source,
        kept: stream.kept as u32,
        overwritten: stream.overwritten,
        aged: stream.aged,
    };
    let totals = channel.totals();
    idl::ChannelState {
        consumers: channel.consumers().into_iter().map(consumer).collect(),
        keeps_history,
        history: history.streams.iter().map(stream).collect(),
        not_kept: history.too_large + history.no_stream + history.no_copy,
        undeclared: totals.undeclared,
        unknown_proxies: totals.unknown_proxies,
        suppliers_lost: totals.suppliers_lost,
        not_owned: totals.not_owned,
        owners_changed: totals.owners_changed,
        instances_missed: totals.instances_missed,
    }
}
