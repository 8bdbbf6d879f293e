//! The events that a command is about.

use isorb_event::remote::RemoteQos;
use isorb_event::{Filter, HistoryRequest, MAX_TERMS};
use std::ops::RangeInclusive;
use std::time::Duration;

/// Options that choose events.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Selection {
    /// Types of events, and ranges of them, as in 16,20..29 [default: all].
    #[arg(long, value_name = "TYPES", value_delimiter = ',', value_parser = range)]
    types: Vec<RangeInclusive<i32>>,
}

impl Selection {
    /// Returns true for a type that was chosen.
    pub fn has(&self, event_type: i32) -> bool {
        self.types.is_empty() || self.types.iter().any(|types| types.contains(&event_type))
    }

    /// The filter of a consumer. It may let more through than [`has`](Self::has): a filter has a
    /// limited number of terms.
    pub fn filter(&self) -> Filter {
        let count = self.types.iter().map(|types| i64::from(*types.end()) - i64::from(*types.start()) + 1);
        match count.sum::<i64>() {
            1..=TERMS => Filter::any_of(self.types.iter().cloned().flatten().map(Filter::of_type)),
            _ => Filter::Everything,
        }
    }
}

const TERMS: i64 = MAX_TERMS as i64;

/// Options of a consumer.
#[derive(Debug, Default, clap::Args)]
pub struct ConsumerArgs {
    #[command(flatten)]
    pub selection: Selection,
    /// Begins with the last N events of each type and source, which the channel has kept
    /// (`isorb event-channel --keep-last`).
    #[arg(long, value_name = "N", default_value_t = 0)]
    last: u32,
    /// Begins with the events of this many seconds before, which the channel has kept; of each type
    /// and source the --last N.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    since: Option<Duration>,
}

impl ConsumerArgs {
    pub fn qos(&self) -> RemoteQos {
        let last = match (self.last, self.since) {
            (0, Some(_)) => usize::MAX,
            (last, _) => last as usize,
        };
        RemoteQos::history(HistoryRequest { last, age: self.since })
    }
}

/// A time in seconds.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text}: give seconds, as in 1.5");
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero()).ok_or_else(wrong)
}

/// A type, or a range of types.
fn range(text: &str) -> Result<RangeInclusive<i32>, String> {
    let wrong = || format!("{text}: give types or ranges of types, as in 16 or 20..29");
    let (first, last) = text.split_once("..").unwrap_or((text, text));
    let number = |text: &str| text.trim_start_matches('=').parse::<i32>().map_err(|_| wrong());
    let (first, last) = (number(first)?, number(last)?);
    if first == 0 || first > last { Err(wrong()) } else { Ok(first..=last) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_numbers_and_ranges() {
        let of =
            |texts: &[&str]| Selection { types: texts.iter().map(|text| range(text).unwrap()).collect() };
        let some = of(&["16", "20..22"]);
        assert!(some.has(16) && some.has(22) && !some.has(17) && of(&[]).has(17));
        let terms = [16, 20, 21, 22].map(Filter::of_type);
        assert_eq!(some.filter(), Filter::any_of(terms));
        assert_eq!(of(&[]).filter(), Filter::Everything);
        assert_eq!(of(&["1..33"]).filter(), Filter::Everything, "more terms than a filter has");
        for wrong in ["", "0", "5..4", "a", "1..b"] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
        assert!(seconds("0").is_err() && seconds("-1").is_err() && seconds("x").is_err());
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1_500)));
    }
}
