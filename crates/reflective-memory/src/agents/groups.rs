//! Channels to several readers' nodes, and the datagrams from receivers to senders: choices of a
//! path, probes of the clock and credits.

use super::config::Via;
use super::credit::{CreditSource, least_credit};
use super::{
    Action, AgentScheduler, Answer, Band, Push, PushKey, ReceiveAgent, Report, ReportKind, SchedulerError,
    Slot, TrafficClass, WIRE_OVERHEAD,
};
use crate::fail_points::{FailPoint, fail_point};
use crate::wire::{Channel, ChannelError, Datagram, HEADER, Kind};
use std::net::SocketAddr;

/// Set in the number of a channel that the sender gave, for all receivers of a group.
pub const GROUP: u32 = 1 << 31;

impl AgentScheduler {
    /// Adds a receive agent that joins a group; gives the number by which it is removed. Earlier
    /// pushes of the group do not count as lost.
    ///
    /// # Errors
    /// [`SchedulerError`]; also where the channel's number is not a group's, or the scheduler has
    /// joined it already.
    pub fn join(&mut self, agent: ReceiveAgent, now_ns: u64) -> Result<u32, SchedulerError> {
        let mut receive = agent.0;
        let (peer, id) = (receive.peer(), receive.channel().id);
        if id & GROUP == 0 || self.groups.contains_key(&(peer, id)) {
            let what = "the group's channel";
            return Err(SchedulerError::Channel(ChannelError {
                what,
                requested: id as usize,
                limit: GROUP as usize,
            }));
        }
        receive.begin(now_ns);
        receive.rejoin();
        let index = self.free_receive()?;
        self.groups.insert((peer, id), index);
        self.enter_receive(index, receive);
        self.share_window();
        Ok(index)
    }

    /// Is a receive agent a member of a group?
    pub fn is_of_group(&self, receive: u32) -> bool {
        let agent = self.receives.get(receive as usize).and_then(|slot| slot.agent.as_ref());
        agent.is_some_and(|agent| agent.channel().id & GROUP != 0)
    }

    /// Makes arriving values visible, or stops that: one reader of a group can stop while the
    /// others continue.
    pub fn set_receiving(&mut self, channel: u32, receiving: bool, now_ns: u64) {
        if let Some(receive) = self.receives.get_mut(channel as usize).and_then(|slot| slot.agent.as_mut()) {
            receive.set_paused(!receiving, now_ns);
            self.watch(channel);
        }
    }

    /// Pushes the latest value again, for a reader that has just joined; before it a heartbeat, by
    /// which the member knows what credit to give.
    pub fn repeat(&mut self, key: super::PushKey) {
        let Some(push) = self.push_mut(key) else { return };
        push.heartbeat_due = true;
        if let Some(timer) = push.heartbeat.take() {
            self.timers.remove(timer);
        }
        self.queue.push_heartbeat(key.index as usize);
        if self.push_mut(key).is_some_and(Push::refreshed) {
            self.requeue(key.index);
        }
    }

    /// A receiver chooses the path of its datagrams. False for an unknown channel, or for a choice
    /// older than the last one.
    pub(super) fn path_chosen(&mut self, from: SocketAddr, datagram: &Datagram<'_>) -> bool {
        let Some((index, push)) = self.push_of(datagram) else { return false };
        if push.spec.second.is_none() || push.path_to(from).is_none() {
            return false;
        }
        // The same choice comes by both paths.
        if datagram.push == 0 || datagram.push < push.chosen {
            return false;
        }
        push.chosen = datagram.push;
        let via = if datagram.index == Via::Second as u32 { Via::Second } else { Via::First };
        // Datagrams on the path that failed may be lost.
        if push.choose(via) {
            if push.refreshed() {
                self.requeue(index);
            }
            fail_point(FailPoint::ChoiceCame);
        }
        true
    }

    /// A receiver probes this node's clock. False for an unknown channel, or where too many
    /// answers wait.
    pub(super) fn probed(&mut self, from: SocketAddr, datagram: &Datagram<'_>, now_ns: u64) -> bool {
        let Some((index, push)) = self.push_of(datagram) else { return false };
        // Members of a group and nodes behind a translating router come from other addresses.
        let (via, number) = (push.path_to(from).unwrap_or(Via::First), push.number);
        let Some(Slot { generation, .. }) = self.pushes.get(index as usize) else { return false };
        let push = PushKey { index, generation: *generation, number };
        let has_room = self.answers.len() < self.answers.capacity();
        if has_room {
            let (sent_ns, arrived_ns) = (datagram.sent_ns, now_ns);
            self.answers.push_back(Answer { push, to: from, via, sent_ns, arrived_ns });
        }
        has_room
    }

    /// A receiver allows more octets. False for an unknown channel.
    pub(super) fn credited(&mut self, from: SocketAddr, datagram: &Datagram<'_>, now_ns: u64) -> bool {
        let Some((index, push)) = self.push_of(datagram) else { return false };
        if push.credited(from, datagram.push, datagram.sequence, now_ns) {
            self.requeue(index);
        }
        true
    }

    /// Limits the octets of best effort that are on their way to this node; `None` for no limit.
    /// The channels share them. Each sender learns its part when its next datagram has arrived.
    ///
    /// # Real-time
    /// A few instructions a channel.
    pub fn limit_best_effort(&mut self, window: Option<u64>) {
        if self.window != window {
            self.window = window;
            self.share_out();
        }
    }

    /// The first credit of a channel that is being opened.
    pub fn first_credit(&self, channel: &Channel) -> u64 {
        self.window.map_or(u64::MAX, |_| least_credit(channel))
    }

    /// A channel came or went: the others share the window anew.
    pub fn share_window(&mut self) {
        if self.window.is_some() {
            self.share_out();
        }
    }

    fn share_out(&mut self) {
        let agents = self.receives.iter().filter_map(|slot| slot.agent.as_ref());
        let channels = agents.filter(|agent| agent.credit.is_some()).count().max(1) as u64;
        let share = self.window.map(|window| window / channels);
        for agent in self.receives.iter_mut().filter_map(|slot| slot.agent.as_mut()) {
            let least = least_credit(agent.channel());
            if let Some(credit) = &mut agent.credit {
                credit.set_window(share.map(|share| share.max(least)));
            }
        }
    }

    /// The push agent of a receiver's datagram.
    fn push_of(&mut self, datagram: &Datagram<'_>) -> Option<(u32, &mut Push)> {
        let index = *self.channels.get(&(datagram.channel, datagram.epoch))?;
        let push = self.agent(index).filter(|push| push.spec.channel.token == datagram.token)?;
        Some((index, push))
    }

    /// Queues the datagrams that a receive agent has for its sender.
    pub(super) fn report(&mut self, receive: u32, now_ns: u64) {
        let Some(agent) = self.receives.get_mut(receive as usize).and_then(|slot| slot.agent.as_mut()) else {
            return;
        };
        if agent.is_probe_due(now_ns) {
            let probe = Report { receive, via: agent.path(), kind: ReportKind::Probe };
            if !self.reports.contains(&probe) {
                self.reports.push_back(probe);
            }
        }
        if agent.credit.as_mut().is_some_and(CreditSource::renew) {
            let credit = Report { receive, via: agent.path(), kind: ReportKind::Credit };
            if !self.reports.contains(&credit) {
                self.reports.push_back(credit);
            }
        }
        let Some(wanted) = agent.wanted_path(now_ns) else { return };
        // On both paths, once each, the chosen one first.
        for via in [wanted, if wanted == Via::First { Via::Second } else { Via::First }] {
            let is_choice = |report: &Report| {
                (report.receive, report.via) == (receive, via) && matches!(report.kind, ReportKind::Path(_))
            };
            let kind = ReportKind::Path(wanted);
            match self.reports.iter_mut().find(|report| is_choice(report)) {
                Some(report) => report.kind = kind,
                None => self.reports.push_back(Report { receive, via, kind }),
            }
        }
    }

    /// Makes the next datagram of a receive agent to its sender, or the next answer to a probe.
    pub(super) fn next_report(&mut self, now_ns: u64, out: &mut [u8]) -> Option<Action> {
        let header = out.first_chunk_mut::<HEADER>()?;
        while let Some(Report { receive, via, kind }) = self.reports.pop_front() {
            let agent = self.receives.get(receive as usize).and_then(|slot| slot.agent.as_ref());
            if let Some(to) = agent.and_then(|agent| agent.report(kind, via, now_ns, header)) {
                return Some(Action::Report { receive, to, via, len: HEADER });
            }
        }
        while let Some(Answer { push, to, via, sent_ns, arrived_ns }) = self.answers.pop_front() {
            let common = self.common.as_mut().and_then(|clock| clock.read());
            if let Some(agent) = self.push(push) {
                let Channel { id: channel, epoch, token, .. } = agent.spec.channel;
                let (kind, push_ns, sequence) = (Kind::Answer, sent_ns, arrived_ns);
                let answer =
                    Datagram { kind, channel, epoch, token, push: push_ns, sequence, ..Datagram::default() };
                let (written_ns, index) = common.map_or((0, 0), |common| (common.ahead_ns, common.bound_ns));
                Datagram { sent_ns: now_ns, written_ns, index, ..answer }.write_head(header);
                self.link.sent(now_ns, HEADER + WIRE_OVERHEAD);
                let (band, class) = (Band::Middle, TrafficClass::Control);
                return Some(Action::Send { to, via, len: HEADER, push, band, class });
            }
        }
        None
    }
}
