//! Operations and what makes them run: the task graph of a configuration (`RT_Info` in the real-time event service).
//!
//! An operation runs by itself, every period, or because others ran. From the graph come the tasks: one for each operation and each
//! stream of releases that reaches it.
//!
//! ```text
//!   imu 30 Hz ──one-way──► fuse (conjunction) ──► navigate ──two-way──► filter
//!   gps  5 Hz ──one-way──►  at the slowest: 5 Hz      its cost and the filter's
//! ```

use crate::{Criticality, Importance, Nanos};
use std::collections::BTreeMap;
use std::fmt;

/// Tasks that may come of one graph. Each dependency hands on every stream of the other, so that a few dozen operations could ask
/// for more than fit into any memory.
pub const MOST_TASKS: usize = 16_384;
/// Pairs of a task and one after whose end it may come. Where many ways lead from one clock to an operation, each of its tasks
/// has as many as there are ways.
pub const MOST_RELEASES: usize = 65_536;

/// An operation, by its place in its [`Graph`].
pub type OperationId = usize;

/// What an operation is (`RtecScheduler::Info_Type_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Kind {
    /// Work. Each of those it depends on releases it, so its rates add up as in a disjunction.
    #[default]
    Operation,
    /// Released when all it depends on have run: at the rate of the slowest.
    Conjunction,
    /// Released when any of them has run: the rates add up.
    Disjunction,
    /// Work on another host that depends on this one: it hands rates on and costs nothing here.
    RemoteDependant,
}

/// How one operation depends on another (`RtecScheduler::Dependency_Type_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Call {
    /// It is released when the other has run, so many times for each run: an event.
    OneWay,
    /// It calls the other, so many times each time it runs, and waits: the other's cost is part of its own.
    TwoWay,
}

/// A dependency of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dependency {
    /// On this one.
    pub on: OperationId,
    /// How.
    pub call: Call,
    /// How many times.
    pub times: u32,
}

/// Everything that is known of an operation (`RtecScheduler::RT_Info`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Its entry point, unique in the graph.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// The worst-case execution time of one run, without that of operations it calls.
    pub worst: Nanos,
    /// The typical one; for people.
    pub typical: Nanos,
    /// The worst one when its data are cached: what the second and further calls from one run cost. Zero where there is no such saving.
    pub cached: Nanos,
    /// Its own period; zero is passive, released by others only.
    pub period: Nanos,
    /// From the arrival of what set it off to its end; `None` is the period of the stream that releases it.
    pub deadline: Option<Nanos>,
    /// How late it may become ready by itself.
    pub jitter: Nanos,
    /// Blocking besides that by resources.
    pub blocking: Nanos,
    /// The longest piece without preemption, where that is deferred.
    pub section: Option<Nanos>,
    /// Its first arrival, in the simulator.
    pub offset: Nanos,
    /// Its priority under [`crate::Policy::Declared`].
    pub priority: u32,
    /// The user's word on its significance.
    pub criticality: Criticality,
    /// Breaks ties.
    pub importance: Importance,
    /// The time slice of a background operation; carried, not used: a real-time thread is not sliced.
    pub quantum: Nanos,
    /// Threads of its own; with none it runs on the dispatcher's. Carried, not used.
    pub threads: u32,
    /// What it depends on.
    pub dependencies: Vec<Dependency>,
    /// The resources that it holds, each by its place, and for how long at a time.
    pub holds: Vec<(usize, Nanos)>,
}

impl Operation {
    /// An operation of that name of which nothing is known yet.
    pub fn new(name: impl Into<String>) -> Operation {
        Operation {
            name: name.into(),
            kind: Kind::Operation,
            worst: Nanos::ZERO,
            typical: Nanos::ZERO,
            cached: Nanos::ZERO,
            period: Nanos::ZERO,
            deadline: None,
            jitter: Nanos::ZERO,
            blocking: Nanos::ZERO,
            section: None,
            offset: Nanos::ZERO,
            priority: 0,
            criticality: Criticality::default(),
            importance: Importance::default(),
            quantum: Nanos::ZERO,
            threads: 0,
            dependencies: Vec::new(),
            holds: Vec::new(),
        }
    }
}

/// A mutex that operations share under the priority ceiling protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// Its name.
    pub name: String,
    /// The ceiling that is set at run time, where it is known; it must be no lower than the priority of any user.
    pub ceiling: Option<u32>,
}

/// Operations, by place, and what they depend on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Graph {
    operations: Vec<Operation>,
    names: BTreeMap<String, OperationId>,
    /// What operations share.
    pub resources: Vec<Resource>,
}

/// What is wrong with a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GraphError {
    /// Two operations of one name.
    Duplicate {
        /// That name.
        name: String,
    },
    /// A dependency on an operation that is not there.
    Unknown {
        /// Whose.
        name: String,
    },
    /// Operations that depend on each other in a circle.
    Cycle {
        /// The circle; its first is its last.
        path: Vec<String>,
    },
    /// An operation depends on nobody, and has no period.
    Idle {
        /// That operation.
        name: String,
    },
    /// So many ways lead to an operation that the tasks of the graph become more than [`MOST_TASKS`], or those that release each other
    /// more than [`MOST_RELEASES`].
    TooMany {
        /// The operation at which there were too many.
        name: String,
        /// How many streams would release it.
        streams: usize,
    },
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GraphError::Duplicate { name } => write!(f, "{name}: there is an operation of this name already"),
            GraphError::Unknown { name } => {
                write!(f, "{name}: it depends on an operation that does not exist")
            }
            GraphError::Cycle { path } => {
                write!(f, "{}: it depends on itself: {}", path[0], path.join(" -> "))
            }
            GraphError::Idle { name } => {
                write!(f, "{name}: its period is zero, and no operation releases or calls it")
            }
            GraphError::TooMany { name, streams } => write!(
                f,
                "{name}: {streams} streams release it, one for each way from a clock; a graph may have {MOST_TASKS} tasks and {MOST_RELEASES} \
                 releases of one by another: join ways by a conjunction, or say how often by the number of calls"
            ),
        }
    }
}

impl std::error::Error for GraphError {}

/// A stream of releases of one operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// The operation whose clock it is, in the end.
    pub origin: OperationId,
    /// The operation after whose run it comes; the operation itself where it is its own. What only joins streams is looked through.
    pub from: OperationId,
    /// How far apart arrivals of the origin are, at least.
    pub period: Nanos,
    /// Releases for each arrival.
    pub times: u32,
    /// How late a release may be besides what `from` takes.
    pub wait: Nanos,
    /// The faster members of a conjunction: it waits for the next run of each.
    pub faster: Vec<Faster>,
}

/// A faster member of a conjunction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Faster {
    /// The operation after whose run it comes.
    pub from: OperationId,
    /// The operation whose clock it is.
    pub origin: OperationId,
    /// The next arrival is at most so far away.
    pub period: Nanos,
}

impl Graph {
    /// No operations yet.
    #[must_use]
    pub fn new() -> Graph {
        Graph::default()
    }

    /// Adds an operation.
    ///
    /// # Errors
    /// [`GraphError::Duplicate`].
    pub fn add(&mut self, operation: Operation) -> Result<OperationId, GraphError> {
        let id = self.operations.len();
        if self.names.contains_key(&operation.name) {
            return Err(GraphError::Duplicate { name: operation.name });
        }
        self.names.insert(operation.name.clone(), id);
        self.operations.push(operation);
        Ok(id)
    }

    /// The operation of that name.
    #[must_use]
    pub fn lookup(&self, name: &str) -> Option<OperationId> {
        self.names.get(name).copied()
    }

    /// An operation.
    #[must_use]
    pub fn get(&self, id: OperationId) -> Option<&Operation> {
        self.operations.get(id)
    }

    /// An operation, to be changed. Its name stays what it was added with for [`Graph::lookup`].
    pub fn get_mut(&mut self, id: OperationId) -> Option<&mut Operation> {
        self.operations.get_mut(id)
    }

    /// All of them, by place.
    #[must_use]
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The operations so that each comes after all that it depends on.
    ///
    /// # Errors
    /// [`GraphError::Unknown`], [`GraphError::Cycle`].
    pub fn order(&self) -> Result<Vec<OperationId>, GraphError> {
        let mut state = vec![Mark::Unvisited; self.operations.len()];
        let mut order = Vec::with_capacity(self.operations.len());
        for root in 0..self.operations.len() {
            // By hand, not by recursion: the depth is whatever the file says.
            let mut path = vec![(root, 0)];
            while let Some((id, next)) = path.pop() {
                if next == 0 && state[id] != Mark::Unvisited {
                    continue;
                }
                state[id] = Mark::OnPath;
                let operation = &self.operations[id];
                let Some(dependency) = operation.dependencies.get(next) else {
                    state[id] = Mark::Done;
                    order.push(id);
                    continue;
                };
                path.push((id, next + 1));
                match state.get(dependency.on) {
                    None => return Err(GraphError::Unknown { name: operation.name.clone() }),
                    Some(Mark::Done) => {}
                    Some(Mark::Unvisited) => path.push((dependency.on, 0)),
                    Some(Mark::OnPath) => {
                        let start = path.iter().position(|(id, _)| *id == dependency.on).unwrap_or(0);
                        let circle = path[start..].iter().map(|(id, _)| *id).chain([dependency.on]);
                        let path = circle.map(|id| self.operations[id].name.clone()).collect();
                        return Err(GraphError::Cycle { path });
                    }
                }
            }
        }
        Ok(order)
    }

    /// The streams that release each operation, by place.
    ///
    /// # Errors
    /// [`GraphError`].
    pub fn streams(&self) -> Result<Vec<Vec<Stream>>, GraphError> {
        let mut streams: Vec<Vec<Stream>> = vec![Vec::new(); self.operations.len()];
        let mut called = vec![false; self.operations.len()];
        let order = self.order()?;
        let costs = self.costs()?;
        let mut room = MOST_TASKS;
        for id in &order {
            let operation = &self.operations[*id];
            room = self.room_left(room, operation, &streams)?;
            let mut mine = Vec::new();
            if !operation.period.is_zero() {
                let wait = operation.jitter;
                let (origin, from) = (*id, *id);
                mine.push(Stream { origin, from, period: operation.period, times: 1, wait, faster: vec![] });
            }
            let mut handed = Vec::new();
            for dependency in &operation.dependencies {
                match dependency.call {
                    Call::TwoWay => called[dependency.on] = true,
                    Call::OneWay => handed.extend(streams[dependency.on].iter().map(|stream| {
                        let times = stream.times.saturating_mul(dependency.times.max(1));
                        match self.only_joins(dependency.on, &costs) {
                            true => Stream { times, ..stream.clone() },
                            false => {
                                let (wait, faster) = (Nanos::ZERO, Vec::new());
                                Stream { from: dependency.on, times, wait, faster, ..*stream }
                            }
                        }
                    })),
                }
            }
            match operation.kind {
                Kind::Conjunction => mine.extend(slowest(&handed)),
                Kind::RemoteDependant => mine.extend(handed.into_iter().map(|stream| {
                    let wait = stream.wait.plus(operation.worst);
                    Stream { wait, ..stream }
                })),
                _ => mine.extend(handed),
            }
            streams[*id] = mine;
        }
        match order.into_iter().find(|id| streams[*id].is_empty() && !called[*id]) {
            Some(id) => Err(GraphError::Idle { name: self.operations[id].name.clone() }),
            None => Ok(streams),
        }
    }

    /// How many streams there may still be after those of this operation, of `room`: its own, and what is copied of others with what
    /// conjunctions gathered in them.
    fn room_left(
        &self,
        room: usize,
        operation: &Operation,
        streams: &[Vec<Stream>],
    ) -> Result<usize, GraphError> {
        let one_way = operation.dependencies.iter().filter(|dependency| dependency.call == Call::OneWay);
        let handed = || one_way.clone().map(|dependency| &streams[dependency.on]);
        let own = usize::from(!operation.period.is_zero());
        let gathered: usize = handed().flatten().map(|stream| stream.faster.len()).sum();
        let count = own + handed().map(Vec::len).sum::<usize>();
        room.checked_sub(count + gathered)
            .ok_or_else(|| GraphError::TooMany { name: operation.name.clone(), streams: count })
    }

    /// Whether an operation is no task here, but hands streams on.
    pub(crate) fn only_joins(&self, id: OperationId, costs: &[Nanos]) -> bool {
        match self.operations[id].kind {
            Kind::Operation => false,
            Kind::Conjunction | Kind::Disjunction => costs[id].is_zero(),
            Kind::RemoteDependant => true,
        }
    }

    /// The worst-case cost of each operation with all that it calls, by place.
    ///
    /// # Errors
    /// [`GraphError`].
    pub fn costs(&self) -> Result<Vec<Nanos>, GraphError> {
        let mut costs = vec![Nanos::ZERO; self.operations.len()];
        for id in self.order()? {
            let operation = &self.operations[id];
            let own = if operation.kind == Kind::RemoteDependant { Nanos::ZERO } else { operation.worst };
            costs[id] =
                operation.dependencies.iter().filter(|d| d.call == Call::TwoWay).fold(own, |sum, d| {
                    let callee = &self.operations[d.on];
                    let saved = match callee.cached.is_zero() {
                        true => Nanos::ZERO,
                        false => callee.worst.minus(callee.cached),
                    };
                    let again = u64::from(d.times.max(1)) - 1;
                    sum.plus(costs[d.on]).plus(costs[d.on].minus(saved).times(again))
                });
        }
        Ok(costs)
    }
}

/// A conjunction goes at the rate of its slowest member, and waits up to a period of each faster one.
fn slowest(handed: &[Stream]) -> Option<Stream> {
    let slowest = handed.iter().max_by_key(|stream| stream.period)?;
    let mut joined = slowest.clone();
    // Of two that come by the same clock, each may have waited for others on its way.
    for other in handed {
        let period = other.period.plus(other.wait);
        let itself = Faster { from: other.from, origin: other.origin, period };
        for faster in [itself].iter().chain(&other.faster) {
            let clock = (faster.origin, faster.from);
            let is_known = |known: &Faster| (known.origin, known.from) == clock;
            if clock != (slowest.origin, slowest.from) && !joined.faster.iter().any(is_known) {
                joined.faster.push(*faster);
            }
        }
    }
    Some(joined)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Unvisited,
    OnPath,
    Done,
}
