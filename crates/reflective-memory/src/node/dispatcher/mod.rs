//! A thread that drives a scheduler: one socket, one poller, one lock.

mod best_effort;
mod intake;
#[cfg(test)]
mod tests;

use super::doorbells::{Doorbell, Doorbells};
use super::multicast::Groups;
use super::receive_sockets::ReceiveSocket;
use crate::Error;
use crate::agents::{
    AT_ONCE, Action, AgentScheduler, Band, Mark, Marks, PushAgent, PushKey, PushStats, ReceiveAgent,
    ReceiveStats, SchedulerConfig, SchedulerError, TrafficClass, Via,
};
use crate::fail_points::{FailPoint, fail_point};
use crate::wire::{Channel, HEADER, MAX_FRAGMENT};
use isorb_rt::Errno;
use isorb_rt::common_clock::{CommonClockConfig, SystemCommonClock};
use isorb_rt::net::{Events, Interest, Poller, Trigger, set_dscp, set_priority, wait_ready};
use isorb_rt::sched::{Cpus, SchedClass, SpawnError, Thread, ThreadSpec, current_cpus};
use isorb_rt::sync::PiMutex;
use isorb_rt::time::{Deadline, now_ns, thread_cpu_ns};
use isorb_trace::Track;
use std::fmt;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// The tokens of the sockets; those of doorbells begin at 1 and never reach these.
const SOCKET: u64 = 0;
const SECOND: u64 = u64::MAX - 8;
const GROUPS: u64 = u64::MAX - 9;

/// How long best effort waits for room in a socket.
const FULL: Duration = Duration::from_millis(20);

/// The most events of one wait.
const ROOM: usize = 64;

/// The configuration of a dispatching thread.
#[derive(Clone, Debug)]
pub struct DispatcherConfig {
    /// The address of its datagram socket.
    pub udp: SocketAddr,
    /// The same on the second path, if the node has one.
    pub second: Option<SocketAddr>,
    /// The first group, and the port of all of them, for areas that are read on several nodes; in
    /// IPv6 its scope is the interface's number. None: without multicast.
    pub multicast: Option<SocketAddr>,
    /// The scheduler's limits.
    pub scheduler: SchedulerConfig,
    /// The scheduling class of the thread. Beside a real-time one, another thread of the lowest
    /// real-time priority receives best-effort datagrams.
    pub class: SchedClass,
    /// How datagrams are marked for the network.
    pub marks: Marks,
    /// A clock that other nodes read alike. None: the offset to their clocks is known from messages
    /// alone.
    pub common_clock: Option<CommonClockConfig>,
}

/// A dispatching thread and its agents.
pub(crate) struct Dispatcher {
    shared: Arc<Inner>,
    threads: PiMutex<Vec<Thread<()>>>,
    address: SocketAddr,
    second: Option<SocketAddr>,
}

struct Inner {
    agents: PiMutex<Agents>,
    poller: Poller,
    /// The poller of the best-effort thread, if there is one.
    best_effort: Option<Poller>,
    socket: UdpSocket,
    second: Option<UdpSocket>,
    groups: Option<Groups>,
    marks: Marks,
    stop: AtomicBool,
    /// Push agents with a guarantee.
    guaranteed: AtomicUsize,
    /// Doorbells, and sockets of guaranteed channels.
    watched: AtomicUsize,
}

struct Agents {
    scheduler: AgentScheduler,
    doorbells: Doorbells,
    /// By the receive agent's number; none for best effort.
    receive_sockets: Vec<Option<ReceiveSocket>>,
}

impl Agents {
    /// The socket of the most urgent guaranteed channel, unless other work is more urgent.
    fn next_arrival(&mut self, now_ns: u64) -> Option<(Arc<UdpSocket>, u32, Via)> {
        let (receive, via) = self.scheduler.next_arrival(now_ns)?;
        let socket = self.socket_of(receive, via).cloned();
        if socket.is_none() {
            self.scheduler.emptied(receive, via);
        }
        Some((socket?, receive, via))
    }

    fn socket_of(&self, receive: u32, via: Via) -> Option<&Arc<UdpSocket>> {
        self.receive_sockets.get(receive as usize)?.as_ref()?.socket(via)
    }

    /// The agent's own socket for datagrams to its sender. Answers do not reach a group's socket.
    fn sending_socket_of(&self, receive: u32, via: Via) -> Option<&Arc<UdpSocket>> {
        self.socket_of(receive, via).filter(|_| !self.scheduler.is_of_group(receive))
    }
}

impl Dispatcher {
    /// Of several real-time threads each runs on a processor of its own, as far as there are: by
    /// those, channels are admitted.
    pub fn start(config: &DispatcherConfig, number: usize, threads: usize) -> Result<Dispatcher, StartError> {
        let is_pinned = threads > 1 && config.class != SchedClass::Other;
        let cpu = current_cpus().ok().filter(|_| is_pinned).and_then(|cpus| {
            let index = number % cpus.len().max(1);
            cpus.iter().nth(index)
        });
        Dispatcher::start_with(config, number, best_effort::class(config.class), cpu.map(Cpus::one))
    }

    /// `aside` is the class of the best-effort thread, if there is one.
    fn start_with(
        config: &DispatcherConfig,
        number: usize,
        best_effort: Option<SchedClass>,
        cpus: Option<Cpus>,
    ) -> Result<Dispatcher, StartError> {
        let (socket, address) = bind(config.udp).map_err(StartError::Socket)?;
        let second = config.second.map(bind).transpose().map_err(StartError::Socket)?;
        let groups = config.multicast.map(|first| Groups::open(first, &socket, address));
        let groups = groups.transpose().map_err(StartError::Socket)?;
        let poller = Poller::new().map_err(StartError::System)?;
        let common_poller = best_effort.map(|_| Poller::new()).transpose().map_err(StartError::System)?;
        let common = common_poller.as_ref().unwrap_or(&poller);
        let watch = |socket: &UdpSocket, token| {
            common.add(socket, token, Interest::READ, Trigger::Level).map_err(StartError::System)
        };
        watch(&socket, SOCKET)?;
        if let Some((second, _)) = &second {
            watch(second, SECOND)?;
        }
        if let Some(groups) = &groups {
            watch(groups.socket(), GROUPS)?;
        }
        let (second, second_address) = second.unzip();
        let mut scheduler = AgentScheduler::new(config.scheduler);
        if let Some(clock) = &config.common_clock {
            let clock = SystemCommonClock::open(clock).map_err(StartError::Clock)?;
            scheduler.set_common_clock(Box::new(clock));
        }
        let agents = Agents {
            scheduler,
            doorbells: Doorbells::default(),
            receive_sockets: Vec::with_capacity(config.scheduler.receives),
        };
        let shared = Arc::new(Inner {
            agents: PiMutex::new(agents),
            poller,
            best_effort: common_poller,
            socket,
            second,
            groups,
            marks: config.marks,
            stop: AtomicBool::new(false),
            guaranteed: AtomicUsize::new(0),
            watched: AtomicUsize::new(0),
        });
        let threads = PiMutex::new(Vec::new());
        let dispatcher = Dispatcher { shared, threads, address, second: second_address };
        // If the second thread cannot be started, the first ends with the dispatcher.
        dispatcher.spawn(format!("memory-disp-{number}"), config.class, cpus, Inner::run)?;
        if let Some(class) = best_effort {
            dispatcher.spawn(format!("memory-recv-{number}"), class, None, Inner::receive_best_effort)?;
        }
        Ok(dispatcher)
    }

    fn spawn(
        &self,
        name: String,
        class: SchedClass,
        cpus: Option<Cpus>,
        run: fn(&Inner),
    ) -> Result<(), StartError> {
        let shared = self.shared.clone();
        let spec = cpus.into_iter().fold(ThreadSpec::new(name), ThreadSpec::cpus);
        let thread = spec.class(class).spawn_supervised(move || run(&shared));
        self.threads.lock().push(thread.map_err(StartError::Thread)?);
        Ok(())
    }

    /// The address that its datagrams are sent from.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sockets for a guaranteed channel, at the same addresses.
    pub fn open_receive_socket(&self) -> std::io::Result<ReceiveSocket> {
        let opened = ReceiveSocket::open(self.address.ip(), self.second.map(|second| second.ip()))?;
        // A receive agent sends reports only.
        for via in [Via::First, Via::Second] {
            if let Some(socket) = opened.socket(via) {
                mark(socket, self.shared.marks.control);
            }
        }
        Ok(opened)
    }

    /// Paces all datagrams by this rate; 0 for no limit.
    pub fn set_link_rate(&self, bytes_per_s: u64) {
        self.shared.agents.lock().scheduler.set_link_rate(bytes_per_s);
        self.shared.poller.wake();
    }

    /// Limits best effort from other nodes.
    pub fn limit_best_effort(&self, window: Option<u64>) {
        self.shared.agents.lock().scheduler.limit_best_effort(window);
    }

    /// The first credit of a channel that is being opened.
    pub fn first_credit(&self, channel: &Channel) -> u64 {
        self.shared.agents.lock().scheduler.first_credit(channel)
    }

    /// The same on the second path.
    pub fn second_address(&self) -> Option<SocketAddr> {
        self.second
    }

    /// The groups that it takes part in.
    pub fn groups(&self) -> Option<&Groups> {
        self.shared.groups.as_ref()
    }

    /// Adds a receive agent that joins a group. The caller leaves the group with [`Groups::leave`].
    pub fn join(&self, agent: ReceiveAgent, receive_socket: Option<ReceiveSocket>) -> Result<u32, Error> {
        let channel = self.shared.agents.lock().scheduler.join(agent, now_ns())?;
        self.begin_receive(channel, receive_socket)
    }

    /// Makes values visible to one reader of a group, or stops that.
    pub fn set_receiving(&self, channel: u32, receiving: bool) {
        self.shared.agents.lock().scheduler.set_receiving(channel, receiving, now_ns());
        self.shared.poller.wake();
    }

    /// The latest value is pushed again.
    pub fn repeat(&self, key: PushKey) {
        self.shared.agents.lock().scheduler.repeat(key);
        self.shared.poller.wake();
    }

    /// Adds a push agent, which pushes the present value first.
    pub fn add_push(&self, agent: PushAgent) -> Result<PushKey, SchedulerError> {
        let is_guaranteed = agent.is_guaranteed();
        let mut agents = self.shared.agents.lock();
        let key = agents.scheduler.add_push(agent, now_ns())?;
        // Before its first turn, which takes the lock.
        self.shared.guaranteed.fetch_add(usize::from(is_guaranteed), Ordering::Relaxed);
        drop(agents);
        self.shared.poller.wake();
        Ok(key)
    }

    pub fn remove_push(&self, key: PushKey) -> Option<PushStats> {
        let mut agents = self.shared.agents.lock();
        if let Some(doorbell) = agents.doorbells.unsubscribe(key) {
            self.shared.unwatch(&doorbell);
        }
        let is_guaranteed = agents.scheduler.is_guaranteed(key);
        self.shared.guaranteed.fetch_sub(usize::from(is_guaranteed), Ordering::Relaxed);
        agents.scheduler.remove_push(key)
    }

    /// Subscribes the agent to this doorbell only, and checks it at once: earlier values may have
    /// been written without a ring.
    ///
    /// # Errors
    /// NOMEM, NOSPC: the poller cannot watch the doorbell. No doorbell rings for the agent then.
    pub fn subscribe(&self, key: PushKey, doorbell: &Doorbell) -> Result<(), Errno> {
        let mut agents = self.shared.agents.lock();
        if let Some(before) = agents.doorbells.unsubscribe(key) {
            self.shared.unwatch(&before);
        }
        let is_guaranteed = agents.scheduler.is_guaranteed(key);
        if agents.doorbells.subscribe(doorbell, key, is_guaranteed) {
            // Edge-triggered: the doorbell is never read, so that each dispatching thread sees each
            // ring.
            let watched = self.shared.poller.add(doorbell, doorbell.number(), Interest::READ, Trigger::Edge);
            watched.inspect_err(|_| drop(agents.doorbells.unsubscribe(key)))?;
            self.shared.watched.fetch_add(1, Ordering::Relaxed);
        }
        agents.scheduler.written_to(key, now_ns());
        drop(agents);
        self.shared.poller.wake();
        Ok(())
    }

    /// Checks an agent: a value may have been written without a ring.
    pub fn check(&self, key: PushKey) {
        self.shared.agents.lock().scheduler.written_to(key, now_ns());
        self.shared.poller.wake();
    }

    /// Removes the doorbell of a writer that is gone.
    pub fn forget_doorbell(&self, number: u64) {
        if let Some(doorbell) = self.shared.agents.lock().doorbells.remove(number) {
            self.shared.unwatch(&doorbell);
        }
    }

    /// How often a doorbell made an agent check its area.
    pub fn checks(&self) -> u64 {
        self.shared.agents.lock().doorbells.checks()
    }

    /// A number for a channel that is being opened.
    pub fn reserve(&self) -> Result<u32, SchedulerError> {
        self.shared.agents.lock().scheduler.reserve()
    }

    /// Releases the number of a channel that is not opened after all.
    pub fn unreserve(&self, channel: u32) {
        self.shared.agents.lock().scheduler.unreserve(channel);
    }

    pub fn add_receive(
        &self,
        agent: ReceiveAgent,
        receive_socket: Option<ReceiveSocket>,
    ) -> Result<u32, Error> {
        let channel = self.shared.agents.lock().scheduler.add_receive(agent, now_ns())?;
        self.begin_receive(channel, receive_socket)
    }

    fn begin_receive(&self, channel: u32, receive_socket: Option<ReceiveSocket>) -> Result<u32, Error> {
        if let Some(receive_socket) = receive_socket {
            let mut agents = self.shared.agents.lock();
            let slots = agents.receive_sockets.len().max(channel as usize + 1);
            agents.receive_sockets.resize_with(slots, || None);
            agents.receive_sockets[channel as usize] = Some(receive_socket.clone());
            drop(agents);
            self.shared.watched.fetch_add(receive_socket.len(), Ordering::Relaxed);
            if let Err(error) = receive_socket.watch(&self.shared.poller, channel) {
                self.remove_receive(channel);
                return Err(error.into());
            }
        }
        self.shared.poller.wake();
        Ok(channel)
    }

    pub fn remove_receive(&self, channel: u32) -> Option<ReceiveStats> {
        let mut agents = self.shared.agents.lock();
        let receive_socket = agents.receive_sockets.get_mut(channel as usize).and_then(Option::take);
        let stats = agents.scheduler.remove_receive(channel);
        agents.scheduler.share_window();
        drop(agents);
        if let Some(receive_socket) = receive_socket {
            receive_socket.forget(&self.shared.poller);
            self.shared.watched.fetch_sub(receive_socket.len(), Ordering::Relaxed);
        }
        stats
    }

    pub fn receive_stats(&self, channel: u32) -> Option<ReceiveStats> {
        self.shared.agents.lock().scheduler.receive_stats(channel)
    }

    pub fn push_stats(&self, key: PushKey) -> Option<PushStats> {
        self.shared.agents.lock().scheduler.push_stats(key)
    }

    pub fn set_running(&self, key: PushKey, running: bool) -> bool {
        let known = self.shared.agents.lock().scheduler.set_running(key, running, now_ns());
        self.shared.poller.wake();
        known
    }

    /// Begins to record, up to this number of records.
    pub fn record(&self, records: usize) {
        self.shared.agents.lock().scheduler.record(records);
    }

    /// The records.
    pub fn recorded(&self, thread: &str) -> Track {
        self.shared.agents.lock().scheduler.recorded(thread)
    }

    /// Sets how long pushes may stay in the lower band. Takes the lock for one push at a time.
    pub fn set_promotions(&self, pushes: impl Iterator<Item = (PushKey, u64)>) {
        for (key, promotion_ns) in pushes {
            self.shared.agents.lock().scheduler.set_promotion(key, promotion_ns);
        }
    }

    /// Ends the threads and waits for them.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.poller.wake_for_good();
        if let Some(best_effort) = &self.shared.best_effort {
            best_effort.wake_for_good();
        }
        let threads = std::mem::take(&mut *self.threads.lock());
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Inner {
    /// # Real-time
    /// Allocates nothing. Takes the lock for one datagram at a time; set-up holds it while it adds
    /// an agent that it has built before.
    fn run(&self) {
        let mut out = vec![0; HEADER + MAX_FRAGMENT];
        let mut input = vec![0; HEADER + MAX_FRAGMENT];
        let mut events = Events::<ROOM>::new();
        let mut until = Deadline::PAST;
        let (mut since_poll, mut first) = (0, 0);
        let mut marked = [None; 2];
        while !self.stop.load(Ordering::Acquire) {
            if until != Deadline::PAST || since_poll == AT_ONCE {
                first = (first + 1) % 3;
                self.wait_and_receive(&mut events, until, first, &mut input);
                since_poll = 0;
            }
            // Only guaranteed pushes are accounted; reading the clock is a system call.
            let before = self.has_guaranteed().then(thread_cpu_ns);
            let now = now_ns();
            let (turn, arrival) = {
                let mut agents = self.agents.lock();
                match agents.next_arrival(now) {
                    Some(arrival) => (Action::Idle { until_ns: None }, Some(arrival)),
                    None => (agents.scheduler.next_action(now, &mut out), None),
                }
            };
            if let Some((socket, receive, via)) = arrival {
                self.receive_guaranteed(&socket, receive, via, &mut input);
                since_poll += 1;
                until = Deadline::PAST;
                continue;
            }
            until = match turn {
                Action::Send { to, via, len, push, band, class } => {
                    fail_point(FailPoint::DatagramMade);
                    let sent = self.send(&out[..len], to, (via, class), &mut marked);
                    fail_point(FailPoint::DatagramSent);
                    let mut agents = self.agents.lock();
                    if sent.is_err() {
                        agents.scheduler.refused(push);
                    }
                    if agents.scheduler.is_recording() {
                        agents.scheduler.sent(push, band, now, now_ns());
                    }
                    if let Some(before) = before.filter(|_| band != Band::Middle) {
                        agents.scheduler.charge(push, thread_cpu_ns().saturating_sub(before));
                    }
                    since_poll += 1;
                    Deadline::PAST
                }
                Action::Report { receive, to, via, len } => {
                    let own = self.agents.lock().sending_socket_of(receive, via).cloned();
                    fail_point(FailPoint::ChoiceMade);
                    // Reports are repeated.
                    let _ = own.as_deref().unwrap_or(self.socket_of(via)).send_to(&out[..len], to);
                    fail_point(FailPoint::ChoiceSent);
                    Deadline::PAST
                }
                Action::Idle { until_ns } => until_ns.map_or(Deadline::NONE, Deadline::at_ns),
            };
        }
    }

    /// Sends a datagram with the marks of its class. A change of class costs two system calls. Best
    /// effort waits while the socket is full.
    fn send(
        &self,
        octets: &[u8],
        to: SocketAddr,
        (via, class): (Via, TrafficClass),
        marked: &mut [Option<TrafficClass>; 2],
    ) -> std::io::Result<usize> {
        let socket = self.socket_of(via);
        if marked[via as usize].replace(class) != Some(class) {
            mark(socket, self.marks.of(class));
        }
        match socket.send_to(octets, to) {
            // Without a guaranteed one, best-effort pushes are not paced, and losing a fragment
            // loses the value.
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock && !self.has_guaranteed() => {
                let _ = wait_ready(socket, Interest::WRITE, Deadline::after(FULL));
                socket.send_to(octets, to)
            }
            sent => sent,
        }
    }

    fn has_guaranteed(&self) -> bool {
        self.guaranteed.load(Ordering::Relaxed) > 0
    }

    /// Returns true if a guaranteed agent has a push now.
    fn ring(&self, doorbell: u64) -> bool {
        fail_point(FailPoint::Rung);
        let mut agents = self.agents.lock();
        let Agents { scheduler, doorbells, .. } = &mut *agents;
        doorbells.ring(doorbell, scheduler, now_ns())
    }

    /// The caller holds the lock; a doorbell is handled again only after its release.
    fn unwatch(&self, doorbell: &Doorbell) {
        // The poller watches it, so this cannot fail.
        let _ = self.poller.delete(doorbell);
        self.watched.fetch_sub(1, Ordering::Relaxed);
    }

    fn check_pending(&self) -> bool {
        let mut agents = self.agents.lock();
        let Agents { scheduler, doorbells, .. } = &mut *agents;
        doorbells.check_pending(scheduler, now_ns())
    }

    fn socket_of(&self, via: Via) -> &UdpSocket {
        match (via, &self.second) {
            (Via::Second, Some(second)) => second,
            _ => &self.socket,
        }
    }
}

/// A socket's owner may lack the right to a priority, and an address family may have no marks. The
/// datagrams go without them.
fn mark(socket: &UdpSocket, mark: Mark) {
    let _ = set_dscp(socket, mark.dscp);
    let _ = set_priority(socket, mark.priority.into());
}

pub(super) fn bind(address: SocketAddr) -> std::io::Result<(UdpSocket, SocketAddr)> {
    let socket = UdpSocket::bind(address)?;
    socket.set_nonblocking(true)?;
    // Bursts of large values arrive faster than the thread receives; datagrams that the system
    // drops are counted as lost.
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 4 << 20);
    let address = socket.local_addr()?;
    Ok((socket, address))
}

impl fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatcher").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Why a dispatching thread cannot be started.
#[derive(Debug)]
pub enum StartError {
    /// The socket.
    Socket(std::io::Error),
    /// The poller.
    System(Errno),
    /// The thread.
    Thread(SpawnError),
    /// The common clock.
    Clock(std::io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Socket(error) => write!(f, "the datagram socket: {error}"),
            StartError::System(error) => write!(f, "the poller: {error}"),
            StartError::Thread(error) => write!(f, "the dispatching thread: {error}"),
            StartError::Clock(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StartError {}
