//! The table of runs on each processor, from which a run that begins learns which run it pre-empts.

use isorb_rt::sync::atomic::AtomicU64;
use isorb_rt::sync::atomic::Ordering::Relaxed;

/// One slot for each level of each processor. It holds the run that began there and has not ended.
///
/// A run that begins reads the slots of less urgent levels. A run in such a slot has lost the
/// processor to it, because a processor runs one thread at a time. So the thread that causes a
/// pre-emption sees it at the moment when it begins, without a system call. One case is not seen: a
/// run that waited and goes on in the middle of a less urgent one that began meanwhile.
///
/// Threads that are not confined to a processor may move. Then a slot is out of date; its owner,
/// the only thread that clears it, finds this out when the run ends ([`OccupiedSlot::cpu`]).
pub(crate) struct ProcessorTable {
    /// Cache lines of one processor.
    stride: usize,
    lines: Box<[Line]>,
}

/// A cache line, so that processors do not disturb each other.
#[repr(align(64))]
#[derive(Default)]
struct Line([AtomicU64; LINE]);

const LINE: usize = 8;

/// A run as its slot holds it, in one word. An empty slot is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct PackedRun(u64);

impl PackedRun {
    const NONE: PackedRun = PackedRun(0);

    /// The `turn`-th run of the thread with this ring. Turns repeat after 65,536; no run lasts so
    /// long unless it is pre-empted that often.
    fn new(id: u32, ring: u16, turn: u16) -> PackedRun {
        // Rings are counted from 1 here, so that no run is 0.
        PackedRun(u64::from(id) << 32 | u64::from(ring + 1) << 16 | u64::from(turn))
    }

    fn id(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn ring(self) -> u16 {
        (self.0 >> 16) as u16
    }
}

/// A run that lost the processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PreemptedRun {
    /// Its consumer.
    pub id: u32,
    /// Its level.
    pub level: u8,
    packed: PackedRun,
}

/// The slot that a run has taken, until [`ProcessorTable::leave`].
#[derive(Debug)]
pub(crate) struct OccupiedSlot {
    cpu: usize,
    level: u8,
    packed: PackedRun,
    /// The slot's content before.
    before: PackedRun,
    /// The run that lost the processor to this one.
    pub preempted: Option<PreemptedRun>,
}

impl OccupiedSlot {
    /// The processor on which the run began.
    pub(crate) fn cpu(&self) -> usize {
        self.cpu
    }
}

/// A run that begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunStart {
    /// The number of its thread's ring.
    pub ring: u16,
    /// How many runs that thread began before.
    pub turn: u16,
    /// Another run of its thread waits for it to return. Then it pre-empts only that one, which
    /// yielded.
    pub nested: bool,
    /// Its consumer.
    pub id: u32,
    /// Its level.
    pub level: u8,
}

impl ProcessorTable {
    /// A table of `cpus` processors and `levels` priority levels. All memory is allocated here.
    pub(crate) fn new(cpus: usize, levels: usize) -> ProcessorTable {
        let stride = levels.max(1).div_ceil(LINE);
        ProcessorTable { stride, lines: (0..cpus * stride).map(|_| Line::default()).collect() }
    }

    fn slot(&self, cpu: usize, level: u8) -> Option<&AtomicU64> {
        let level = usize::from(level);
        if level / LINE >= self.stride {
            return None;
        }
        Some(&self.lines.get(cpu * self.stride + level / LINE)?.0[level % LINE])
    }

    /// Enters a run that begins on processor `cpu`. `None` for a processor or level without a slot.
    ///
    /// # Real-time
    /// Reads at most one slot for each less urgent level; neither locks nor waits.
    #[inline]
    pub(crate) fn enter(&self, cpu: usize, start: RunStart) -> Option<OccupiedSlot> {
        let slot = self.slot(cpu, start.level)?;
        let packed = PackedRun::new(start.id, start.ring, start.turn);
        // Between the two only a thread of the same level that alternates with this one on this
        // processor can write. Then one of the two runs is not seen: a record is lost, none is
        // invented.
        let before = PackedRun(slot.load(Relaxed));
        slot.store(packed.0, Relaxed);
        let preempted = if start.nested { None } else { self.preempted(cpu, start.level) };
        Some(OccupiedSlot { cpu, level: start.level, packed, before, preempted })
    }

    /// The most urgent of the less urgent runs. The others had lost the processor before.
    fn preempted(&self, cpu: usize, level: u8) -> Option<PreemptedRun> {
        (0..level).rev().find_map(|level| {
            let packed = PackedRun(self.slot(cpu, level)?.load(Relaxed));
            (packed != PackedRun::NONE).then(|| PreemptedRun { id: packed.id(), level, packed })
        })
    }

    /// Removes a run that has ended. Returns the run that gets the processor back, unless it has
    /// ended meanwhile on another processor.
    #[inline]
    pub(crate) fn leave(&self, occupied: OccupiedSlot) -> Option<PreemptedRun> {
        let OccupiedSlot { cpu, level, packed, before, preempted } = occupied;
        // An outer run of this thread goes on. One of another thread may have ended without finding
        // itself.
        let outer = if before.ring() == packed.ring() { before } else { PackedRun::NONE };
        if let Some(slot) = self.slot(cpu, level) {
            // If another run has taken the slot, that run clears it.
            let _ = slot.compare_exchange(packed.0, outer.0, Relaxed, Relaxed);
        }
        let preempted = preempted?;
        let current = PackedRun(self.slot(cpu, preempted.level)?.load(Relaxed));
        (current == preempted.packed).then_some(preempted)
    }

    /// The number of occupied slots.
    #[cfg(test)]
    fn occupied(&self) -> usize {
        self.lines.iter().flat_map(|line| &line.0).filter(|slot| slot.load(Relaxed) != 0).count()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn run(ring: u16, level: u8, id: u32) -> RunStart {
        RunStart { ring, turn: 1, nested: false, id, level }
    }

    fn id_and_level(run: Option<PreemptedRun>) -> Option<(u32, u8)> {
        run.map(|run| (run.id, run.level))
    }

    #[test]
    fn three_levels_preempt_each_other_and_resume() {
        let cpus = ProcessorTable::new(2, 20);
        let low = cpus.enter(1, run(0, 2, 7)).unwrap();
        let middle = cpus.enter(1, run(1, 9, 8)).unwrap();
        let high = cpus.enter(1, run(2, 19, 9)).unwrap();
        assert_eq!(id_and_level(low.preempted), None);
        assert_eq!(id_and_level(middle.preempted), Some((7, 2)));
        assert_eq!(id_and_level(high.preempted), Some((8, 9)));
        assert_eq!(id_and_level(cpus.leave(high)), Some((8, 9)));
        assert_eq!(id_and_level(cpus.leave(middle)), Some((7, 2)));
        assert_eq!(id_and_level(cpus.leave(low)), None);
        assert_eq!(cpus.occupied(), 0);
    }

    #[test]
    fn equals_less_urgent_runs_other_processors_and_ended_runs_are_not_preempted() {
        let cpus = ProcessorTable::new(2, 4);
        let first = cpus.enter(0, run(0, 2, 1)).unwrap();
        let equal = cpus.enter(0, run(1, 2, 2)).unwrap();
        let lower = cpus.enter(0, run(2, 1, 3)).unwrap();
        let elsewhere = cpus.enter(1, run(3, 3, 4)).unwrap();
        assert_eq!([&equal, &lower, &elsewhere].map(|run| run.preempted), [None; 3]);
        [first, equal, lower, elsewhere].into_iter().for_each(|run| assert_eq!(cpus.leave(run), None));
        assert_eq!(cpus.occupied(), 0);
        assert_eq!(cpus.enter(0, run(4, 3, 5)).unwrap().preempted, None, "no run is left");
    }

    #[test]
    fn a_nested_run_on_the_same_thread_preempts_no_other_run() {
        let cpus = ProcessorTable::new(1, 4);
        let low = cpus.enter(0, run(0, 0, 1)).unwrap();
        let outer = cpus.enter(0, run(1, 1, 2)).unwrap();
        let inner = cpus.enter(0, RunStart { nested: true, turn: 2, ..run(1, 1, 2) }).unwrap();
        assert_eq!(inner.preempted, None);
        cpus.leave(inner);
        // The outer run has its slot again, and can be pre-empted.
        assert_eq!(id_and_level(cpus.enter(0, run(2, 3, 4)).unwrap().preempted), Some((2, 1)));
        assert_eq!(id_and_level(cpus.leave(outer)), Some((1, 0)));
        cpus.leave(low);
    }

    #[test]
    fn a_preempted_run_that_ends_first_was_on_another_processor() {
        let cpus = ProcessorTable::new(1, 2);
        let low = cpus.enter(0, run(0, 0, 1)).unwrap();
        let high = cpus.enter(0, run(1, 1, 2)).unwrap();
        assert_eq!(low.cpu(), 0);
        cpus.leave(low);
        let next = cpus.enter(0, RunStart { turn: 2, ..run(0, 0, 1) }).unwrap();
        assert_eq!(cpus.leave(high), None, "the next run of the same consumer is another one");
        cpus.leave(next);
        assert_eq!(cpus.occupied(), 0);
    }

    #[test]
    fn a_run_without_a_slot_is_not_seen() {
        let cpus = ProcessorTable::new(1, 8);
        assert!(cpus.enter(1, run(0, 0, 1)).is_none() && cpus.enter(0, run(0, 8, 1)).is_none());
        assert!(ProcessorTable::new(0, 0).enter(0, run(0, 0, 0)).is_none());
        let all = cpus.enter(0, run(u16::MAX - 1, 7, u32::MAX)).unwrap();
        assert_eq!(cpus.occupied(), 1);
        cpus.leave(all);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use isorb_rt::sync::atomic::AtomicBool;
    use isorb_rt::sync::atomic::Ordering::{Acquire, Release};
    use loom::sync::Arc;
    use loom::thread;

    fn run(ring: u16, level: u8, id: u32) -> RunStart {
        RunStart { ring, turn: 1, nested: false, id, level }
    }

    /// Runs begin and end in any order, as if threads changed their processors all the time. A run
    /// that is reported as pre-empted was there, and when all runs have ended no slot is occupied.
    #[test]
    fn loom_processors_report_only_runs_that_were_there() {
        loom::model(|| {
            let cpus = Arc::new(ProcessorTable::new(1, 2));
            let other = cpus.clone();
            let low = thread::spawn(move || {
                for turn in 1..=2 {
                    let run = other.enter(0, RunStart { turn, ..run(0, 0, 7) }).unwrap();
                    assert_eq!(run.preempted, None);
                    other.leave(run);
                }
            });
            let high = cpus.enter(0, run(1, 1, 8)).unwrap();
            let preempted = high.preempted;
            assert!(preempted.is_none_or(|run| (run.id, run.level) == (7, 0)));
            let back = cpus.leave(high);
            assert!(back.is_none() || back == preempted);
            low.join().unwrap();
            assert_eq!(cpus.occupied(), 0);
        });
    }

    /// Two threads of one level that alternate on a processor never leave a run behind.
    #[test]
    fn loom_processors_equal_levels_clear_their_slots() {
        loom::model(|| {
            let cpus = Arc::new(ProcessorTable::new(1, 1));
            let others = cpus.clone();
            let other = thread::spawn(move || {
                let run = others.enter(0, run(0, 0, 7)).unwrap();
                others.leave(run);
            });
            let own = cpus.enter(0, run(1, 0, 8)).unwrap();
            cpus.leave(own);
            other.join().unwrap();
            assert_eq!(cpus.occupied(), 0);
        });
    }

    /// If the threads run one after the other, as the kernel schedules them, the pre-empted run is
    /// always reported, and never after its end.
    #[test]
    fn loom_processors_see_the_run_before() {
        for ended in [false, true] {
            loom::model(move || {
                let cpus = Arc::new(ProcessorTable::new(1, 2));
                let switched = Arc::new(AtomicBool::new(false));
                let (other, switch) = (cpus.clone(), switched.clone());
                let low = thread::spawn(move || {
                    let run = other.enter(0, run(0, 0, 7)).unwrap();
                    let mut run = Some(run);
                    if ended {
                        run.take().map(|run| other.leave(run));
                    }
                    switch.store(true, Release);
                    run
                });
                if switched.load(Acquire) {
                    let high = cpus.enter(0, run(1, 1, 8)).unwrap();
                    assert_eq!(high.preempted.map(|run| run.id), (!ended).then_some(7));
                    assert_eq!(cpus.leave(high).is_some(), !ended);
                }
                low.join().unwrap().map(|run| cpus.leave(run));
                assert_eq!(cpus.occupied(), 0);
            });
        }
    }
}
