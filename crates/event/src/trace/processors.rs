//! Who runs on which processor, so that whoever takes it away can say from whom.

use isorb_rt::sync::atomic::AtomicU64;
use isorb_rt::sync::atomic::Ordering::Relaxed;

/// A place for each level of each processor, where the run stands that began there and has not ended.
///
/// Who begins looks at the places of less urgent levels: a run that stands there has lost the processor to him, for where he runs nobody
/// else does. So a pre-emption is seen by the one who causes it, at the moment when he begins, without asking the kernel. What cannot be
/// seen so: a run that goes on after it had waited for something, in the midst of a less urgent one that has begun meanwhile.
///
/// Threads that are not confined may change their processor. A place that is out of date then is found so by its owner, who alone takes a
/// run away again; see [`Entered::moved`].
pub(super) struct Processors {
    /// Lines of a processor.
    stride: usize,
    lines: Box<[Line]>,
}

/// A line of the cache, so that processors do not disturb each other.
#[repr(align(64))]
#[derive(Default)]
struct Line([AtomicU64; LINE]);

const LINE: usize = 8;

/// A run as its place holds it, in one word; none is 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Word(u64);

impl Word {
    const NONE: Word = Word(0);

    /// The `turn`-th run of the thread with this ring. Turns come again after 65,536, which no run outlives unless it is pre-empted so often.
    fn new(who: u32, ring: u16, turn: u16) -> Word {
        // Rings are counted from 1 here, so that no run is 0.
        Word(u64::from(who) << 32 | u64::from(ring + 1) << 16 | u64::from(turn))
    }

    fn who(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn ring(self) -> u16 {
        (self.0 >> 16) as u16
    }
}

/// A run from which the processor was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Victim {
    /// Its consumer.
    pub who: u32,
    /// Its level.
    pub level: u8,
    word: Word,
}

/// A run that stands in its place.
#[derive(Debug)]
pub(super) struct Entered {
    cpu: usize,
    level: u8,
    word: Word,
    /// What stood in the place before.
    before: Word,
    /// From whom it has the processor.
    pub victim: Option<Victim>,
}

impl Entered {
    /// Its thread is on another processor by now. Then nobody can say how long it had to make way, or whether at all.
    pub(super) fn moved(&self, cpu: usize) -> bool {
        cpu != self.cpu
    }
}

/// Who begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beginner {
    /// The number of its thread's ring.
    pub ring: u16,
    /// How many runs that thread has begun before.
    pub turn: u16,
    /// Another run of its thread waits for it to return: then it takes the processor from nobody but that one, by its consent.
    pub nested: bool,
    pub who: u32,
    pub level: u8,
}

impl Processors {
    /// For `cpus` processors and levels of priority. All memory is taken here.
    pub(super) fn new(cpus: usize, levels: usize) -> Processors {
        let stride = levels.max(1).div_ceil(LINE);
        Processors { stride, lines: (0..cpus * stride).map(|_| Line::default()).collect() }
    }

    fn place(&self, cpu: usize, level: u8) -> Option<&AtomicU64> {
        let level = usize::from(level);
        if level / LINE >= self.stride {
            return None;
        }
        Some(&self.lines.get(cpu * self.stride + level / LINE)?.0[level % LINE])
    }

    /// A run begins on processor `cpu`. `None` for a processor or level that has no place.
    ///
    /// # Real-time
    /// Looks at no more places than there are levels below; neither locks nor waits.
    #[inline]
    pub(super) fn enter(&self, cpu: usize, by: Beginner) -> Option<Entered> {
        let place = self.place(cpu, by.level)?;
        let word = Word::new(by.who, by.ring, by.turn);
        // Nobody else on this processor writes between the two, but one of the same level that takes turns with this thread: then one of
        // the two is not seen, which loses a record and makes up none.
        let before = Word(place.load(Relaxed));
        place.store(word.0, Relaxed);
        let victim = if by.nested { None } else { self.victim(cpu, by.level) };
        Some(Entered { cpu, level: by.level, word, before, victim })
    }

    /// The most urgent of the less urgent runs: the others had lost the processor before.
    fn victim(&self, cpu: usize, level: u8) -> Option<Victim> {
        (0..level).rev().find_map(|level| {
            let word = Word(self.place(cpu, level)?.load(Relaxed));
            (word != Word::NONE).then(|| Victim { who: word.who(), level, word })
        })
    }

    /// A run has ended. Says who gets the processor back, if that run has not ended meanwhile: then it was on another processor.
    #[inline]
    pub(super) fn leave(&self, entered: Entered) -> Option<Victim> {
        let Entered { cpu, level, word, before, victim } = entered;
        // An outer run of this thread goes on; one of another thread may have ended, and did not find itself here.
        let outer = if before.ring() == word.ring() { before } else { Word::NONE };
        if let Some(place) = self.place(cpu, level) {
            // If another run stands there by now, that one will take itself away.
            let _ = place.compare_exchange(word.0, outer.0, Relaxed, Relaxed);
        }
        let victim = victim?;
        let stands = Word(self.place(cpu, victim.level)?.load(Relaxed)) == victim.word;
        stands.then_some(victim)
    }

    /// How many runs stand anywhere.
    #[cfg(test)]
    fn standing(&self) -> usize {
        self.lines.iter().flat_map(|line| &line.0).filter(|place| place.load(Relaxed) != 0).count()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn run(ring: u16, level: u8, who: u32) -> Beginner {
        Beginner { ring, turn: 1, nested: false, who, level }
    }

    fn who(victim: Option<Victim>) -> Option<(u32, u8)> {
        victim.map(|victim| (victim.who, victim.level))
    }

    #[test]
    fn three_levels_take_the_processor_from_each_other_and_give_it_back() {
        let cpus = Processors::new(2, 20);
        let low = cpus.enter(1, run(0, 2, 7)).unwrap();
        let middle = cpus.enter(1, run(1, 9, 8)).unwrap();
        let high = cpus.enter(1, run(2, 19, 9)).unwrap();
        assert_eq!(who(low.victim), None);
        assert_eq!(who(middle.victim), Some((7, 2)));
        assert_eq!(who(high.victim), Some((8, 9)));
        assert_eq!(who(cpus.leave(high)), Some((8, 9)));
        assert_eq!(who(cpus.leave(middle)), Some((7, 2)));
        assert_eq!(who(cpus.leave(low)), None);
        assert_eq!(cpus.standing(), 0);
    }

    #[test]
    fn equals_the_less_urgent_other_processors_and_who_has_ended_lose_nothing() {
        let cpus = Processors::new(2, 4);
        let first = cpus.enter(0, run(0, 2, 1)).unwrap();
        let equal = cpus.enter(0, run(1, 2, 2)).unwrap();
        let lower = cpus.enter(0, run(2, 1, 3)).unwrap();
        let elsewhere = cpus.enter(1, run(3, 3, 4)).unwrap();
        assert_eq!([&equal, &lower, &elsewhere].map(|run| run.victim), [None; 3]);
        [first, equal, lower, elsewhere].into_iter().for_each(|run| assert_eq!(cpus.leave(run), None));
        assert_eq!(cpus.standing(), 0);
        assert_eq!(cpus.enter(0, run(4, 3, 5)).unwrap().victim, None, "nobody is left");
    }

    #[test]
    fn what_a_run_calls_on_its_own_thread_takes_the_processor_from_nobody() {
        let cpus = Processors::new(1, 4);
        let low = cpus.enter(0, run(0, 0, 1)).unwrap();
        let outer = cpus.enter(0, run(1, 1, 2)).unwrap();
        let inner = cpus.enter(0, Beginner { nested: true, turn: 2, ..run(1, 1, 2) }).unwrap();
        assert_eq!(inner.victim, None);
        cpus.leave(inner);
        // The outer one stands again, and can be pre-empted.
        assert_eq!(who(cpus.enter(0, run(2, 3, 4)).unwrap().victim), Some((2, 1)));
        assert_eq!(who(cpus.leave(outer)), Some((1, 0)));
        cpus.leave(low);
    }

    #[test]
    fn a_victim_that_ends_first_was_on_another_processor() {
        let cpus = Processors::new(1, 2);
        let low = cpus.enter(0, run(0, 0, 1)).unwrap();
        let high = cpus.enter(0, run(1, 1, 2)).unwrap();
        assert!(low.moved(1) && !low.moved(0));
        cpus.leave(low);
        let next = cpus.enter(0, Beginner { turn: 2, ..run(0, 0, 1) }).unwrap();
        assert_eq!(cpus.leave(high), None, "the next run of the same consumer is another one");
        cpus.leave(next);
        assert_eq!(cpus.standing(), 0);
    }

    #[test]
    fn who_has_no_place_is_not_seen() {
        let cpus = Processors::new(1, 8);
        assert!(cpus.enter(1, run(0, 0, 1)).is_none() && cpus.enter(0, run(0, 8, 1)).is_none());
        assert!(Processors::new(0, 0).enter(0, run(0, 0, 0)).is_none());
        let all = cpus.enter(0, run(u16::MAX - 1, 7, u32::MAX)).unwrap();
        assert_eq!(cpus.standing(), 1);
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

    fn run(ring: u16, level: u8, who: u32) -> Beginner {
        Beginner { ring, turn: 1, nested: false, who, level }
    }

    /// Runs begin and end as they like, as if threads changed their processors all the time: what is named as a victim is a run that was
    /// there, and when all have ended none stands.
    #[test]
    fn loom_processors_name_only_runs_that_were_there_and_forget_them() {
        loom::model(|| {
            let cpus = Arc::new(Processors::new(1, 2));
            let other = cpus.clone();
            let low = thread::spawn(move || {
                for turn in 1..=2 {
                    let run = other.enter(0, Beginner { turn, ..run(0, 0, 7) }).unwrap();
                    assert_eq!(run.victim, None);
                    other.leave(run);
                }
            });
            let high = cpus.enter(0, run(1, 1, 8)).unwrap();
            let victim = high.victim;
            assert!(victim.is_none_or(|victim| (victim.who, victim.level) == (7, 0)));
            let back = cpus.leave(high);
            assert!(back.is_none() || back == victim);
            low.join().unwrap();
            assert_eq!(cpus.standing(), 0);
        });
    }

    /// Two of a level that take turns on a processor, in any interleaving, never leave a run behind.
    #[test]
    fn loom_processors_equals_take_themselves_away() {
        loom::model(|| {
            let cpus = Arc::new(Processors::new(1, 1));
            let others = cpus.clone();
            let other = thread::spawn(move || {
                let run = others.enter(0, run(0, 0, 7)).unwrap();
                others.leave(run);
            });
            let own = cpus.enter(0, run(1, 0, 8)).unwrap();
            cpus.leave(own);
            other.join().unwrap();
            assert_eq!(cpus.standing(), 0);
        });
    }

    /// Where one has the processor after the other, as the kernel gives it, the victim is always named, and never after its end.
    #[test]
    fn loom_processors_see_who_had_the_processor_before() {
        for ended in [false, true] {
            loom::model(move || {
                let cpus = Arc::new(Processors::new(1, 2));
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
                    assert_eq!(high.victim.map(|victim| victim.who), (!ended).then_some(7));
                    assert_eq!(cpus.leave(high).is_some(), !ended);
                }
                low.join().unwrap().map(|run| cpus.leave(run));
                assert_eq!(cpus.standing(), 0);
            });
        }
    }
}
