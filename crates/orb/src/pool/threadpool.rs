//! The table of pools.

use super::{
    DestroyError, InvalidThreadpool, LaneStatus, RequestBuffering, ThreadpoolLane, ThreadpoolOptions,
};
use crate::buffers::{LaneBlocks, LaneUpcalls};
use crate::sched::policy::PriorityBand;
use crate::sched::thread::ThreadPlan;
use crate::sched::{HeapFree, LocalCalls, Priorities, ThreadpoolId, UpcallMemory, checked, thread};
use crate::server::{
    Acceptor, BufferLimits, Lane, LaneConfig, LaneEndpoints, LaneServer, ThreadLane, free_local_endpoints,
    next_lane_number, open_listener, open_local_listener,
};
use crate::transports::{Published, TAG_TCP};
use crate::{Orb, Result, SystemException};
use isorb_giop::{Kind, TaggedProfile, minor};
use isorb_rt::priority::Priority;
use isorb_rt::sched::{RealTime, Reservation, SchedClass, SchedError, SpawnError};
use isorb_rt::sync::PiMutex;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// A pool.
pub(crate) struct Threadpool {
    pub id: ThreadpoolId,
    /// The lowest priority first.
    pub lanes: Vec<PoolLane>,
    /// Whether it was created with lanes, so that each request runs in the lane of its priority.
    pub has_lanes: bool,
    /// The region of its threads in bytes; `None` if the memory comes from the heap.
    pub region_bytes: Option<usize>,
    /// The threads that run calls of this process.
    local_calls: LocalCalls,
    /// What happens when a servant allocates.
    #[cfg_attr(not(feature = "alloc-count"), expect(dead_code, reason = "allocations are not counted"))]
    pub(super) heap_free: HeapFree,
    /// The POAs that it serves.
    users: AtomicUsize,
}

/// A lane of a pool, for POAs.
pub(crate) struct PoolLane {
    pub priority: Priority,
    /// The class of its threads.
    pub class: SchedClass,
    /// Host and port in references.
    pub address: (String, u16),
    /// Addresses of other transports for clients of this host.
    pub local: Vec<Published>,
    lane: Arc<Lane>,
}

impl PoolLane {
    /// The lane itself.
    pub fn lane(&self) -> &Arc<Lane> {
        &self.lane
    }
}

impl Threadpool {
    /// Opens the lanes' endpoints and starts their static threads.
    ///
    /// # Errors
    /// BAD_PARAM, NO_PERMISSION, COMM_FAILURE, NO_RESOURCES; the pool is then removed completely.
    fn open(
        orb: &Orb,
        id: ThreadpoolId,
        lanes: &[ThreadpoolLane],
        has_lanes: bool,
        options: &ThreadpoolOptions,
    ) -> Result<Threadpool> {
        let settings = &orb.config().real_time;
        let priorities = &orb.sched().priorities;
        // Rights first, so that a missing right is reported once and early.
        priorities.granted()?;
        let mut sorted: Vec<&ThreadpoolLane> = lanes.iter().collect();
        sorted.sort_by_key(|lane| lane.lane_priority);
        let borrowing = options.allow_borrowing && sorted.len() > 1;
        let region_bytes = match options.memory.unwrap_or(settings.memory) {
            UpcallMemory::Scope => Some(options.region_bytes.unwrap_or(settings.region_bytes)),
            UpcallMemory::Heap => None,
        };
        let local_calls = options.local_calls.unwrap_or(settings.local_calls);
        let heap_free = options.heap_free.unwrap_or(settings.heap_free);
        if heap_free != HeapFree::No {
            super::heap::check()?;
        }
        let (lanes, users) = (Vec::new(), AtomicUsize::new(0));
        let mut pool = Threadpool { id, lanes, has_lanes, region_bytes, local_calls, heap_free, users };
        for (i, wanted) in sorted.iter().enumerate() {
            let rules = LaneConfig {
                static_threads: wanted.static_threads,
                dynamic_threads: wanted.dynamic_threads,
                // The threads of a lane that lends must not wait with a request of their own: the
                // slot that they wait for may be lent to a request that waits for one of them.
                buffer: options
                    .buffering
                    .or(borrowing.then(Default::default))
                    .map(|requested| room(requested, orb)),
                borrows: borrowing && i > 0,
                lends: borrowing && i + 1 < sorted.len(),
                raises: !has_lanes,
            };
            let class = reserved(priorities, wanted)?;
            let mut opened = pool.open_lane(orb, wanted, rules, options, class);
            if let Err(refused) = &opened
                && matches!(class, SchedClass::Reserved(_))
                && settings.mode != RealTime::Require
            {
                crate::log::warn("isorb::pool", format_args!("going on without a reservation: {refused}"));
                if pool.lanes.len() > i
                    && let Some(lane) = pool.lanes.pop()
                {
                    lane.lane.end();
                }
                let class = priorities.class(checked(wanted.lane_priority)?)?;
                opened = pool.open_lane(orb, wanted, rules, options, class);
            }
            if let Err(exception) = opened {
                pool.close();
                return Err(exception);
            }
        }
        Ok(pool)
    }

    fn open_lane(
        &mut self,
        orb: &Orb,
        wanted: &ThreadpoolLane,
        rules: LaneConfig,
        options: &ThreadpoolOptions,
        class: SchedClass,
    ) -> Result<()> {
        let (config, id) = (orb.config(), self.id);
        let settings = &config.real_time;
        let priority = checked(wanted.lane_priority)?;
        let endpoint_text = match &wanted.endpoint {
            Some(endpoint) => endpoint.clone(),
            // A port without TLS must not be opened unasked.
            None if orb.listens_only_over_tls() => {
                return Err(SystemException::from(Kind::BadParam).detail(
                    "a lane listens without TLS, and this ORB listens over TLS only; give it an endpoint \
                     (ThreadpoolLane::endpoint) if that may be open to all clients that reach it",
                ));
            }
            None => beside_the_first(&config.endpoints),
        };
        let (listener, address) = open_listener(orb, &endpoint_text)?;
        let mut acceptors = vec![Acceptor { listener, tag: TAG_TCP }];
        let mut local = Vec::new();
        let wanted_local = if wanted.local_endpoints.is_empty() {
            free_local_endpoints(orb)
        } else {
            wanted.local_endpoints.clone()
        };
        for endpoint in wanted_local {
            let (listener, published) = open_local_listener(orb, &endpoint)?;
            acceptors.push(Acceptor { listener, tag: published.route.tag });
            local.push(published);
        }
        let plan = ThreadPlan {
            pool: id,
            lane: next_lane_number(),
            priority,
            class,
            // Tools show 15 octets.
            name: format!("pool{id}-{}", wanted.lane_priority).into(),
            // A thread with a reservation cannot be confined; a pool with both options was
            // rejected.
            cpus: options.cpus.or(settings.cpus()).filter(|_| !matches!(class, SchedClass::Reserved(_))),
            stack_size: options.stack_size,
            prefault: options.prefault,
        };
        let upcall = self.region_bytes.map_or(LaneUpcalls::Heap(config.memory_limit), LaneUpcalls::Region);
        let memory = super::blocks::reserve(orb, id, wanted, rules, options, upcall)?;
        let lenders = match rules.borrows {
            true => self.lanes.iter().rev().map(|lower| lower.lane.clone()).collect(),
            false => Vec::new(),
        };
        let server = LaneServer::new(LaneEndpoints {
            threads: ThreadLane::new(rules),
            acceptors,
            lenders,
            plan,
            memory,
            idle_timeout: options.idle_timeout.unwrap_or(settings.idle_timeout()),
            max_connections: config.max_connections,
        });
        let lane = Lane::with_server(server)
            .map_err(|error| SystemException::from(Kind::NoResources).detail(error.to_string()))?;
        let lane = Arc::new(lane);
        self.lanes.push(PoolLane { priority, class, address, local, lane: lane.clone() });
        let Some(server) = lane.server() else { return Ok(()) };
        for _ in 0..rules.initial_threads() {
            server.start_thread(&lane, orb).map_err(|error| not_started(wanted, error))?;
        }
        // Allocations before a thread's first request happen before the pool is returned.
        server.threads.wait_until_registered(rules.initial_threads());
        Ok(())
    }

    /// The lane with exactly this priority.
    pub fn lane(&self, priority: Priority) -> Option<&PoolLane> {
        self.lanes.iter().find(|lane| lane.priority == priority)
    }

    /// The lane for a priority: that of this priority, else the next lower one, else the lowest.
    /// Without a priority the lowest.
    pub fn lane_for(&self, priority: Option<Priority>) -> &PoolLane {
        let below = priority.and_then(|p| self.lanes.iter().rev().find(|lane| lane.priority <= p));
        // A pool has a lane.
        below.unwrap_or(&self.lanes[0])
    }

    /// The lane for a request of this process; `None` if the calling thread runs it: a thread of
    /// that lane, or any thread where the pool allows that.
    pub fn lane_of_local_call(&self, priority: Option<Priority>) -> Option<&PoolLane> {
        let lane = self.lane_for(priority);
        let through = self.local_calls == LocalCalls::Lane && thread::lane() != lane.lane.number();
        through.then_some(lane)
    }

    /// The highest-priority lane within a band, so that no request of the band runs below its own
    /// lane.
    pub fn lane_in(&self, band: PriorityBand) -> Option<&PoolLane> {
        self.lanes.iter().rev().find(|lane| (band.low..=band.high).contains(&lane.priority.get()))
    }

    /// A POA begins to use it.
    pub fn acquire(&self) {
        self.users.fetch_add(1, Ordering::AcqRel);
    }

    /// A POA stops using it.
    pub fn release(&self) {
        self.users.fetch_sub(1, Ordering::AcqRel);
    }

    fn close(&self) {
        self.lanes.iter().for_each(|lane| lane.lane.end());
    }

    fn status(&self) -> Vec<LaneStatus> {
        let lanes = self.lanes.iter().map(|pool_lane| {
            let server = pool_lane.lane.server();
            let status = server.map(|server| server.threads.status()).unwrap_or_default();
            let memory = server.map(|server| server.memory());
            let blocks = memory.map(|memory| &memory.blocks);
            let own = blocks.filter(|blocks| blocks.own).map(|blocks| &blocks.pool);
            let count = |counter: fn(&LaneBlocks) -> &AtomicU64| {
                blocks.map_or(0, |blocks| counter(blocks).load(Ordering::Relaxed))
            };
            LaneStatus {
                lane_priority: pool_lane.priority.get(),
                class: pool_lane.class,
                address: pool_lane.address.clone(),
                connections: pool_lane.lane.connections(),
                running: status.running,
                peak: status.peak,
                dynamic_threads: status.dynamic,
                buffered_requests: status.buffered,
                buffered_bytes: status.buffered_bytes,
                message_bytes: own.map_or(0, |pool| pool.limit()),
                free_blocks: own.map_or(0, |pool| pool.available(pool.largest())),
                locked: memory.is_some_and(|memory| memory.locked),
                refused_messages: count(|blocks| &blocks.refused),
                evicted_connections: count(|blocks| &blocks.evicted),
                heap_upcalls: count(|blocks| &blocks.heap_upcalls),
            }
        });
        lanes.collect()
    }
}

impl fmt::Debug for Threadpool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Threadpool").field("id", &self.id).field("lanes", &self.status()).finish()
    }
}

/// A free port at the host of the ORB's first TCP endpoint, published in the same way.
fn beside_the_first(endpoints: &[String]) -> String {
    let address = |endpoint: &String| endpoint.split(';').next().unwrap_or_default().to_owned();
    let is_tcp = |address: &String| {
        !["unix:", "uiop:", "segment:", "udp:", "diop:"].iter().any(|other| address.starts_with(other))
            && address.strip_prefix("giop:").is_none_or(|rest| rest.starts_with("tcp:"))
    };
    let Some(first) = endpoints.iter().map(address).find(is_tcp) else { return ":0".into() };
    let host = first.rsplit_once(':').map_or(first.as_str(), |(host, _)| host);
    format!("{host}:0")
}

/// The wanted class of a lane's threads.
fn reserved(priorities: &Priorities, wanted: &ThreadpoolLane) -> Result<SchedClass> {
    match wanted.reservation {
        Some(reservation) if priorities.granted()?.scheduling => Ok(SchedClass::Reserved(reservation)),
        _ => priorities.class(checked(wanted.lane_priority)?),
    }
}

/// A thread of a lane did not start.
fn not_started(wanted: &ThreadpoolLane, error: SpawnError) -> SystemException {
    let SpawnError::Class(class @ SchedClass::Reserved(_), why) = error else {
        return SystemException::from(Kind::NoResources).detail(error.to_string());
    };
    let (kind, remedy) = match why {
        SchedError::NotAdmitted => (
            Kind::NoResources,
            "reserve less, for fewer threads, or give reservations more (sysctl kernel.sched_rt_runtime_us)",
        ),
        SchedError::OutOfRange => (
            Kind::BadParam,
            "see /proc/sys/kernel/sched_deadline_period_min_us and _max_us for what it takes",
        ),
        _ => (
            Kind::NoPermission,
            "it takes CAP_SYS_NICE (setcap cap_sys_nice+ep PROGRAM; RLIMIT_RTPRIO is not enough), and a process that is not \
             confined to some processors by taskset",
        ),
    };
    let priority = wanted.lane_priority;
    SystemException::from(kind).detail(format!("a thread of lane {priority} as {class}: {why}; {remedy}"))
}

/// The buffer limits, bounded by the configured ones.
fn room(wanted: RequestBuffering, orb: &Orb) -> BufferLimits {
    let settings = &orb.config().real_time;
    let within = |wanted: u32, limit: u32| if wanted == 0 { limit } else { wanted.min(limit) } as usize;
    BufferLimits {
        requests: within(wanted.max_buffered_requests, settings.max_buffered_requests),
        bytes: within(wanted.max_request_buffer_size, settings.max_request_buffer_size),
    }
}

/// The pools of an ORB.
#[derive(Default)]
pub(crate) struct Pools {
    table: PiMutex<PoolTable>,
    /// Whether any pool was ever made.
    any: AtomicBool,
}

#[derive(Default)]
struct PoolTable {
    last: ThreadpoolId,
    pools: HashMap<ThreadpoolId, Arc<Threadpool>>,
    closed: bool,
}

impl Pools {
    /// Creates a pool.
    ///
    /// # Errors
    /// BAD_PARAM for no lane, for one without static threads or with a negative priority, and for
    /// two of one priority; BAD_INV_ORDER with minor code OMG|4 after shutdown; as
    /// [`Threadpool::open`].
    pub fn create(
        &self,
        orb: &Orb,
        lanes: &[ThreadpoolLane],
        has_lanes: bool,
        options: &ThreadpoolOptions,
    ) -> Result<ThreadpoolId> {
        check(lanes, options)?;
        // No record of the pool's threads starts it, which would allocate.
        isorb_rt::log::prepare();
        let id = {
            let mut known = self.table.lock();
            known.last += 1;
            known.last
        };
        let pool = Arc::new(Threadpool::open(orb, id, lanes, has_lanes, options)?);
        let mut known = self.table.lock();
        if known.closed {
            drop(known);
            pool.close();
            return Err(SystemException::from(Kind::BadInvOrder).minor(minor::BAD_INV_ORDER_SHUTDOWN));
        }
        known.pools.insert(id, pool);
        self.any.store(true, Ordering::Release);
        Ok(id)
    }

    /// Whether any pool was ever made.
    #[inline]
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Destroys a pool: its endpoints close, and its threads end after their present requests. Does
    /// not wait for that.
    ///
    /// # Errors
    /// InvalidThreadpool; BAD_INV_ORDER while POAs use it.
    pub fn destroy(&self, id: ThreadpoolId) -> Result<(), DestroyError> {
        let pool = {
            let mut known = self.table.lock();
            let pool = known.pools.get(&id).ok_or(DestroyError::InvalidThreadpool)?;
            if pool.users.load(Ordering::Acquire) > 0 {
                return Err(DestroyError::System(
                    SystemException::from(Kind::BadInvOrder)
                        .detail("POAs use the thread pool; destroy them first"),
                ));
            }
            known.pools.remove(&id)
        };
        if let Some(pool) = pool {
            pool.close();
        }
        Ok(())
    }

    /// A pool, for a POA that begins to use it.
    pub fn find(&self, id: ThreadpoolId) -> Option<Arc<Threadpool>> {
        self.table.lock().pools.get(&id).cloned()
    }

    /// As [`find`](Self::find), acquired in the same step, so that it is not destroyed in between.
    pub fn acquire(&self, id: ThreadpoolId) -> Option<Arc<Threadpool>> {
        let known = self.table.lock();
        let pool = known.pools.get(&id)?;
        pool.acquire();
        Some(pool.clone())
    }

    /// The state of a pool.
    ///
    /// # Errors
    /// InvalidThreadpool.
    pub fn status(&self, id: ThreadpoolId) -> Result<Vec<LaneStatus>, InvalidThreadpool> {
        Ok(self.find(id).ok_or(InvalidThreadpool)?.status())
    }

    /// Whether a lane listens there.
    pub fn listen_at(&self, host: &str, port: u16) -> bool {
        let known = self.table.lock();
        let mut lanes = known.pools.values().flat_map(|pool| &pool.lanes);
        lanes.any(|lane| lane.address.1 == port && lane.address.0 == host)
    }

    /// The object key in `profile`, if a lane listens at its address for clients of this host.
    pub fn key_of_local(&self, profile: &TaggedProfile) -> Option<Vec<u8>> {
        let known = self.table.lock();
        let mut all = known.pools.values().flat_map(|pool| &pool.lanes).flat_map(|lane| &lane.local);
        all.find_map(|way| way.key(profile))
    }

    /// Ends all pools. No further one can be created.
    pub fn close(&self) {
        let pools = {
            let mut known = self.table.lock();
            known.closed = true;
            std::mem::take(&mut known.pools)
        };
        pools.values().for_each(|pool| pool.close());
    }
}

fn check(lanes: &[ThreadpoolLane], options: &ThreadpoolOptions) -> Result<()> {
    let bad = |sentence: &str| Err(SystemException::from(Kind::BadParam).detail(sentence.to_owned()));
    if lanes.is_empty() {
        return bad("a thread pool needs at least one lane");
    }
    if lanes.iter().any(|lane| lane.static_threads == 0) {
        return bad("a lane needs at least one static thread");
    }
    if lanes.iter().any(|lane| lane.static_threads > MOST_THREADS || lane.dynamic_threads > MOST_THREADS) {
        return bad("a lane has at most 4096 static and 4096 dynamic threads");
    }
    for (i, lane) in lanes.iter().enumerate() {
        checked(lane.lane_priority)?;
        if lanes[..i].iter().any(|other| other.lane_priority == lane.lane_priority) {
            return bad("two lanes of a pool have the same priority");
        }
    }
    for (lane, reservation) in lanes.iter().filter_map(|lane| Some((lane, lane.reservation?))) {
        let Reservation { runtime_ns, deadline_ns, period_ns } = reservation;
        if runtime_ns < 1024 || runtime_ns > deadline_ns || deadline_ns > period_ns || period_ns >= 1 << 63 {
            return bad(
                "a reservation needs a runtime of 1024 ns at least, and runtime <= deadline <= period",
            );
        }
        if lane.dynamic_threads > 0 {
            return bad(
                "a lane with a reservation has no dynamic threads: what they need must be reserved at start",
            );
        }
        if options.allow_borrowing && lanes.len() > 1 {
            return bad(
                "a pool with a reservation cannot borrow: lent threads would give up what they reserved",
            );
        }
        if options.cpus.is_some() {
            return bad(
                "a thread with a reservation cannot be confined to processors; leave cpus out, or use a cpuset partition",
            );
        }
    }
    if options.region_bytes.is_some_and(|bytes| bytes < 1024) {
        return bad("the memory of an upcall is at least 1024 bytes");
    }
    Ok(())
}

/// The limit of each kind of threads in a lane.
const MOST_THREADS: u32 = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use isorb_rt::sched::Cpus;

    #[test]
    fn what_makes_no_pool_is_refused() {
        let lane = |priority, threads| ThreadpoolLane::new(priority, threads);
        let options = ThreadpoolOptions::default();
        for (lanes, part) in [
            (vec![], "at least one lane"),
            (vec![lane(1, 0)], "static thread"),
            (vec![lane(1, 1), lane(2, 0)], "static thread"),
            (vec![lane(-1, 1)], "0 to 32767"),
            (vec![lane(1, 1), lane(1, 2)], "same priority"),
            (vec![lane(1, 5000)], "4096"),
        ] {
            let error = check(&lanes, &options).unwrap_err();
            assert_eq!(error.kind, Kind::BadParam);
            assert!(error.detail.unwrap().contains(part), "{part}");
        }
        let us = std::time::Duration::from_micros;
        let reserved =
            |runtime, deadline, period| lane(1, 1).reservation(us(runtime), us(deadline), us(period));
        for (lane, part) in [
            (reserved(1, 10, 10), "1024 ns"),
            (reserved(11, 10, 20), "runtime <= deadline"),
            (reserved(5, 30, 20), "deadline <= period"),
            (reserved(5, 10, 20).dynamic_threads(1), "no dynamic threads"),
        ] {
            let error = check(&[lane], &options).unwrap_err();
            assert_eq!(error.kind, Kind::BadParam);
            assert!(error.detail.unwrap().contains(part), "{part}");
        }
        let good = reserved(5, 10, 20);
        assert!(check(std::slice::from_ref(&good), &options).is_ok());
        let borrows = ThreadpoolOptions { allow_borrowing: true, ..ThreadpoolOptions::default() };
        assert!(check(&[good.clone(), lane(2, 1)], &borrows).is_err());
        let confined = ThreadpoolOptions { cpus: Some(Cpus::none()), ..ThreadpoolOptions::default() };
        assert!(check(&[good], &confined).is_err());
        let small = ThreadpoolOptions { region_bytes: Some(8), ..ThreadpoolOptions::default() };
        assert!(check(&[lane(1, 1)], &small).is_err());
        assert!(check(&[lane(0, 1), lane(32767, 4096)], &options).is_ok());
    }

    #[test]
    fn lanes_listen_beside_the_first_endpoint() {
        let at = |endpoint: &str| beside_the_first(&[endpoint.into()]);
        assert_eq!(at("127.0.0.1:2809;lane"), "127.0.0.1:0");
        assert_eq!(at("giop:tcp:host:1"), "giop:tcp:host:0");
        assert_eq!(at("[::1]:0"), "[::1]:0");
        assert_eq!(at(":5"), ":0");
        assert_eq!(beside_the_first(&["unix:/x".into(), "segment:/y".into(), "h:1".into()]), "h:0");
        assert_eq!(beside_the_first(&["giop:unix:/x".into()]), ":0");
        assert_eq!(beside_the_first(&[]), ":0");
    }
}
