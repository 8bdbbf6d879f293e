//! The signal: which it is, and that it does nothing.

use core::cell::Cell;
use core::fmt;
use core::mem::MaybeUninit;
use core::ptr;
use core::str::FromStr;
use std::sync::{Mutex, PoisonError};

/// Which signal interrupts waits in this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Choice {
    /// The first free real-time signal from the third below the highest downwards: the first and the last few are what
    /// others take.
    #[default]
    Auto,
    /// None: waits keep their own time.
    None,
    /// That one.
    Number(i32),
}

/// Why a choice was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ChoiceError {
    /// It is neither `auto` nor `none` nor the number of a real-time signal, which lie between these.
    Unknown(i32, i32),
    /// Somebody has a handler for it, or has it ignored.
    InUse(i32),
    /// This process interrupts waits by that other one already.
    Decided(i32),
}

impl Choice {
    /// Decides for the process. [`Signal::of_the_process`] gives accordingly from now on.
    ///
    /// # Errors
    /// [`ChoiceError`]; then nothing has changed.
    pub fn decide(self) -> Result<(), ChoiceError> {
        let mut process = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Choice::Number(wanted) = self {
            match process.taken {
                Some(Signal(taken)) if taken != wanted => return Err(ChoiceError::Decided(taken)),
                Some(_) => {}
                None => process.taken = Some(Signal::take(wanted)?),
            }
        }
        process.choice = self;
        Ok(())
    }
}

impl FromStr for Choice {
    type Err = ChoiceError;

    /// `auto`, `none` or a number.
    fn from_str(text: &str) -> Result<Choice, ChoiceError> {
        let (low, high) = range();
        match text {
            "auto" => Ok(Choice::Auto),
            "none" => Ok(Choice::None),
            number => match number.parse() {
                Ok(number) if (low..=high).contains(&number) => Ok(Choice::Number(number)),
                _ => Err(ChoiceError::Unknown(low, high)),
            },
        }
    }
}

impl fmt::Display for ChoiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChoiceError::Unknown(low, high) => {
                write!(f, "it is auto, none or the number of a real-time signal, {low} to {high}")
            }
            ChoiceError::InUse(number) => {
                write!(f, "signal {number} has a handler or is ignored; take another one, auto or none")
            }
            ChoiceError::Decided(number) => {
                write!(f, "this process uses signal {number} for that already, and cannot change")
            }
        }
    }
}

impl std::error::Error for ChoiceError {}

struct Process {
    choice: Choice,
    taken: Option<Signal>,
}

static PROCESS: Mutex<Process> = Mutex::new(Process { choice: Choice::Auto, taken: None });

thread_local! {
    // No destructor, so that threads may wait in other thread-locals' destructors too.
    static UNBLOCKED: Cell<i32> = const { Cell::new(0) };
}

/// A real-time signal of this process whose handler does nothing, so that all it does is to end a call that blocks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Signal(i32);

impl Signal {
    /// The process's, taken when first asked for; `None` if so decided, or if no real-time signal is free.
    ///
    /// # Real-time
    /// A lock without priority inheritance, and system calls the first time. For set-up.
    pub fn of_the_process() -> Option<Signal> {
        let mut process = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
        if process.choice == Choice::None {
            return None;
        }
        let (low, high) = range();
        process.taken =
            process.taken.or_else(|| (low..=high - 3).rev().find_map(|number| Signal::take(number).ok()));
        process.taken
    }

    /// Any, for models, which send none.
    #[cfg(all(test, loom))]
    pub(super) fn of_a_model() -> Signal {
        Signal(0)
    }

    /// Its number, as tools and signal sets know it.
    pub fn number(self) -> i32 {
        self.0
    }

    /// Lets it through to this thread. Asked of the system once a thread; who blocks it later is not found out.
    ///
    /// # Real-time
    /// Neither allocates nor blocks; a system call the first time in a thread.
    #[inline]
    pub fn unblock(self) {
        if UNBLOCKED.get() != self.0 {
            self.unblock_now();
        }
    }

    #[cold]
    fn unblock_now(self) {
        let set = self.set();
        // SAFETY: the set is one, and lives during the call; nobody wants the former mask.
        unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, ptr::null_mut()) };
        UNBLOCKED.set(self.0);
    }

    /// Sends it to a thread of this process; whether there was one, and room in the system's queue of signals.
    pub(super) fn send(self, thread: u32) -> bool {
        let process = std::process::id();
        // SAFETY: three numbers; the handler does nothing, wherever the thread is.
        unsafe { libc::syscall(libc::SYS_tgkill, process, thread, self.0) == 0 }
    }

    /// Once this returns, none that was sent to this thread before is on its way to it. Where the thread let it through, it was delivered when
    /// a system call returned; where not, it has been taken here.
    pub(super) fn receive(self) {
        let set = self.set();
        let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the set and the time live during the call; nobody wants to know who sent it.
        while unsafe { libc::sigtimedwait(&set, ptr::null_mut(), &at_once) } == self.0 {}
    }

    /// Gives a signal without a handler the one that does nothing.
    fn take(number: i32) -> Result<Signal, ChoiceError> {
        let free = |action: libc::sigaction| action.sa_sigaction == libc::SIG_DFL;
        if !free(exchange(number, None).ok_or(ChoiceError::InUse(number))?) {
            return Err(ChoiceError::InUse(number));
        }
        let handler: extern "C" fn(libc::c_int) = nothing;
        // On the thread's own stack for signals if it has one. Without SA_RESTART: to end calls is what it is for.
        let action = (handler as *const () as libc::sighandler_t, libc::SA_ONSTACK);
        let before = exchange(number, Some(action)).ok_or(ChoiceError::InUse(number))?;
        if !free(before) {
            // Somebody was faster by a moment.
            exchange(number, Some((before.sa_sigaction, before.sa_flags)));
            return Err(ChoiceError::InUse(number));
        }
        Ok(Signal(number))
    }

    fn set(self) -> libc::sigset_t {
        let mut set = MaybeUninit::uninit();
        // SAFETY: the first call makes it a set, to which the second adds.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), self.0);
            set.assume_init()
        }
    }
}

extern "C" fn nothing(_: libc::c_int) {}

/// The real-time signals, the C library's own aside.
fn range() -> (i32, i32) {
    (libc::SIGRTMIN(), libc::SIGRTMAX())
}

/// What a signal does, and what it shall do from now on, if that is to change. `None` for a signal that cannot have a handler.
fn exchange(number: i32, to: Option<(libc::sighandler_t, libc::c_int)>) -> Option<libc::sigaction> {
    // SAFETY: all zero is an action: the default one, with no flags and an empty set.
    let (mut new, mut old): (libc::sigaction, libc::sigaction) = unsafe { core::mem::zeroed() };
    let new = to.map_or(ptr::null(), |(handler, flags)| {
        (new.sa_sigaction, new.sa_flags) = (handler, flags);
        &raw const new
    });
    // SAFETY: both actions live during the call, and the handler as long as the process.
    (unsafe { libc::sigaction(number, new, &mut old) } == 0).then_some(old)
}
