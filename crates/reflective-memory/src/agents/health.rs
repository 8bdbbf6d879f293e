//! The state of an area, as the readers of a replica see it.

use crate::memory::State;

/// The last sign of life of the writer's node, the state that it reported, and the age of the
/// latest value: together the state of the replica.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Health {
    fresh_ns: Option<u64>,
    silence_ns: u64,
    arrived_ns: u64,
    written_ns: Option<u64>,
    /// The state that the writer's node reports.
    far: State,
    state: State,
    pub stale: u64,
    pub silent: u64,
    pub is_silent: bool,
}

impl Health {
    /// A value that is older than `fresh_ns` is stale; a node that is silent for `silence_ns`
    /// counts as dead.
    pub fn new(fresh_ns: Option<u64>, silence_ns: u64, now_ns: u64) -> Health {
        Health {
            fresh_ns,
            silence_ns,
            arrived_ns: now_ns,
            written_ns: None,
            far: State::Open,
            state: State::Open,
            stale: 0,
            silent: 0,
            is_silent: false,
        }
    }

    /// The silence is counted from now.
    pub fn begin(&mut self, now_ns: u64) {
        self.arrived_ns = now_ns;
    }

    /// The writer's node reported this state.
    pub fn received(&mut self, far: State, now_ns: u64) {
        self.arrived_ns = now_ns;
        self.far = far;
    }

    /// The state that the writer's node reported last.
    pub fn far(&self) -> State {
        self.far
    }

    /// A value is in the replica.
    pub fn shown(&mut self, written_ns: u64) {
        self.written_ns = Some(written_ns);
    }

    pub fn state(&self) -> State {
        self.state
    }

    /// The new state, if it is another one.
    pub fn check(&mut self, now_ns: u64) -> Option<State> {
        let silent = now_ns.saturating_sub(self.arrived_ns) >= self.silence_ns;
        let age = self.written_ns.map(|written| now_ns.saturating_sub(written));
        let old = matches!((age, self.fresh_ns), (Some(age), Some(limit)) if age >= limit);
        let state = match self.far {
            State::Destroyed => State::Destroyed,
            _ if silent => State::WriterGone,
            // It moved within its node: the agent there follows it.
            State::Open | State::Moved | State::Stale if old => State::Stale,
            State::Open | State::Moved | State::Stale => State::Open,
            far => far,
        };
        self.is_silent = silent;
        if state == self.state {
            return None;
        }
        self.state = state;
        self.stale += u64::from(state == State::Stale);
        self.silent += u64::from(silent);
        Some(state)
    }

    /// The time of the next check if no datagram arrives.
    pub fn next_check(&self) -> Option<u64> {
        // Also after the writer's node reported that the writer is gone: the node may die later.
        let ended = self.is_silent || self.state == State::Destroyed;
        let silence = (!ended).then(|| self.arrived_ns.saturating_add(self.silence_ns));
        let stale = match (self.state, self.written_ns, self.fresh_ns) {
            (State::Open, Some(written), Some(limit)) => Some(written.saturating_add(limit)),
            _ => None,
        };
        match (silence, stale) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}
