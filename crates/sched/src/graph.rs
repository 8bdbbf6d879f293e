//! Operations and their dependencies: the task graph of a configuration (`RT_Info` in the real-time
//! event service).
//!
//! An operation runs periodically, or because others ran. The graph yields the tasks: one for each
//! operation and each stream of releases that reaches it.
//!
//! ```text
//!   imu 30 Hz ──one-way──► fuse (conjunction) ──► navigate ──two-way──► filter
//!   gps  5 Hz ──one-way──►  at the slowest: 5 Hz      its cost and the filter's
//! ```

use crate::{Criticality, Importance, Nanos};
use std::collections::BTreeMap;
use std::fmt;

/// The greatest number of tasks of a graph. Each dependency forwards every stream of its
/// predecessor, so that a few dozen operations could need more memory than there is.
pub const MOST_TASKS: usize = 16_384;
/// The greatest number of pairs of a task and a predecessor. Where many paths lead from one clock
/// to an operation, each of its tasks has one for each path.
pub const MOST_RELEASES: usize = 65_536;

/// An operation, by its index in its [`Graph`].
pub type OperationId = usize;

/// What an operation is (`RtecScheduler::Info_Type_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Kind {
    /// Ordinary work. Each predecessor releases it, so that rates add up as in a disjunction.
    #[default]
    Operation,
    /// Released when all its predecessors have run: at the rate of the slowest.
    Conjunction,
    /// Released when any predecessor has run: the rates add up.
    Disjunction,
    /// Work on another host that depends on this one. It forwards rates and costs nothing here.
    RemoteDependant,
}

/// How one operation depends on another (`RtecScheduler::Dependency_Type_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Call {
    /// The other operation releases it, this many times for each run: an event.
    OneWay,
    /// It calls the other operation this many times in each run and waits, so that the other's cost
    /// is part of its own.
    TwoWay,
}

/// A dependency of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dependency {
    /// The other operation.
    pub on: OperationId,
    /// The kind of dependency.
    pub call: Call,
    /// How many times.
    pub times: u32,
}

/// The description of an operation (`RtecScheduler::RT_Info`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Its entry point, unique in the graph.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// The worst-case execution time of one run, without the operations that it calls.
    pub worst: Nanos,
    /// The typical execution time, for information.
    pub typical: Nanos,
    /// The worst-case time with cached data: the cost of the second and further calls from one run.
    /// Zero if there is no such saving.
    pub cached: Nanos,
    /// Its own period; zero if only others release it.
    pub period: Nanos,
    /// From the arrival that started its chain to its end; `None` for the period of the stream that
    /// releases it.
    pub deadline: Option<Nanos>,
    /// Its own release jitter.
    pub jitter: Nanos,
    /// Blocking other than by resources.
    pub blocking: Nanos,
    /// The longest section without preemption, if preemption is deferred.
    pub section: Option<Nanos>,
    /// Its first arrival in the simulator.
    pub offset: Nanos,
    /// Its priority under [`crate::Policy::Declared`].
    pub priority: u32,
    /// Its significance to the user.
    pub criticality: Criticality,
    /// Breaks ties.
    pub importance: Importance,
    /// The time slice of a background operation. Stored but not used, since a real-time thread has
    /// no time slice.
    pub quantum: Nanos,
    /// The number of its own threads; zero if it runs on the dispatcher's. Stored but not used.
    pub threads: u32,
    /// Its predecessors and the operations that it calls.
    pub dependencies: Vec<Dependency>,
    /// The resources that it holds, by index, and for how long at a time.
    pub holds: Vec<(usize, Nanos)>,
}

impl Operation {
    /// An operation of this name with no other properties.
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
    /// The ceiling at run time, if known. It must be no lower than the priority of any user.
    pub ceiling: Option<u32>,
}

/// Operations, by index, and their dependencies.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Graph {
    operations: Vec<Operation>,
    names: BTreeMap<String, OperationId>,
    /// The shared resources.
    pub resources: Vec<Resource>,
}

/// What is wrong with a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GraphError {
    /// Two operations have the same name.
    Duplicate {
        /// The name.
        name: String,
    },
    /// A dependency on an operation that does not exist.
    Unknown {
        /// The dependent operation.
        name: String,
    },
    /// Operations depend on each other in a cycle.
    Cycle {
        /// The cycle; the first operation is also the last.
        path: Vec<String>,
    },
    /// An operation has neither a period nor a predecessor.
    Idle {
        /// The operation.
        name: String,
    },
    /// Too many paths lead to an operation: the graph has more tasks than [`MOST_TASKS`], or more
    /// pairs that release each other than [`MOST_RELEASES`].
    TooMany {
        /// The operation that exceeded the limit.
        name: String,
        /// The number of streams that would release it.
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
    /// The operation with the clock that started the chain.
    pub origin: OperationId,
    /// The predecessor; the operation itself if the period is its own. Operations that only join
    /// streams are skipped.
    pub from: OperationId,
    /// The shortest time between arrivals of the origin.
    pub period: Nanos,
    /// Releases for each arrival.
    pub times: u32,
    /// The jitter of a release besides the response of `from`.
    pub wait: Nanos,
    /// The faster members of a conjunction; a release waits for the next run of each.
    pub faster: Vec<FasterMember>,
}

/// A faster member of a conjunction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FasterMember {
    /// The member.
    pub from: OperationId,
    /// The operation with the member's clock.
    pub origin: OperationId,
    /// The longest time until its next arrival.
    pub period: Nanos,
}

impl Graph {
    /// An empty graph.
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

    /// An operation, to be changed. [`Graph::lookup`] still finds it by its original name.
    pub fn get_mut(&mut self, id: OperationId) -> Option<&mut Operation> {
        self.operations.get_mut(id)
    }

    /// All operations, by index.
    #[must_use]
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The operations in an order in which each follows all its predecessors.
    ///
    /// # Errors
    /// [`GraphError::Unknown`], [`GraphError::Cycle`].
    pub fn order(&self) -> Result<Vec<OperationId>, GraphError> {
        let mut state = vec![Mark::Unvisited; self.operations.len()];
        let mut order = Vec::with_capacity(self.operations.len());
        for root in 0..self.operations.len() {
            // An explicit stack, since the file determines the depth.
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

    /// The streams that release each operation, by index.
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

    /// How many streams the successors of this operation may still have, out of `room`: its own,
    /// and copies of others with the members of conjunctions in them.
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

    /// Whether an operation is no task itself but forwards streams.
    pub(crate) fn only_joins(&self, id: OperationId, costs: &[Nanos]) -> bool {
        match self.operations[id].kind {
            Kind::Operation => false,
            Kind::Conjunction | Kind::Disjunction => costs[id].is_zero(),
            Kind::RemoteDependant => true,
        }
    }

    /// The worst-case cost of each operation with all operations that it calls, by index.
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

/// A conjunction has the rate of its slowest member, and waits up to a period of each faster one.
fn slowest(handed: &[Stream]) -> Option<Stream> {
    let slowest = handed.iter().max_by_key(|stream| stream.period)?;
    let mut joined = slowest.clone();
    // Two streams of the same clock may have waited for different members on their paths.
    for other in handed {
        let period = other.period.plus(other.wait);
        let itself = FasterMember { from: other.from, origin: other.origin, period };
        for faster in [itself].iter().chain(&other.faster) {
            let clock = (faster.origin, faster.from);
            let is_known = |known: &FasterMember| (known.origin, known.from) == clock;
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
