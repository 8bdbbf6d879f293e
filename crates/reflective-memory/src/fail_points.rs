//! The steps of a node's server, of the library and of the coordinator, for tests that end their
//! process at any of them.

macro_rules! fail_points {
    ($($point:ident,)*) => {
        /// A step that begins, or has just ended.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[allow(clippy::enum_variant_names, reason = "named as they happen")]
        pub(crate) enum FailPoint { $($point,)* }

        /// All fail points: each stands in a list of a test that ends a process there.
        #[cfg(test)]
        pub(crate) const ALL: &[FailPoint] = &[$(FailPoint::$point,)*];
    };
}

fail_points! {
    // The node's server: areas and libraries.
    Welcomed,
    CreateAsked,
    CreateRegistered,
    Created,
    WriterEntered,
    WriterHandedOver,
    ReaderEntered,
    ReaderHandedOver,
    Detached,
    SessionLeft,
    DestroyTaken,
    DestroyTold,
    DestroyEnded,
    AdoptBegun,
    AdoptRegistered,
    Adopted,
    // Between nodes.
    ReplicaDescribed,
    ReplicaReady,
    ReplicaOpened,
    ReplicaHandedOver,
    ReplicaForgotten,
    ChannelAsked,
    ChannelReplaced,
    ChannelStarted,
    ChannelClosed,
    Rung,
    DatagramMade,
    DatagramSent,
    DatagramCame,
    PieceTaken,
    ValueAboutToShow,
    ValueShown,
    // By calls.
    ValueTaken,
    OnewaySent,
    Settling,
    Settled,
    CallCame,
    CallShown,
    BeatCame,
    // Groups, and channels with two paths.
    GroupAsked,
    GroupMade,
    GroupEntered,
    GroupJoined,
    GroupForgotten,
    GroupLeft,
    GroupEnded,
    ChoiceMade,
    ChoiceSent,
    ChoiceCame,
    // The library.
    HandBackSent,
    HandedBack,
    Resumed,
    Reattached,
    NoticeRead,
    NoticeMade,
    NoticePushed,
    // The coordinator.
    NodeCame,
    NodeStored,
    AreaCame,
    AreaStored,
    AreaLeaves,
    AreaForgotten,
    Located,
}

/// Has no effect in a build; in a test, ends the process at the chosen step.
#[inline(always)]
pub(crate) fn fail_point(_step: FailPoint) {
    #[cfg(test)]
    chosen::look(_step);
}

#[cfg(test)]
pub(crate) mod chosen {
    use super::FailPoint;
    use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

    /// The step's number and one; 0 for none.
    static STEP: AtomicU32 = AtomicU32::new(0);
    /// How often the process passes it before that.
    static LEFT: AtomicI64 = AtomicI64::new(0);

    pub fn choose(step: u32, times: i64) {
        LEFT.store(times, Ordering::Relaxed);
        STEP.store(step + 1, Ordering::Release);
    }

    pub fn look(step: FailPoint) {
        if STEP.load(Ordering::Acquire) == step as u32 + 1 && LEFT.fetch_sub(1, Ordering::AcqRel) == 0 {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
            // Until the signal is delivered.
            loop {
                std::thread::yield_now();
            }
        }
    }
}
