//! What a reader asks for and a writer promises, on the command line.

use isorb_reflective_memory::idl::{Mode, Path, ReaderQoS, WriterQoS};

/// As fast as it comes, and no promise.
pub(super) const PLAIN: ReaderQoS = ReaderQoS {
    how: Mode::PushOnWrite,
    period: 0,
    deadline: 0,
    histories: 0,
    guaranteed: false,
    through: Path::PathUdp,
    parity: 0,
};

/// What a reader asks for.
#[derive(Debug, clap::Args)]
pub(super) struct ReaderArgs {
    /// Asks for the latest value so often, in milliseconds, instead of each as it is written.
    #[arg(long, value_name = "MS")]
    every: Option<f64>,
    /// How old a value may be when it can be read, in milliseconds.
    #[arg(long, value_name = "MS")]
    deadline: Option<f64>,
    /// Values kept beside the latest.
    #[arg(long, default_value_t = 0)]
    histories: u32,
    /// Only with that timing, or not at all: the writer's promise and the nodes' capacity are held against it.
    #[arg(long)]
    guaranteed: bool,
    /// How values come from another node.
    #[arg(long, value_enum, default_value = "udp")]
    path: Way,
    /// A parity datagram after so many datagrams; 0 for none.
    #[arg(long, default_value_t = 0)]
    parity: u8,
}

/// How values go from node to node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Way {
    /// Datagrams: the latest value counts.
    Udp,
    /// A call a value, none lost.
    Orb,
    /// Oneway calls, none lost.
    Oneway,
    /// Datagrams that go once to all nodes.
    Multicast,
}

/// What a writer promises.
#[derive(Debug, clap::Args)]
pub(super) struct WriterArgs {
    /// Writes on, so often, in milliseconds, and promises it to guaranteed readers.
    #[arg(long, value_name = "MS")]
    pub period: Option<f64>,
    /// Bytes of the largest value that it will write: guaranteed readers are admitted for no more [default: the area's size].
    #[arg(long, value_name = "BYTES")]
    largest: Option<u32>,
    /// Ends after so many values.
    #[arg(long, requires = "period")]
    pub count: Option<u64>,
}

impl ReaderArgs {
    /// As the service has it.
    ///
    /// # Errors
    /// A time that is none.
    pub(super) fn qos(&self) -> Result<ReaderQoS, String> {
        Ok(ReaderQoS {
            how: if self.every.is_some() { Mode::PeriodicPush } else { Mode::PushOnWrite },
            period: self.every.map_or(Ok(0), |ms| nanoseconds("--every", ms))?,
            deadline: self.deadline.map_or(Ok(0), |ms| nanoseconds("--deadline", ms))?,
            histories: self.histories,
            guaranteed: self.guaranteed,
            through: match self.path {
                Way::Udp => Path::PathUdp,
                Way::Orb => Path::PathOrb,
                Way::Oneway => Path::PathOneway,
                Way::Multicast => Path::PathMulticast,
            },
            parity: self.parity,
        })
    }
}

impl WriterArgs {
    /// As the service has it.
    ///
    /// # Errors
    /// A time that is none.
    pub(super) fn qos(&self) -> Result<WriterQoS, String> {
        let period = self.period.map_or(Ok(0), |ms| nanoseconds("--period", ms))?;
        Ok(WriterQoS { period, size: self.largest.unwrap_or(0) })
    }
}

/// A day is longer than anybody waits for a value.
const LONGEST_MS: f64 = 86_400_000.0;

fn nanoseconds(option: &str, ms: f64) -> Result<u64, String> {
    if ms > 0.0 && ms <= LONGEST_MS {
        return Ok((ms * 1e6) as u64);
    }
    Err(format!("{option} {ms}: give milliseconds above 0 and up to {LONGEST_MS}"))
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
