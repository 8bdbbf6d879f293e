//! The Grafana dashboard that is shipped shows metrics that services have, and shows all of them.

mod common;

use common::{Service, get, isorb};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// All texts of the dashboard that name metrics.
fn queries(value: &Value, queries: &mut Vec<String>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| self::queries(value, queries)),
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if name == "expr" || name == "query" => queries.push(text.clone()),
                    other => self::queries(other, queries),
                }
            }
        }
        _ => {}
    }
}

/// The names of metrics in a query.
fn metrics(query: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    query.split(move |c| !is_part(c)).filter(|word| word.starts_with("isorb_"))
}

/// The names of the samples of an event channel, and of a naming service that was called.
fn exported() -> BTreeSet<String> {
    let args = ["event-channel", "--real-time", "off", "--metrics", "0"];
    let (_channel, line) = Service::with_line(&mut isorb(&args), "METRICS");
    let mut all = samples(&line);
    assert!(all.contains("isorb_event_not_owned_total"), "{all:?}");
    let args = ["naming", "--memory", "--port", "0", "--metrics", "0"];
    let (naming, line) = Service::with_line(&mut isorb(&args), "METRICS");
    let (code, _, error) = common::run(&["name", "--ns", &naming.url, "resolve", "a"]);
    assert_eq!(code, Some(1), "{error}");
    all.extend(samples(&line));
    all
}

/// The names of the samples at this URL.
fn samples(url: &str) -> BTreeSet<String> {
    let place = url.strip_prefix("http://").and_then(|url| url.strip_suffix("/metrics")).unwrap();
    let text = get(place, "/metrics");
    let samples = text.lines().filter(|line| line.starts_with("isorb_"));
    samples.map(|line| line.split(['{', ' ']).next().unwrap().to_owned()).collect()
}

#[test]
fn the_dashboard_names_metrics_that_are_exported_and_misses_none() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/grafana/isorb.json");
    let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let mut all = Vec::new();
    queries(&dashboard["panels"], &mut all);
    queries(&dashboard["templating"], &mut all);
    let shown: BTreeSet<String> = all.iter().flat_map(|query| metrics(query)).map(str::to_owned).collect();
    let exported = exported();
    let unknown: Vec<_> = shown.difference(&exported).collect();
    assert!(unknown.is_empty(), "no service exports {unknown:?}");
    // The sum and the count of a histogram are in its buckets.
    let is_in_buckets = |name: &&String| {
        ["_sum", "_count"].iter().any(|end| name.ends_with(end) && name.contains("_seconds"))
    };
    let missing: Vec<_> = exported.difference(&shown).filter(|name| !is_in_buckets(name)).collect();
    assert!(missing.is_empty(), "the dashboard does not show {missing:?}");
}
