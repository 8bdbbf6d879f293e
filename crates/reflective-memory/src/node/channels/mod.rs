//! The owner of the channels between nodes: it opens and closes both ends, admits guaranteed
//! channels, and opens channels again after a server was restarted.

mod admit;
mod groups;
mod handles;
mod liveness;
mod push;
mod rejoin;
mod reopen;
mod replicas;
pub(super) mod table;

pub(crate) use admit::interval;
pub(super) use liveness::Unanswered;
pub(super) use table::ReplicaId;
use table::{Agent, ChannelTable, PushChannel};

use super::areas::Areas;
use super::config::ServerConfig;
use super::coordinator_link::CoordinatorLink;
use super::dispatcher::Dispatcher;
use super::doorbells::Doorbell;
use super::failover::FailoverRef;
use super::orb_path::{self, CallPacing, GuaranteedLane};
use super::timers::Timers;
use crate::Error;
use crate::admission::{NodeAdmission, link_rate};
use crate::fail_points::{FailPoint, fail_point};
use crate::idl::CRM_CommRef;
use crate::memory::{Segment, State};
use isorb::Orb;
use isorb_rt::net::interface_rate;
use isorb_rt::sched::current_cpus;
use isorb_rt::sync::{PiGuard, PiMutex};
use isorb_rt::time::now_ns;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The number of nodes of which the preferred address is remembered without a channel to them.
const REMEMBERED: usize = 64;

/// The channels of a node. Lock order: areas, channels, dispatching threads.
pub(super) struct Channels {
    config: Arc<ServerConfig>,
    /// The configuration names the rate of the link.
    is_paced: bool,
    areas: Arc<Areas>,
    link: Arc<CoordinatorLink>,
    dispatchers: Vec<Dispatcher>,
    table: PiMutex<ChannelTable>,
    admission: PiMutex<NodeAdmission>,
    /// Held while a group is looked up and created, or ended.
    group_setup: PiMutex<()>,
    /// Nodes to which a thread is opening channels again.
    reopening: PiMutex<HashSet<String>>,
    /// The memory of groups that are joined again, by channel. Its state wakes the waiting thread.
    rejoining: PiMutex<HashMap<u32, Segment>>,
    /// The address of each node that answered last.
    preferred: PiMutex<HashMap<String, Arc<AtomicUsize>>>,
    pub orb_replicas: orb_path::Replicas,
    /// The handles of all channels that this node reads.
    handles: handles::ReadChannels,
    /// Threads on the ORB's paths.
    orb_threads: Arc<AtomicUsize>,
    /// The turns of best effort on the ORB's paths.
    call_pacing: Arc<CallPacing>,
    /// Serves guaranteed channels on the ORB's paths.
    pub lane: GuaranteedLane,
    stop: AtomicBool,
}

impl Channels {
    /// Starts the dispatching threads.
    pub fn start(
        mut config: ServerConfig,
        areas: Arc<Areas>,
        link: Arc<CoordinatorLink>,
        timers: Arc<Timers>,
        orb: &Orb,
    ) -> Result<Channels, Error> {
        let threads = config.dispatchers.max(1);
        // The dispatching threads share the link. Admission does not know which thread will push a
        // channel, so each thread has an equal share.
        let named = config.admission.link_bits_per_s;
        let rate = if named > 0 { named } else { rate_at(config.dispatcher.udp.ip()).unwrap_or(0) };
        config.admission.link_bits_per_s = rate / threads as u64;
        let paced = if named > 0 { config.admission.link_bits_per_s } else { 0 };
        config.dispatcher.scheduler.link_bytes_per_s = link_rate(paced);
        let dispatchers = (0..threads)
            .map(|number| Dispatcher::start(&config.dispatcher, number, threads).map_err(Error::setup))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Channels {
            admission: PiMutex::new(
                NodeAdmission::new(&config.admission).processors(processors(threads)).port(
                    rate,
                    config.admission.link_share,
                    config.admission.switch,
                ),
            ),
            is_paced: named > 0,
            lane: GuaranteedLane::new(orb, config.dispatcher.class, config.dispatcher.marks.guaranteed),
            config: Arc::new(config),
            areas,
            link,
            dispatchers,
            table: PiMutex::default(),
            group_setup: PiMutex::new(()),
            reopening: PiMutex::default(),
            rejoining: PiMutex::default(),
            preferred: PiMutex::default(),
            orb_replicas: orb_path::Replicas::new(timers),
            handles: handles::ReadChannels::default(),
            orb_threads: Arc::default(),
            call_pacing: Arc::new(CallPacing::new()),
            stop: AtomicBool::new(false),
        })
    }

    /// Ends the dispatching threads and all channels.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.dispatchers.iter().for_each(Dispatcher::stop);
        for segment in self.rejoining.lock().values() {
            let _ = segment.set_state(State::Destroyed);
        }
        // The threads of the ORB's paths end with their channels.
        self.end_if(|_| true);
        self.lane.close();
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    pub fn lock(&self) -> PiGuard<'_, ChannelTable> {
        self.table.lock()
    }

    pub fn admission(&self) -> PiGuard<'_, NodeAdmission> {
        self.admission.lock()
    }

    /// The configuration, with the link's rate divided among the dispatching threads.
    pub fn config(&self) -> &ServerConfig {
        &self.config
    }

    /// Bits a second of the node's link, for all dispatching threads.
    pub fn link_bits_per_s(&self) -> u64 {
        self.config.admission.link_bits_per_s * self.dispatchers.len() as u64
    }

    pub fn dispatchers(&self) -> &[Dispatcher] {
        &self.dispatchers
    }

    /// The dispatching thread of a channel.
    pub fn dispatcher_of(&self, channel: u32) -> usize {
        (channel & !crate::agents::GROUP) as usize % self.dispatchers.len()
    }

    /// A dispatching thread's address as other nodes see it.
    pub fn published(&self, dispatcher: usize) -> SocketAddr {
        let bound = self.dispatchers[dispatcher].address();
        let port = self.config.publish_port.map(|first| first.wrapping_add(dispatcher as u16));
        SocketAddr::new(self.config.publish.unwrap_or(bound.ip()), port.unwrap_or(bound.port()))
    }

    /// The same on the second path; empty and 0 for none, as in the IDL.
    pub fn published_second(&self, dispatcher: usize) -> (String, u16) {
        let second = self.dispatchers[dispatcher].second_address();
        second.map_or((String::new(), 0), |second| (second.ip().to_string(), second.port()))
    }

    /// A node's server by each of its addresses.
    fn server(&self, node: &str, server: &CRM_CommRef) -> FailoverRef<CRM_CommRef> {
        let preferred = {
            let mut known = self.preferred.lock();
            if known.len() >= REMEMBERED && !known.contains_key(node) {
                // Peers choose the names, so names without a channel are forgotten.
                known.retain(|_, preferred| Arc::strong_count(preferred) > 1);
            }
            known.entry(node.to_owned()).or_default().clone()
        };
        FailoverRef::of(server, self.config.answer, preferred)
    }

    // Doorbells.

    /// All push agents of an area subscribe to this doorbell.
    pub fn move_subscriptions(&self, area: &str, doorbell: &Doorbell) -> Result<(), Error> {
        for channel in self.lock().pushes().filter(|channel| channel.area == area) {
            if let Some((dispatcher, key)) = channel.push() {
                self.dispatchers[dispatcher].subscribe(key, doorbell)?;
            }
        }
        Ok(())
    }

    /// The writer is gone. Its process may keep the doorbell and could ring it for ever.
    pub fn forget_doorbell(&self, number: u64) {
        self.dispatchers.iter().for_each(|dispatcher| dispatcher.forget_doorbell(number));
    }

    /// Guaranteed readers elsewhere were admitted with the values that an earlier writer promised.
    /// A later writer may not write larger ones.
    pub fn check_writer_size(&self, area: &str, size: usize) -> Result<(), Error> {
        match self.lock().admitted_size(area) {
            Some(admitted) if size > admitted => Err(Error::wrong_size(
                "the writer's largest value, with its guaranteed readers,",
                size,
                admitted,
            )),
            _ => Ok(()),
        }
    }

    // The end of writers' ends.

    /// Ends the channels of a destroyed area once their readers have received the heartbeat that
    /// says so. Gives the time.
    pub fn close_destroyed(&self, area: &str) -> u64 {
        let at_ns = now_ns() + self.config.dispatcher.scheduler.heartbeat_ns * 3 / 2;
        let mut table = self.lock();
        let channels = table.remove_area(area);
        table.close_at(at_ns, channels);
        at_ns
    }

    /// Ends the channels of a withdrawn area.
    pub fn end_area(&self, area: &str) {
        let channels = self.lock().remove_area(area);
        self.end_all(channels);
    }

    /// Ends channels of destroyed areas that are due. Gives the time of the next ones.
    pub fn end_due(&self, now_ns: u64) -> Option<u64> {
        let (due, next) = self.lock().due(now_ns);
        self.end_all(due);
        next
    }

    /// Ends all channels that meet a condition.
    pub fn end_if(&self, condition: impl Fn(&PushChannel) -> bool) {
        let ended = self.lock().remove_if(condition);
        self.end_all(ended);
    }

    /// Gives the number of pushes by datagrams.
    pub fn close(&self, handle: u64) -> Result<u64, Error> {
        let channel = self.lock().remove(handle).ok_or_else(|| Error::unknown_handle(handle))?;
        let pushes = self.end(channel);
        fail_point(FailPoint::ChannelClosed);
        Ok(pushes)
    }

    fn end_all(&self, channels: Vec<PushChannel>) {
        for channel in channels {
            self.end(channel);
        }
    }

    /// Ends a channel that was taken out of the table. Gives the number of pushes by datagrams.
    fn end(&self, channel: PushChannel) -> u64 {
        {
            let mut table = self.lock();
            table.remember_name(&channel);
            if let Agent::Datagrams { source, .. } = &channel.agent
                && !table.pushes_datagrams_of(&channel.area)
            {
                // Without a push by datagrams, a write costs its writer no system call. A segment
                // that was mapped for writing can be written.
                let _ = source.set_doorbell(false);
            }
        }
        let pushes = match channel.agent {
            Agent::Member { group } => {
                let pushes = self.pushes_of_group(group);
                self.leave_group(group);
                pushes
            }
            Agent::Datagrams { dispatcher, key, .. } => {
                self.dispatchers[dispatcher].remove_push(key).map_or(0, |stats| stats.begun)
            }
            Agent::Orb { control, best_effort } => {
                control.end();
                if let Some(size) = best_effort {
                    self.admission.lock().leave_best_effort(size);
                }
                0
            }
        };
        self.give_back(channel.grant.as_ref());
        if channel.grant.is_some() {
            self.pace();
        }
        pushes
    }

    /// Paces datagrams and best-effort calls while there are guaranteed channels, so that those
    /// which can wait leave the link to those which cannot.
    pub(super) fn pace(&self) {
        // Held, so that a later change is not overwritten by an earlier one.
        let table = self.lock();
        let is_guaranteed = table.pushes().any(|channel| channel.grant.is_some());
        // Of one dispatching thread.
        let rate = if is_guaranteed { link_rate(self.config.admission.link_bits_per_s) } else { 0 };
        let all = if is_guaranteed { link_rate(self.link_bits_per_s()) } else { 0 };
        self.call_pacing.set_rate(all);
        if self.is_paced {
            return;
        }
        self.dispatchers.iter().for_each(|dispatcher| dispatcher.set_link_rate(rate));
    }

    /// Stops or starts a channel.
    pub fn set_running(&self, handle: u64, running: bool) -> Result<(), Error> {
        let table = self.lock();
        match &table.push(handle).ok_or_else(|| Error::unknown_handle(handle))?.agent {
            Agent::Datagrams { dispatcher, key, .. } => {
                self.dispatchers[*dispatcher].set_running(*key, running);
            }
            Agent::Orb { control, .. } => control.set_running(running),
            // A member cannot stop its group. When it starts, it gets the latest value.
            Agent::Member { group } => {
                if let Some((dispatcher, key)) = table.push(*group).and_then(PushChannel::push)
                    && running
                {
                    self.dispatchers[dispatcher].repeat(key);
                }
            }
        }
        Ok(())
    }
}

/// The processors of so many dispatching threads.
fn processors(threads: usize) -> usize {
    threads.min(current_cpus().map_or(1, |cpus| cpus.len()))
}

/// Packets over loopback are copies in memory, which have no rate. Admission takes this one.
const LOOPBACK_BITS_PER_S: u64 = 10_000_000_000;

/// The rate of the link at an address of this node, if it is known.
fn rate_at(ip: IpAddr) -> Option<u64> {
    if ip.is_loopback() { Some(LOOPBACK_BITS_PER_S) } else { interface_rate(ip) }
}

/// An address that another node reported.
fn address(host: &str, port: u16) -> Result<SocketAddr, Error> {
    let ip: IpAddr = host.parse().map_err(|_| crate::error::PeerError::Address(host.into()))?;
    Ok(SocketAddr::new(ip, port))
}
