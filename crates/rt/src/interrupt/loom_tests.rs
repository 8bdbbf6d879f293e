//! The handshake in every interleaving: no signal is on its way to a thread that no longer waits.

use loom::sync::Arc;
use loom::sync::atomic::AtomicBool;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::thread;

use super::{Interrupter, InterruptibleWait, Signal};

struct Model {
    interrupter: Interrupter,
    wait: InterruptibleWait,
    /// A signal is on its way to the first thread, or the second one. The kernel orders it no more than this.
    pending: [AtomicBool; 2],
}

impl Model {
    fn new() -> Arc<Model> {
        Arc::new(Model {
            interrupter: Interrupter::new(Signal::of_a_model()),
            wait: InterruptibleWait::new(),
            pending: [AtomicBool::new(false), AtomicBool::new(false)],
        })
    }

    fn interrupt(&self) {
        self.interrupter
            .interrupt_by(&self.wait, |thread| self.pending[thread as usize].store(true, Relaxed));
    }

    fn wait(&self, thread: u32, settle: bool) {
        self.wait.announce(thread, 8);
        if self.wait.leave() && settle {
            self.interrupter.settle(|| self.pending[thread as usize].store(false, Relaxed));
        }
        // Here is a call of its own. A signal that is sent now, or was and is not there yet, would interrupt it.
        assert!(!self.is_pending(thread));
    }

    fn is_pending(&self, thread: u32) -> bool {
        self.pending[thread as usize].load(Relaxed)
    }
}

fn one_thread(settle: bool) {
    loom::model(move || {
        let model = Model::new();
        let other = model.clone();
        let interrupts = thread::spawn(move || {
            other.interrupt();
            other.interrupt();
        });
        model.wait(0, settle);
        model.wait(0, settle);
        interrupts.join().unwrap();
        assert!(!model.is_pending(0));
    });
}

#[test]
fn loom_interrupts_reach_nobody_who_waits_no_more() {
    one_thread(true);
}

#[test]
#[should_panic(expected = "is_pending")]
fn loom_interrupts_without_the_handshake_do() {
    one_thread(false);
}

#[test]
fn loom_interrupts_reach_who_waits_and_no_other() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let model = Model::new();
        let turn = Arc::new(AtomicBool::new(false));
        let (first, passes_on) = (model.clone(), turn.clone());
        let interrupts = model.clone();
        let interrupts = thread::spawn(move || interrupts.interrupt());
        let waits = thread::spawn(move || {
            first.wait(0, true);
            passes_on.store(true, Release);
        });
        // One thread at a time waits.
        while !turn.load(Acquire) {
            thread::yield_now();
        }
        model.wait(1, true);
        interrupts.join().unwrap();
        waits.join().unwrap();
        assert!(!model.is_pending(0) && !model.is_pending(1));
    });
}
