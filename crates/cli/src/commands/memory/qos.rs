//! Quality-of-service options of readers and writers.

use isorb_reflective_memory::idl::{Mode, Path, ReaderQoS, WriterQoS};

/// Every value as it is written, without a guarantee.
pub(super) const BEST_EFFORT: ReaderQoS = ReaderQoS {
    how: Mode::PushOnWrite,
    period: 0,
    deadline: 0,
    histories: 0,
    guaranteed: false,
    soft: false,
    through: Path::PathUdp,
    parity: 0,
    type_hash: 0,
};

/// Options of a reader.
#[derive(Debug, clap::Args)]
pub(super) struct ReaderArgs {
    /// Receives the latest value at this period, in milliseconds, instead of each value as it is
    /// written.
    #[arg(long, value_name = "MS")]
    every: Option<f64>,
    /// Greatest age of a value when it becomes readable, in milliseconds.
    #[arg(long, value_name = "MS")]
    deadline: Option<f64>,
    /// Number of older values to keep.
    #[arg(long, default_value_t = 0)]
    histories: u32,
    /// Requires admission: the reader is refused if the writer's period or a node's capacity do not
    /// allow its timing.
    #[arg(long)]
    guaranteed: bool,
    /// Accepts a guarantee of nodes without a real-time class or measured costs: nothing assures
    /// the timing then.
    #[arg(long, requires = "guaranteed")]
    soft: bool,
    /// Transport between nodes.
    #[arg(long, value_enum, default_value = "udp")]
    path: PathArg,
    /// Number of datagrams that share one parity datagram; 0 for no parity.
    #[arg(long, default_value_t = 0)]
    parity: u8,
}

/// Transports between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum PathArg {
    /// Datagrams; only the latest value is delivered.
    Udp,
    /// One call for each value; none is lost.
    Orb,
    /// One oneway call for each value; none is lost.
    Oneway,
    /// Datagrams sent once to all nodes.
    Multicast,
}

/// Options of a writer.
#[derive(Debug, clap::Args)]
pub(super) struct WriterArgs {
    /// Writes periodically with this period, in milliseconds; guaranteed readers are admitted for
    /// it.
    #[arg(long, value_name = "MS")]
    pub period: Option<f64>,
    /// Size of the largest value in bytes; guaranteed readers are admitted for it [default: the
    /// area's size].
    #[arg(long, value_name = "BYTES")]
    largest: Option<u32>,
    /// Number of values after which it ends.
    #[arg(long, requires = "period")]
    pub count: Option<u64>,
}

impl ReaderArgs {
    /// The options as the service's structure.
    ///
    /// # Errors
    /// A message that names the option with the invalid time.
    pub(super) fn qos(&self) -> Result<ReaderQoS, String> {
        Ok(ReaderQoS {
            how: if self.every.is_some() { Mode::PeriodicPush } else { Mode::PushOnWrite },
            period: self.every.map_or(Ok(0), |ms| nanoseconds("--every", ms))?,
            deadline: self.deadline.map_or(Ok(0), |ms| nanoseconds("--deadline", ms))?,
            histories: self.histories,
            guaranteed: self.guaranteed,
            soft: self.soft,
            through: match self.path {
                PathArg::Udp => Path::PathUdp,
                PathArg::Orb => Path::PathOrb,
                PathArg::Oneway => Path::PathOneway,
                PathArg::Multicast => Path::PathMulticast,
            },
            parity: self.parity,
            type_hash: 0,
        })
    }
}

impl WriterArgs {
    /// The options as the service's structure.
    ///
    /// # Errors
    /// A message that names the option with the invalid time.
    pub(super) fn qos(&self) -> Result<WriterQoS, String> {
        let period = self.period.map_or(Ok(0), |ms| nanoseconds("--period", ms))?;
        Ok(WriterQoS { period, size: self.largest.unwrap_or(0), type_hash: 0 })
    }
}

/// One day.
const LONGEST_MS: f64 = 86_400_000.0;

fn nanoseconds(option: &str, ms: f64) -> Result<u64, String> {
    if ms > 0.0 && ms <= LONGEST_MS {
        return Ok((ms * 1e6) as u64);
    }
    Err(format!("{option} {ms}: the time must be above 0 and at most {LONGEST_MS} milliseconds"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_milliseconds() {
        assert_eq!(nanoseconds("--period", 0.5), Ok(500_000));
        for ms in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
            let error = nanoseconds("--period", ms).unwrap_err();
            assert!(error.starts_with("--period"), "{error}");
        }
    }
}
