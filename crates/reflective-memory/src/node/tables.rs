//! What a server knows.

use super::doorbells::Doorbell;
use super::failover::FailoverRef;
use super::rejoin::Trials;
use super::told::Told;
use crate::Error;
use crate::admission::Grant;
use crate::agents::{PushKey, ReceiveStats};
use crate::idl::{Area, CRM_CommRef, ReaderQoS, WriterQoS};
use crate::memory::Segment;
use isorb_rt::time::Deadline;
use rustix::fd::OwnedFd;
use rustix::process::Pid;
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, OnceLock};

#[derive(Debug, Default)]
pub(super) struct Tables {
    pub areas: HashMap<String, AreaEntry>,
    /// Areas that are being made: the coordinator is asked, and the name is taken.
    pub making: HashMap<String, Area>,
    pub sessions: HashMap<u64, Session>,
    /// Writers and readers of libraries, by ticket.
    pub tickets: HashMap<u64, Ticket>,
    /// Channels to several nodes, and what all of them ask for.
    pub groups: Vec<Group>,
    /// Pushes to other nodes, by handle.
    pub channels: HashMap<u64, Channel>,
    /// Pushes of areas that were destroyed, until their readers have heard it.
    pub leaving: Vec<(Deadline, Channel)>,
    pub bytes: usize,
    /// What the coordinator may not know.
    pub told: Told,
    /// Areas that were not taken back.
    pub refused_back: u64,
    /// Push agents that have ended: their dispatching thread, number and name, for records of them.
    pub closed: VecDeque<(usize, u32, String)>,
    last: u64,
}

/// So many of them.
const CLOSED: usize = 4096;

#[derive(Debug)]
pub(super) struct AreaEntry {
    pub what: Area,
    pub segment: Segment,
    /// The ticket of its writer.
    pub writer: Option<u64>,
    /// What the writer promised; kept when it is gone.
    pub promised: WriterQoS,
    /// A server before us made it, and this process handed it back.
    pub adopted_from: Option<Pid>,
    /// It was taken back without the coordinator's word: another node may have one of its name.
    pub unasked: bool,
}

#[derive(Debug)]
pub(super) struct Session {
    pub socket: Arc<OwnedFd>,
    /// Whose it is.
    pub process: Pid,
    /// An area that it hands back is being taken.
    pub hands_back: bool,
}

#[derive(Debug)]
pub(super) struct Ticket {
    pub session: u64,
    pub area: String,
    pub what: What,
}

#[derive(Debug)]
pub(super) enum What {
    /// Rings this doorbell.
    Writer(Doorbell),
    /// Reads the writer's own segment.
    Local,
    /// Shared by all readers of this node that ask for the same.
    Replica(Arc<Replica>),
}

/// The reader's end of a channel.
#[derive(Debug)]
pub(super) struct Replica {
    pub qos: ReaderQoS,
    pub segment: Segment,
    /// Of the writer's area.
    pub identity: u64,
    pub dispatcher: usize,
    /// None on the ORB's path.
    pub datagrams: bool,
    pub channel: u32,
    /// The group that it has joined.
    pub group: Option<IpAddr>,
    pub server: FailoverRef<CRM_CommRef>,
    /// What the writer's node calls it.
    pub handle: u64,
    pub grant: Option<Grant>,
    /// Its readers stopped it. Changed under the tables' lock.
    pub stopped: AtomicBool,
    /// Its channel's number may be another's by now.
    pub closed: AtomicBool,
    /// What was counted for the same readers before this was opened.
    pub earlier: Option<ReceiveStats>,
    /// What was counted when it was closed.
    pub ended: OnceLock<ReceiveStats>,
    /// Pushes that its writer's node made and it did not see.
    pub unseen: OnceLock<u64>,
    /// Readers that are about to have a ticket for it. Changed under the tables' lock once others can find it.
    pub entering: AtomicUsize,
    /// Of the group that its readers asked for, while it is read apart.
    pub trials: Trials,
}

/// The writer's end of a channel.
#[derive(Debug)]
pub(super) struct Channel {
    pub area: String,
    pub to: Destination,
    /// The server of the reader's node, and which one it is.
    pub reader: Option<FailoverRef<CRM_CommRef>>,
    pub incarnation: u64,
    pub grant: Option<Grant>,
    pub agent: Agent,
}

/// A channel to several nodes.
#[derive(Debug)]
pub(super) struct Group {
    pub area: String,
    pub qos: ReaderQoS,
    /// The channel that pushes.
    pub handle: u64,
    pub to: SocketAddr,
    pub channel: crate::wire::Channel,
}

/// Two channels with the same destination are one that was opened anew.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Destination {
    pub node: String,
    pub port: u16,
    /// The two paths number their channels apart.
    pub datagrams: bool,
    pub channel: u32,
}

#[derive(Debug)]
pub(super) enum Agent {
    Datagrams {
        dispatcher: usize,
        key: PushKey,
    },
    /// One of several nodes for which another channel pushes: this one's handle.
    Member {
        group: u64,
    },
    /// The thread ends when the first is set, and pauses while the second is not.
    Orb {
        stop: Arc<AtomicBool>,
        running: Arc<AtomicBool>,
    },
}

impl Channel {
    /// What records call it.
    pub fn name(&self) -> String {
        format!("{} to {}", self.area, self.to.node)
    }
}

impl Tables {
    /// An area is here no more; gives it with the pushes of it, which are to be ended.
    pub fn take_area(&mut self, name: &str) -> Option<(AreaEntry, Vec<Channel>)> {
        let entry = self.areas.remove(name)?;
        self.bytes = self.bytes.saturating_sub(entry.segment.geometry().total_bytes());
        self.told.changed();
        self.groups.retain(|group| group.area != name);
        let channels = self.channels.extract_if(|_, channel| channel.area == name);
        let channels = channels.map(|(_, channel)| channel).collect();
        Some((entry, channels))
    }

    /// Areas that a process has handed back.
    pub fn handed_back_by(&self, process: Pid) -> usize {
        self.areas.values().filter(|entry| entry.adopted_from == Some(process)).count()
    }

    /// What the writer of an area rings, if it has one.
    pub fn doorbell_of(&self, area: &str) -> Option<&Doorbell> {
        let ticket = self.areas.get(area)?.writer?;
        match &self.tickets.get(&ticket)?.what {
            What::Writer(doorbell) => Some(doorbell),
            _ => None,
        }
    }

    /// Its name is wanted for as long as there may be records of it.
    pub fn keep_name(&mut self, channel: &Channel) {
        if let Agent::Datagrams { dispatcher, key } = channel.agent {
            if self.closed.len() == CLOSED {
                self.closed.pop_front();
            }
            self.closed.push_back((dispatcher, key.number(), channel.name()));
        }
    }

    /// A push of this area has ended; without another by datagrams, a write costs its writer no system call.
    pub fn ring_no_more(&self, area: &str) {
        let by_datagrams =
            |other: &Channel| other.area == area && matches!(other.agent, Agent::Datagrams { .. });
        if let Some(entry) = self.areas.get(area)
            && !self.channels.values().any(by_datagrams)
        {
            // What was mapped for writing can be written.
            let _ = entry.segment.set_doorbell(false);
        }
    }

    /// Who has that name, or is about to.
    pub fn area_called(&self, name: &str) -> Option<&Area> {
        self.areas.get(name).map(|entry| &entry.what).or_else(|| self.making.get(name))
    }

    /// Is it one of ours?
    pub fn is_session(&self, session: u64) -> Result<(), Error> {
        match self.sessions.contains_key(&session) {
            true => Ok(()),
            false => Err(Error::unavailable("there is no such session")),
        }
    }

    /// A number for a session that nobody can guess: who knows it may act for the process.
    pub fn session_number(&self) -> u64 {
        loop {
            let number = super::secret();
            if (1..u64::MAX).contains(&number) && !self.sessions.contains_key(&number) {
                return number;
            }
        }
    }

    /// A handle for a channel that nobody can guess: who knows it may stop and close the channel.
    pub fn handle(&self) -> u64 {
        loop {
            let handle = super::secret();
            if handle != 0 && !self.channels.contains_key(&handle) {
                return handle;
            }
        }
    }

    /// A number that was not given out before.
    pub fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

impl Ticket {
    /// Is it for this replica?
    pub fn is_for(&self, replica: &Arc<Replica>) -> bool {
        matches!(&self.what, What::Replica(other) if Arc::ptr_eq(other, replica))
    }
}
