//! The numbers of an event channel.

use crate::Source;
use crate::process::ProcessCounts;
use crate::rate::per_second;
use isorb_event::federation::{Federation, FederationCounts, Neighbour};
use isorb_event::{Channel, ConsumerStatus, Counts, Histogram, Latencies, ModuleSet, Replaceable};
use serde::Serialize;
use std::collections::HashMap;
use std::time::Instant;

/// Consumers that the page shows: the most urgent ones, then those that connected first.
const SHOWN: usize = 256;

/// The numbers of an event channel, for an [`Admin`](crate::Admin). They include latencies if the
/// channel keeps them ([`ChannelBuilder::latencies`](isorb_event::ChannelBuilder::latencies)) and
/// its trace is on.
pub struct ChannelSource<M: ModuleSet = Replaceable> {
    channel: Channel<M>,
    copies: usize,
    federation: Option<Federation>,
    before: Option<Before>,
}

/// The counts of the sample before, for rates.
struct Before {
    at: Instant,
    consumers: HashMap<u32, Counts>,
    federation: Option<FederationCounts>,
}

impl<M: ModuleSet> ChannelSource<M> {
    /// The numbers of this channel; `copies` is its limit of copies of events
    /// ([`Limits::events`](isorb_event::Limits::events)).
    pub fn new(channel: &Channel<M>, copies: usize) -> ChannelSource<M> {
        ChannelSource { channel: channel.clone(), copies, federation: None, before: None }
    }

    /// Shows the neighbours of this member of a federation, too.
    #[must_use]
    pub fn federation(mut self, federation: &Federation) -> ChannelSource<M> {
        self.federation = Some(federation.clone());
        self
    }
}

impl<M: ModuleSet> std::fmt::Debug for ChannelSource<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChannelSource").field("channel", &self.channel).finish_non_exhaustive()
    }
}

impl<M: ModuleSet> Source for ChannelSource<M> {
    fn sample(&mut self) -> String {
        let now = Instant::now();
        let mut consumers = self.channel.consumers();
        consumers.sort_by_key(|c| (std::cmp::Reverse(c.level), c.id));
        let left_out = consumers.len().saturating_sub(SHOWN);
        let counts: HashMap<u32, Counts> = consumers.iter().map(|c| (c.id, c.counts)).collect();
        let waiting = consumers.iter().map(|c| c.waiting).sum();
        consumers.truncate(SHOWN);
        let ids: Vec<u32> = consumers.iter().map(|c| c.id).collect();
        let latencies = self.channel.latencies(&ids);
        let no_counts = HashMap::new();
        let (ns, before) = match &self.before {
            Some(before) => (now.duration_since(before.at).as_nanos() as u64, &before.consumers),
            None => (0, &no_counts),
        };
        // Those of all consumers, also of those that the page does not show.
        let sum = |of: fn(&Counts) -> u64| {
            let rate = |(id, now): (&u32, &Counts)| per_second(of(before.get(id)?), of(now), ns);
            counts.iter().filter_map(rate).sum::<f64>()
        };
        let (push_rate, loss_rate) = (sum(|counts| counts.pushed), sum(lost));
        let federation = self.federation.as_ref().map(Federation::counts);
        let links_before = self.before.as_ref().and_then(|before| before.federation);
        let links = federation.map(|now| Links::of(&now, links_before.as_ref(), ns));
        let rows = consumers
            .iter()
            .zip(&latencies)
            .map(|(status, latencies)| row(status, latencies.as_ref(), before.get(&status.id), ns));
        let totals = self.channel.totals();
        let view = View {
            kind: "event-channel",
            id: self.channel.id(),
            tracing: self.channel.recorder().is_on(),
            copies: self.copies,
            free_copies: self.channel.free_copies(),
            lookups: self.channel.lookups(),
            left_out,
            waiting,
            push_rate,
            loss_rate,
            too_large: totals.too_large,
            undeclared: totals.undeclared,
            suppliers_lost: totals.suppliers_lost,
            unknown_proxies: totals.unknown_proxies,
            not_owned: totals.not_owned,
            owners_changed: totals.owners_changed,
            instances_missed: totals.instances_missed,
            unauthenticated: federation.map_or(0, |counts| counts.unauthenticated),
            links,
            neighbours: self.federation.iter().flat_map(Federation::neighbours).map(Link::from).collect(),
            process: ProcessCounts::now(),
            consumers: rows.collect(),
        };
        let text = json(&view);
        self.before = Some(Before { at: now, consumers: counts, federation });
        text
    }
}

/// JSON of a value that always has a JSON form.
pub(crate) fn json(view: &impl Serialize) -> String {
    serde_json::to_string(view).unwrap_or_else(|_| "{}".to_owned())
}

#[derive(Serialize)]
struct View {
    kind: &'static str,
    id: u64,
    tracing: bool,
    copies: usize,
    free_copies: usize,
    lookups: usize,
    left_out: usize,
    /// The pushes that wait for all consumers, and the pushes and losses a second of all.
    waiting: usize,
    push_rate: f64,
    loss_rate: f64,
    /// Since the channel was made: pushes lost to the size of an event, and events that their
    /// supplier had not declared.
    too_large: u64,
    undeclared: u64,
    /// Remote suppliers that were removed because they did not answer.
    suppliers_lost: u64,
    /// Pushes to proxies that the channel does not have.
    unknown_proxies: u64,
    /// Events that were dropped because a stronger supplier owns their instance, and times that an
    /// instance got an owner.
    not_owned: u64,
    owners_changed: u64,
    /// Times that an instance was silent for longer than a consumer's period.
    instances_missed: u64,
    /// Messages of other members without the federation's key.
    unauthenticated: u64,
    /// Of a member of a federation.
    links: Option<Links>,
    neighbours: Vec<Link>,
    process: ProcessCounts,
    consumers: Vec<Row>,
}

/// What went over all links.
#[derive(Serialize)]
struct Links {
    forwarded: u64,
    received: u64,
    lost: u64,
    paced: u64,
    forward_rate: Option<f64>,
    receive_rate: Option<f64>,
}

impl Links {
    fn of(now: &FederationCounts, before: Option<&FederationCounts>, ns: u64) -> Links {
        let rate = |of: fn(&FederationCounts) -> u64| per_second(of(before?), of(now), ns);
        Links {
            forwarded: now.forwarded,
            received: now.received,
            lost: now.lost,
            paced: now.paced,
            forward_rate: rate(|counts| counts.forwarded),
            receive_rate: rate(|counts| counts.received),
        }
    }
}

#[derive(Serialize)]
struct Link {
    link: u32,
    channels: Vec<u64>,
    address: String,
    up: bool,
    /// The largest error of the offset between both hosts' clocks.
    clock_error_ns: Option<u64>,
}

impl From<Neighbour> for Link {
    fn from(neighbour: Neighbour) -> Link {
        let Neighbour { link, address, channels, up, clock } = neighbour;
        let clock_error_ns = clock.and_then(|offset| offset.bound_ns);
        Link { link: link.0, channels, address, up, clock_error_ns }
    }
}

#[derive(Serialize)]
struct Row {
    id: u32,
    name: String,
    /// Empty for a consumer in the process.
    address: String,
    filter: String,
    gateway: bool,
    priority: i16,
    level: u8,
    /// Of the consumers that the scheduler assigns to processors.
    processor: Option<String>,
    suspended: bool,
    waiting: usize,
    queue: usize,
    deadline_ns: Option<u64>,
    /// Pushes and losses a second, since the numbers before.
    push_rate: Option<f64>,
    loss_rate: Option<f64>,
    pushed: u64,
    queued: u64,
    /// Lost, refused, not kept, too large, skipped, or unreadable for its content filter.
    lost: u64,
    too_large: u64,
    failed: u64,
    missed: u64,
    overruns: u64,
    early: u64,
    timeouts: u64,
    late_intervals: u64,
    least_laxity_ns: Option<i64>,
    response: Option<Times>,
    waited: Option<Times>,
    laxity: Option<Times>,
}

/// A histogram: the buckets that are not empty, each with the time it ends at (none for the last),
/// and figures from them.
#[derive(Serialize)]
struct Times {
    count: u64,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
    buckets: Vec<(Option<u64>, u64)>,
}

impl Times {
    fn of(histogram: &Histogram) -> Times {
        let all = histogram.0.iter().enumerate().filter(|(_, n)| **n > 0);
        Times {
            count: histogram.count(),
            p50_ns: histogram.quantile(0.5),
            p99_ns: histogram.quantile(0.99),
            buckets: all.map(|(bucket, n)| (Histogram::end(bucket), *n)).collect(),
        }
    }
}

/// The page has room for so much of a filter.
const FILTER_LENGTH: usize = 240;

fn shortened(text: &str) -> String {
    match text.char_indices().nth(FILTER_LENGTH) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn lost(counts: &Counts) -> u64 {
    [counts.dropped, counts.refused, counts.not_kept, counts.too_large, counts.skipped, counts.unreadable]
        .iter()
        .fold(0, |a, b| a.saturating_add(*b))
}

fn row(status: &ConsumerStatus, latencies: Option<&Latencies>, before: Option<&Counts>, ns: u64) -> Row {
    let counts = &status.counts;
    // A new consumer has no rate yet.
    let rate = |of: fn(&Counts) -> u64| before.and_then(|before| per_second(of(before), of(counts), ns));
    Row {
        id: status.id,
        name: status.name.clone(),
        address: status.address.clone(),
        filter: shortened(&status.filter),
        gateway: status.gateway,
        priority: status.priority.get(),
        level: status.level,
        processor: status.processor.map(|processor| processor.to_string()),
        suspended: status.suspended,
        waiting: status.waiting,
        queue: status.queue,
        deadline_ns: status.deadline.map(|deadline| u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX)),
        push_rate: rate(|counts| counts.pushed),
        loss_rate: rate(lost),
        pushed: counts.pushed,
        queued: counts.queued,
        lost: lost(counts),
        too_large: counts.too_large,
        failed: counts.failed,
        missed: counts.missed,
        overruns: counts.overruns,
        early: counts.early,
        timeouts: counts.timeouts,
        late_intervals: counts.late_intervals,
        least_laxity_ns: latencies.and_then(|l| l.least_laxity),
        response: latencies.map(|l| Times::of(&l.response)),
        waited: latencies.map(|l| Times::of(&l.waited)),
        // Without a deadline there is no laxity.
        laxity: latencies.filter(|_| status.deadline.is_some()).map(|l| Times::of(&l.laxity)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isorb_event::{ConsumerQos, Event, Filter, Quality};
    use serde_json::Value;
    use std::sync::Arc;
    use std::time::Duration;

    fn sample<M: ModuleSet>(source: &mut ChannelSource<M>) -> Value {
        let text = source.sample();
        assert!(!text.contains('\n'), "one line, as server-sent events need it");
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn the_numbers_are_the_channels() {
        let config = Channel::builder().trace(true).latencies(true);
        let channel = config.build().unwrap();
        let mut source = ChannelSource::new(&channel, 1024);
        let view = sample(&mut source);
        assert_eq!((&view["kind"], &view["free_copies"]), (&"event-channel".into(), &1024.into()));
        assert!(view["process"]["panics"].is_u64() && view["process"]["log_dropped"].is_u64(), "{view}");
        assert_eq!(view["consumers"], Value::Array(vec![]));

        let hour = Some(Duration::from_secs(3600));
        let quality = Quality { deadline: hour, period: hour, queue: 7, ..Quality::default() };
        let qos = ConsumerQos::new("<b>\n\"display\"", Filter::of(20, 1)).quality(quality);
        let _display = channel.for_consumers().connect(Arc::new(|_: &[Event<'_>]| {}), qos).unwrap();
        let supplier = channel.for_suppliers().connect().unwrap();
        assert_eq!(sample(&mut source)["consumers"][0]["push_rate"], Value::Null, "new");
        for _ in 0..5 {
            supplier.push(&Event::new(20, 1));
        }
        let view = sample(&mut source);
        let row = &view["consumers"][0];
        assert_eq!((&row["name"], &row["pushed"]), (&"<b>\n\"display\"".into(), &5.into()));
        assert_eq!((&row["filter"], &row["address"]), (&"type 20 from 1".into(), &"".into()));
        assert!(view["push_rate"].as_f64() > Some(0.0) && view["loss_rate"] == 0.0, "{view}");
        assert_eq!(view["links"], Value::Null, "it is in no federation");
        let counts = ["not_owned", "owners_changed", "instances_missed"].map(|name| view[name].as_u64());
        assert_eq!(counts, [Some(0); 3]);
        assert_eq!((&row["queue"], &row["missed"], &row["early"]), (&7.into(), &0.into(), &4.into()));
        assert!(row["push_rate"].as_f64().unwrap() > 0.0, "{row}");
        assert_eq!((&row["response"]["count"], &row["laxity"]["count"]), (&5.into(), &5.into()));
        assert!(row["least_laxity_ns"].as_i64().unwrap() > 0);
        let sum: u64 =
            row["response"]["buckets"].as_array().unwrap().iter().map(|b| b[1].as_u64().unwrap()).sum();
        assert_eq!(sum, 5);
    }

    #[test]
    fn a_long_filter_is_cut_between_characters() {
        assert_eq!(shortened("kurz"), "kurz");
        let cut = shortened(&"é".repeat(300));
        assert_eq!((cut.chars().count(), cut.ends_with("é…")), (FILTER_LENGTH + 1, true));
    }

    #[test]
    fn a_channel_with_many_consumers_shows_the_most_urgent() {
        let channel = Channel::builder().build().unwrap();
        let connect = |priority: i16| {
            let quality =
                Quality { priority: isorb_event::Priority::new(priority).unwrap(), ..Quality::default() };
            let qos = ConsumerQos::new(priority.to_string(), Filter::of(20, 1)).quality(quality);
            channel.for_consumers().connect(Arc::new(|_: &[Event<'_>]| {}), qos).unwrap()
        };
        let mut proxies: Vec<_> = (0..SHOWN + 3).map(|_| connect(0)).collect();
        proxies.push(connect(30_000));
        let view = sample(&mut ChannelSource::new(&channel, 1024));
        assert_eq!((&view["left_out"], &view["consumers"][0]["name"]), (&4.into(), &"30000".into()));
        assert_eq!(view["consumers"].as_array().unwrap().len(), SHOWN);
        assert_eq!(view["consumers"][0]["response"], Value::Null, "none are kept");
    }
}
