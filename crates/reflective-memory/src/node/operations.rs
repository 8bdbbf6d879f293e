//! Operations in which several owners take part.

use super::Node;
use super::areas::table::{Attachment, AttachmentKind};
use super::areas::{hand_over_writer, has_ended, idl_state, largest};
use super::coordinator_link::LinkAction;
use super::doorbells::Doorbell;
use super::timers::Timer;
use crate::Error;
use crate::agents::ReceiveStats;
use crate::error::CallerError;
use crate::fail_points::{FailPoint, fail_point};
use crate::idl::{Area, Description, Placement, ReaderQoS, Statistics, UnknownArea, WriterExists, WriterQoS};
use crate::memory::State;
use crate::pattern::matches;

impl Node {
    pub fn create_area(&self, session: u64, what: Area) -> Result<(), Error> {
        let register = |what: &Area| {
            // The coordinator may still have an old area of this name.
            if self.link.next_action() == LinkAction::Register {
                self.register().map_err(|error| self.link.no_answer("the coordinator", error))?;
            }
            self.link.register_area(what)
        };
        self.areas.create(session, what, register, |name| self.link.unregister_area(name))
    }

    pub fn destroy_area(&self, session: u64, name: &str) -> Result<(), Error> {
        self.destroy_own_area(session, name).map_err(|error| self.with_node(error))
    }

    fn destroy_own_area(&self, session: u64, name: &str) -> Result<(), Error> {
        let (entry, end_ns) = {
            let mut areas = self.areas.lock();
            areas.session(session)?;
            let entry = areas.remove(name).ok_or_else(|| Error::unknown_area(name))?;
            // Their readers learn it from a heartbeat, for which nothing waits here.
            (entry, self.channels.close_destroyed(name))
        };
        fail_point(FailPoint::DestroyTaken);
        entry.segment.set_state(State::Destroyed)?;
        fail_point(FailPoint::DestroyTold);
        self.timers.set(Timer::EndDestroyed, end_ns);
        self.link.unregister_area(name);
        fail_point(FailPoint::DestroyEnded);
        Ok(())
    }

    pub fn map_writer(&self, session: u64, name: &str, qos: WriterQoS) -> Result<u64, Error> {
        self.map_own_writer(session, name, qos).map_err(|error| self.with_node(error))
    }

    /// Names the node that has an area which is not on this one. Calls the coordinator, so the
    /// caller holds no lock.
    fn with_node(&self, error: Error) -> Error {
        match error {
            Error::UnknownArea(unknown) => {
                let node = self.link.locate(&unknown.name).map_or(String::new(), |(node, _)| node);
                Error::UnknownArea(UnknownArea { node, ..unknown })
            }
            other => other,
        }
    }

    fn map_own_writer(&self, session: u64, name: &str, qos: WriterQoS) -> Result<u64, Error> {
        let mut areas = self.areas.lock();
        let entry = areas.area(name)?;
        entry.what.check_type(qos.type_hash)?;
        let (size, limit) = (qos.size as usize, entry.what.size as usize);
        if size > limit {
            return Err(Error::wrong_size("the writer's largest value", size, limit));
        }
        self.channels.check_writer_size(name, largest(&qos, limit))?;
        if entry.writer.is_some() {
            // The end of a process that was just killed may not have been noticed yet.
            if areas.writers_socket(name).is_some_and(|socket| !has_ended(&*socket)) {
                return Err(Error::WriterExists(WriterExists { name: name.into() }));
            }
            if let Some(doorbell) = areas.remove_writer(name) {
                self.channels.forget_doorbell(doorbell.number());
            }
        }
        let doorbell = Doorbell::new(areas.number())?;
        let ticket = areas.attach_writer(session, name, qos, doorbell.clone())?;
        fail_point(FailPoint::WriterEntered);
        let welcomed = (|| {
            areas.area(name)?.segment.set_period(qos.period)?;
            // Before it can write.
            self.channels.move_subscriptions(name, &doorbell)?;
            hand_over_writer(&mut areas, session, ticket, name, &doorbell)
        })();
        if let Err(error) = welcomed {
            areas.remove_writer(name);
            self.channels.forget_doorbell(doorbell.number());
            return Err(error);
        }
        fail_point(FailPoint::WriterHandedOver);
        Ok(ticket)
    }

    pub fn attach_reader(&self, session: u64, name: &str, qos: ReaderQoS) -> Result<u64, Error> {
        if let Some(ticket) = self.areas.attach_reader(session, name, &qos)? {
            return Ok(ticket);
        }
        let (replica, segment, data) = self.channels.attach(name, qos)?;
        let attached = self.areas.attach_remote(session, name, replica, &segment, &data);
        attached.inspect_err(|_| self.channels.release(replica))
    }

    pub fn detach(&self, session: u64, ticket: u64) -> Result<(), Error> {
        let attachment = self.areas.lock().detach(session, ticket)?;
        self.attachment_ended(ticket, attachment);
        fail_point(FailPoint::Detached);
        Ok(())
    }

    /// A writer or reader is gone.
    pub(super) fn attachment_ended(&self, ticket: u64, attachment: Attachment) {
        match attachment.kind {
            AttachmentKind::Writer(doorbell) => {
                self.channels.forget_doorbell(doorbell.number());
                self.areas.writer_ended(ticket, &attachment.area);
            }
            AttachmentKind::Reader => {}
            AttachmentKind::Remote(replica) => self.channels.release(replica),
        }
    }

    pub fn set_running(&self, session: u64, ticket: u64, running: bool) -> Result<(), Error> {
        let replica = match self.areas.lock().attachment(session, ticket)?.kind {
            AttachmentKind::Remote(replica) => replica,
            _ => return Err(CallerError::NotRemote.into()),
        };
        self.channels.set_replica_running(replica, running)
    }

    pub fn statistics(&self, session: u64, ticket: u64) -> Result<Statistics, Error> {
        let areas = self.areas.lock();
        let attachment = areas.attachment(session, ticket)?;
        let (segment, stats) = match attachment.kind {
            AttachmentKind::Remote(replica) => {
                let replica = self.channels.replica_statistics(replica);
                replica.ok_or_else(|| Error::unknown_handle(ticket))?
            }
            _ => (areas.area(&attachment.area)?.segment.clone(), None),
        };
        let count = |of: fn(&ReceiveStats) -> u64| stats.as_ref().map_or(0, of);
        let ignored = |stats: &ReceiveStats| {
            let c = &stats.counters;
            c.repeated + c.late + c.forged + c.other_epoch + c.malformed
        };
        Ok(Statistics {
            now: idl_state(segment.state()),
            values: segment.reader()?.sequence(),
            lost: count(|stats| stats.counters.not_complete()),
            skipped: count(|stats| stats.counters.skipped),
            recovered: count(|stats| stats.counters.recovered),
            ignored: count(ignored),
            stale: count(|stats| stats.stale),
            silent: count(|stats| stats.silent),
            worst_age: count(|stats| stats.worst_age_ns),
            age_bound: count(|stats| stats.age_bound_ns.unwrap_or(u64::MAX)),
        })
    }

    /// Areas of this node and of others with names that match a pattern.
    pub fn find_areas(&self, pattern: &str, limit: u32) -> Result<Vec<Placement>, Error> {
        let mut found = self.link.find_areas(pattern, limit)?;
        let node = &self.config.name;
        for entry in self.areas.lock().areas() {
            let name = &entry.what.name;
            // The coordinator may not know it yet.
            let is_known = found.iter().any(|place| place.what.name == *name);
            if !is_known && matches(pattern, name) {
                found.push(Placement { what: entry.what.clone(), node: node.clone() });
            }
        }
        found.sort_by(|one, other| one.what.name.cmp(&other.what.name));
        found.truncate(limit as usize);
        Ok(found)
    }

    pub fn describe(&self, name: &str, channel: u32) -> Result<Description, Error> {
        let areas = self.areas.lock();
        let entry = areas.area(name)?;
        let dispatcher = self.channels.dispatcher_of(channel);
        let address = self.channels.published(dispatcher);
        let (second_host, second_port) = self.channels.published_second(dispatcher);
        Ok(Description {
            what: entry.what.clone(),
            identity: entry.segment.identity(),
            writer: entry.promised,
            clock: isorb_rt::time::now_ns(),
            node: self.config.name.clone(),
            link: self.channels.link_bits_per_s(),
            assured: self.channels.unassured().is_none(),
            host: address.ip().to_string(),
            port: address.port(),
            second_host,
            second_port,
        })
    }
}
