//! How the link between the hosts is: its rate, and the order in which it sends.

use crate::LabError;
use crate::tool::tc;

/// The link, the same in both directions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkSpec {
    /// Kilobits a second, at least 64.
    pub rate_kbit: u32,
    /// What is sent first when more waits than the link carries.
    pub sorting: Sorting,
}

/// The order in which a link sends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sorting {
    /// First come, first sent, `packets` at most; more are dropped. The control of every experiment
    /// on priorities.
    OneQueue {
        /// Places in the queue.
        packets: u32,
    },
    /// A class for each group of DSCP values (hierarchical token buckets), each with a share of the
    /// rate that it always gets, and the urgent ones first at what the others leave. What matches
    /// no class shares the rest.
    ByDscp {
        /// The classes, the most urgent first; at most seven, the kernel's priorities less one.
        classes: Vec<Class>,
        /// Places in the queue of each class.
        packets: u32,
    },
    /// Three bands by the sockets' priority (`SO_PRIORITY`), sent in strict order: 6 and 7, then 0,
    /// 4, 5 and 8 to 15, then 1, 2 and 3 (the kernel's `pfifo_fast`).
    BySocketPriority,
}

/// A class of packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Class {
    /// The differentiated-services code points in it, 0 to 63.
    pub dscp: Vec<u8>,
    /// Its share of the link's rate in percent, 1 to 90.
    pub share: u32,
}

impl Sorting {
    /// One queue, about 100 full packets: 12 ms at 100 Mbit a second.
    pub fn one_queue() -> Sorting {
        Sorting::OneQueue { packets: 100 }
    }

    /// As [`one_queue`](Sorting::one_queue), and one class above it for `dscp` with half of the
    /// rate.
    pub fn urgent(dscp: u8) -> Sorting {
        Sorting::ByDscp { classes: vec![Class { dscp: vec![dscp], share: 50 }], packets: 100 }
    }
}

/// Octets of a full packet on the link.
const PACKET: u32 = 1514;

/// Makes `interface` in `namespace` send as `spec` says.
pub(crate) fn shape(namespace: &str, interface: &str, spec: &LinkSpec) -> Result<(), LabError> {
    commands(spec)
        .iter()
        .try_for_each(|words| tc(&format!("-n {namespace} {}", words.replace("DEV", interface))).map(drop))
}

/// The arguments for `tc`, with DEV for the interface.
fn commands(spec: &LinkSpec) -> Vec<String> {
    let rate = spec.rate_kbit.max(64);
    // Two packets may go at once, so that a queue is not idle for want of a timer tick.
    let burst = 2 * PACKET;
    match &spec.sorting {
        Sorting::OneQueue { packets } => {
            let limit = packets.max(&1) * PACKET;
            vec![format!("qdisc add dev DEV root tbf rate {rate}kbit burst {burst} limit {limit}")]
        }
        Sorting::BySocketPriority => vec![
            format!(
                "qdisc add dev DEV root handle 1: tbf rate {rate}kbit burst {burst} limit {}",
                100 * PACKET
            ),
            "qdisc add dev DEV parent 1:1 handle 10: pfifo_fast".to_owned(),
        ],
        Sorting::ByDscp { classes, packets } => by_dscp(rate, burst, classes, (*packets).max(1)),
    }
}

fn by_dscp(rate: u32, burst: u32, classes: &[Class], packets: u32) -> Vec<String> {
    /// Of HTB.
    const LOWEST: usize = 7;
    let classes = &classes[..classes.len().min(LOWEST)];
    let bucket = format!("burst {burst} cburst {burst} quantum {PACKET}");
    let mut all = vec![
        format!("qdisc add dev DEV root handle 1: htb default {}", 10 + classes.len()),
        format!("class add dev DEV parent 1: classid 1:1 htb rate {rate}kbit ceil {rate}kbit {bucket}"),
    ];
    // Of the urgent class whatever it sends must go at once, so it gets its share and may take
    // everything.
    let mut class = |number: usize, share: u32, priority: usize| {
        let own = (u64::from(rate) * u64::from(share.clamp(1, 90)) / 100).max(8);
        all.push(format!(
            "class add dev DEV parent 1:1 classid 1:{number} htb rate {own}kbit ceil {rate}kbit prio {priority} {bucket}"
        ));
        all.push(format!(
            "qdisc add dev DEV parent 1:{number} handle {}: pfifo limit {packets}",
            100 + number
        ));
    };
    for (i, c) in classes.iter().enumerate() {
        class(10 + i, c.share, i);
    }
    let taken: u32 = classes.iter().map(|c| c.share.clamp(1, 90)).sum();
    class(10 + classes.len(), 100u32.saturating_sub(taken), LOWEST);
    for (i, c) in classes.iter().enumerate() {
        for dscp in &c.dscp {
            // The two low bits of the octet are for congestion marks.
            let octet = (dscp & 63) << 2;
            all.push(format!(
                "filter add dev DEV parent 1: protocol ip prio 1 u32 match ip dsfield {octet:#04x} 0xfc flowid 1:{}",
                10 + i
            ));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_queue_is_one_command() {
        let spec = LinkSpec { rate_kbit: 100_000, sorting: Sorting::one_queue() };
        assert_eq!(commands(&spec), ["qdisc add dev DEV root tbf rate 100000kbit burst 3028 limit 151400"]);
    }

    #[test]
    fn classes_share_the_rate_and_the_rest_goes_to_what_matches_none() {
        let classes = vec![Class { dscp: vec![46, 40], share: 30 }, Class { dscp: vec![10], share: 20 }];
        let all = commands(&LinkSpec { rate_kbit: 1000, sorting: Sorting::ByDscp { classes, packets: 50 } });
        let has = |part: &str| assert!(all.iter().any(|c| c.contains(part)), "{part} is not in {all:#?}");
        has("htb default 12");
        has("classid 1:10 htb rate 300kbit ceil 1000kbit prio 0");
        has("classid 1:11 htb rate 200kbit ceil 1000kbit prio 1");
        has("classid 1:12 htb rate 500kbit ceil 1000kbit prio 7");
        has("dsfield 0xb8 0xfc flowid 1:10");
        has("dsfield 0xa0 0xfc flowid 1:10");
        has("dsfield 0x28 0xfc flowid 1:11");
        assert_eq!(all.len(), 2 + 3 * 2 + 3);
    }

    #[test]
    fn shares_that_are_too_large_leave_something_for_the_others() {
        let classes = vec![Class { dscp: vec![46], share: 90 }, Class { dscp: vec![40], share: 90 }];
        let all = commands(&LinkSpec { rate_kbit: 0, sorting: Sorting::ByDscp { classes, packets: 0 } });
        assert!(all.iter().any(|c| c.contains("classid 1:12 htb rate 8kbit ceil 64kbit")), "{all:#?}");
    }
}
