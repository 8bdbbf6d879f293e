//! The costs of agents, as numbers and as text.

use crate::wire::Channel;
use core::fmt;
use core::str::FromStr;

/// The costs of agents on this machine, in the worst case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// Selecting an agent, without a copy.
    pub push_ns: u64,
    /// Sending or receiving a datagram, with its system call.
    pub datagram_ns: u64,
    /// Copying a kibibyte, all copies together.
    pub kib_ns: u64,
    /// A call of the ORB, at the dearer end. None: not known, and no channel on the ORB's path is
    /// guaranteed.
    pub call_ns: Option<u64>,
}

/// The cost of a call on a slow machine.
const GUESSED_CALL: u64 = 200_000;

impl Default for Costs {
    /// The costs of a slow machine, for systems that were not measured.
    fn default() -> Costs {
        Costs { push_ns: 10_000, datagram_ns: 10_000, kib_ns: 1_000, call_ns: Some(GUESSED_CALL) }
    }
}

impl Costs {
    /// Processor time for one value of the channel's size.
    pub fn of(&self, channel: &Channel) -> u64 {
        let datagrams = channel.datagrams(channel.size) as u64;
        let kib = (channel.size as u64).div_ceil(1024);
        self.push_ns
            .saturating_add(datagrams.saturating_mul(self.datagram_ns))
            .saturating_add(kib.saturating_mul(self.kib_ns))
    }

    /// Processor time for one value of this size by a call, and for the heartbeat that may precede
    /// it.
    pub fn of_calls(&self, size: usize) -> u64 {
        /// Octets of a TCP segment, each of which may wake the receiver.
        const SEGMENT: u64 = 1400;
        let (size, call_ns) = (size as u64, self.call_ns.unwrap_or(GUESSED_CALL));
        self.push_ns
            .saturating_add(call_ns.saturating_mul(2))
            .saturating_add(size.div_ceil(SEGMENT).saturating_mul(self.datagram_ns))
            .saturating_add(size.div_ceil(1024).saturating_mul(self.kib_ns))
    }
}

/// As [`FromStr`] reads it.
impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "push={},datagram={},kib={}", self.push_ns, self.datagram_ns, self.kib_ns)?;
        self.call_ns.map_or(Ok(()), |call_ns| write!(f, ",call={call_ns}"))
    }
}

/// A text that is no costs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CostsError(String);

impl fmt::Display for CostsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; costs are nanoseconds, as in {}", self.0, Costs::default())
    }
}

impl core::error::Error for CostsError {}

/// The largest cost in a text: a second, in nanoseconds.
pub const MAX_COST: u64 = 1_000_000_000;

/// Nanoseconds by name, each once and at most [`MAX_COST`]:
/// `push=10000,datagram=10000,kib=1000,call=200000`. The last may be left out.
impl FromStr for Costs {
    type Err = CostsError;

    fn from_str(text: &str) -> Result<Costs, CostsError> {
        let (mut push, mut datagram, mut kib, mut call) = (None, None, None, None);
        for part in text.split(',') {
            let (name, number) =
                part.split_once('=').ok_or_else(|| CostsError(format!("{part:?} has no =")))?;
            let which = match name.trim() {
                "push" => &mut push,
                "datagram" => &mut datagram,
                "kib" => &mut kib,
                "call" => &mut call,
                other => return Err(CostsError(format!("there is no cost {other:?}"))),
            };
            let ns: u64 =
                number.trim().parse().map_err(|_| CostsError(format!("{number:?} is no whole number")))?;
            if ns > MAX_COST {
                return Err(CostsError(format!("{ns} is more than a second, {MAX_COST}")));
            }
            if which.replace(ns).is_some() {
                return Err(CostsError(format!("{name} is there twice")));
            }
        }
        let missing = |name: &str| CostsError(format!("{name} is missing"));
        Ok(Costs {
            push_ns: push.ok_or_else(|| missing("push"))?,
            datagram_ns: datagram.ok_or_else(|| missing("datagram"))?,
            kib_ns: kib.ok_or_else(|| missing("kib"))?,
            call_ns: call,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read() {
        let costs = Costs { push_ns: 1, datagram_ns: 22, kib_ns: MAX_COST, call_ns: Some(5) };
        assert_eq!(costs.to_string().parse(), Ok(costs));
        let without = Costs { push_ns: 1, datagram_ns: 2, kib_ns: 3, call_ns: None };
        assert_eq!("kib=3, push=1 ,datagram=2".parse(), Ok(without));
        assert_eq!(without.to_string().parse(), Ok(without));
        for (text, why) in [
            ("", "has no ="),
            ("push=1,kib=2", "datagram is missing"),
            ("push=1,push=1,datagram=1,kib=1", "push is there twice"),
            ("push=1.5,datagram=1,kib=1", "\"1.5\" is no whole number"),
            ("push=-1,datagram=1,kib=1", "\"-1\" is no whole number"),
            ("push=1,datagram=1000000001,kib=1", "1000000001 is more than a second"),
            ("pull=1", "no cost \"pull\""),
        ] {
            let error = text.parse::<Costs>().unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("push=10000,"), "{error}");
        }
    }
}
