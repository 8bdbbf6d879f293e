//! Blocks of calls of several contenders, interleaved within one run.
//!
//! One after the other, two subjects see two machines: the second run has another temperature, another neighbour on the
//! host, another layout of memory. So every round lets each contender make one short block, in an order that rotates
//! by one a round, and is compared within the round.
//!
//! After each block everybody rests, for longer the longer the block took: the kernel stalls real-time threads that
//! take more than a share of a second (`sched_rt_runtime_us`), and that stall would be measured as a tail.

use std::time::{Duration, Instant};

use crate::cases::Case;
use crate::process::PeerError;
use crate::protocol::Block;
use crate::stats::{Samples, median};

/// Calls before the clock starts, in each block: what was stopped has cold caches.
const WARM: usize = 20;
/// How long a block should take; long enough for a median, short enough for many rounds.
const BLOCK: Duration = Duration::from_millis(20);
/// The shortest rest after a block.
const SHORTEST_REST: Duration = Duration::from_millis(2);

/// Somebody who makes blocks of calls.
pub trait Contender {
    /// Makes one block; the samples in nanoseconds.
    fn block(&mut self, block: Block) -> Result<Vec<u64>, PeerError>;
}

/// What a contender achieved.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// All samples.
    pub samples: Samples,
    /// The median of each round's block; `None` from the round on in which it failed.
    pub medians: Vec<Option<u64>>,
    /// Why it was not asked further, if it was not.
    pub failed: Option<PeerError>,
}

/// When to end.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Rounds that are made in any case.
    pub at_least: usize,
    /// No round begins after it, beyond those.
    pub until: Instant,
}

/// The block of `case` that takes about as long as one should, judged by a contender's own speed.
pub fn calibrate(contender: &mut impl Contender, case: Case) -> Result<Block, PeerError> {
    let probe = if case.is_burst() { 200 } else { WARM };
    let samples = contender.block(Block { case, warm: WARM, calls: probe })?;
    let ns = u128::from(median(&samples).unwrap_or(0).max(1));
    let fitting = usize::try_from(BLOCK.as_nanos() / ns).unwrap_or(usize::MAX);
    let calls = if case.is_burst() { fitting.clamp(100, 2000) } else { fitting.clamp(20, 300) };
    Ok(Block { case, warm: WARM, calls })
}

/// Rounds of `block`, until the limits; what each contender achieved, in their order. `progress` is called between
/// blocks.
pub fn interleave<C: Contender>(
    contenders: &mut [C],
    block: Block,
    limits: Limits,
    mut progress: impl FnMut(),
) -> Vec<Outcome> {
    let mut outcomes = vec![Outcome::default(); contenders.len()];
    let mut round = 0;
    while round < limits.at_least || Instant::now() < limits.until {
        if outcomes.iter().all(|outcome| outcome.failed.is_some()) {
            break;
        }
        for k in 0..contenders.len() {
            let i = (k + round) % contenders.len();
            let (contender, outcome) = (&mut contenders[i], &mut outcomes[i]);
            if outcome.failed.is_some() {
                outcome.medians.push(None);
                continue;
            }
            let start = Instant::now();
            match contender.block(block) {
                Ok(samples) => {
                    outcome.medians.push(median(&samples));
                    outcome.samples.extend(samples);
                }
                Err(error) => {
                    outcome.medians.push(None);
                    outcome.failed = Some(error);
                }
            }
            std::thread::sleep((start.elapsed() / 3).max(SHORTEST_REST));
            progress();
        }
        round += 1;
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::cases::Kind;
    use crate::process::{Fault, Role};
    use crate::stats::ratio_of_medians;

    struct Fake<'a> {
        name: char,
        ns: u64,
        fails_after: usize,
        log: &'a RefCell<String>,
    }

    impl Contender for Fake<'_> {
        fn block(&mut self, block: Block) -> Result<Vec<u64>, PeerError> {
            self.log.borrow_mut().push(self.name);
            if self.fails_after == 0 {
                return Err(PeerError { subject: "fake", role: Role::Client, fault: Fault::Ended });
            }
            self.fails_after -= 1;
            Ok(vec![self.ns; block.calls])
        }
    }

    const VOID: Case = Case { kind: Kind::Void, size: 0 };

    fn limits(at_least: usize) -> Limits {
        Limits { at_least, until: Instant::now() }
    }

    #[test]
    fn the_order_rotates_and_everybody_has_a_block_a_round() {
        let log = RefCell::new(String::new());
        let mut all = ['a', 'b', 'c'].map(|name| Fake { name, ns: 5, fails_after: 9, log: &log });
        let mut blocks = 0;
        let outcomes =
            interleave(&mut all, Block { case: VOID, warm: 0, calls: 4 }, limits(4), || blocks += 1);
        assert_eq!(*log.borrow(), "abcbcacababc");
        assert_eq!(blocks, 12);
        for outcome in outcomes {
            assert_eq!((outcome.samples.summary().n, outcome.medians), (16, vec![Some(5); 4]));
        }
    }

    #[test]
    fn who_fails_is_not_asked_again_and_does_not_end_the_run() {
        let log = RefCell::new(String::new());
        let fake = |name, ns, fails_after| Fake { name, ns, fails_after, log: &log };
        let mut both = [fake('a', 10, 9), fake('b', 15, 2)];
        let outcomes = interleave(&mut both, Block { case: VOID, warm: 0, calls: 1 }, limits(5), || ());
        assert_eq!(outcomes[1].medians, [Some(15), Some(15), None, None, None]);
        assert_eq!(outcomes[1].failed.unwrap().fault, Fault::Ended);
        assert_eq!(log.borrow().matches('b').count(), 3);
        assert_eq!(outcomes[0].medians.len(), 5);
        assert_eq!(ratio_of_medians(&outcomes[1].medians, &outcomes[0].medians), Some(1.5));

        let mut none = [fake('a', 10, 0)];
        let outcomes = interleave(&mut none, Block { case: VOID, warm: 0, calls: 1 }, limits(5), || ());
        assert_eq!(outcomes[0].medians, [None], "nobody is left");
    }

    #[test]
    fn a_block_fits_the_speed() {
        let log = RefCell::new(String::new());
        let calls = |ns, case| {
            let mut fake = Fake { name: 'a', ns, fails_after: 9, log: &log };
            calibrate(&mut fake, case).unwrap().calls
        };
        assert_eq!(calls(14_000, VOID), 300);
        assert_eq!(calls(200_000, VOID), 100);
        assert_eq!(calls(5_000_000, VOID), 20);
        assert_eq!(calls(0, Case { kind: Kind::Oneway, size: 64 }), 2000);
    }
}
