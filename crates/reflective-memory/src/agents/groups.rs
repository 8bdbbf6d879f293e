//! Channels of several readers' nodes, and channels with two paths: what a scheduler does for them.

use super::config::Via;
use super::{Action, AgentScheduler, Choice, Push, ReceiveAgent, SchedulerError};
use crate::fail_points::{FailPoint, fail_point};
use crate::wire::{ChannelError, Datagram, HEADER};
use std::net::SocketAddr;

/// Set in the number of a channel that the sender gave, for all receivers of a group.
pub const GROUP: u32 = 1 << 31;

impl AgentScheduler {
    /// Adds a receive agent that joins a group; gives the number by which it is removed. What went
    /// before the next datagram was for others.
    ///
    /// # Errors
    /// [`SchedulerError`]; also where the channel's number is none of a group, or the scheduler has
    /// joined it already.
    pub fn join(&mut self, agent: ReceiveAgent, now_ns: u64) -> Result<u32, SchedulerError> {
        let mut receive = agent.0;
        let (peer, id) = (receive.peer(), receive.channel().id);
        if id & GROUP == 0 || self.groups.contains_key(&(peer, id)) {
            let what = "the group's channel";
            return Err(SchedulerError::Channel(ChannelError {
                what,
                asked: id as usize,
                limit: GROUP as usize,
            }));
        }
        receive.begin(now_ns);
        receive.rejoin();
        let index = self.free_receive()?;
        self.groups.insert((peer, id), index);
        self.enter_receive(index, receive);
        Ok(index)
    }

    /// Shows what comes, or not: where one reader of a group wants nothing, the others go on.
    pub fn set_receiving(&mut self, channel: u32, receiving: bool, now_ns: u64) {
        if let Some(receive) = self.receives.get_mut(channel as usize).and_then(|slot| slot.agent.as_mut()) {
            receive.set_paused(!receiving, now_ns);
            self.watch(channel);
        }
    }

    /// The latest value goes again, for a reader that has just come.
    pub fn repeat(&mut self, key: super::PushKey) {
        if self.push_mut(key).is_some_and(Push::refreshed) {
            self.requeue(key.index);
        }
    }

    /// A receiver says on which path it wants to be sent to. Counted as a stray if it is none of
    /// ours, or was said before another one.
    pub(super) fn chosen(&mut self, from: SocketAddr, datagram: &Datagram<'_>) -> bool {
        let Some(&index) = self.doubled.get(&(datagram.channel, datagram.epoch)) else { return false };
        let Some(push) = self.agent(index) else { return false };
        let known = push.spec.to == from || push.spec.second == Some(from);
        if !known || datagram.token != push.spec.channel.token {
            return false;
        }
        // The same comes by both paths.
        if datagram.push == 0 || datagram.push < push.chosen {
            return false;
        }
        push.chosen = datagram.push;
        let via = if datagram.index == Via::Second as u32 { Via::Second } else { Via::First };
        // What was sent on the path that failed may not have come.
        if push.choose(via) {
            if push.refreshed() {
                self.requeue(index);
            }
            fail_point(FailPoint::ChoiceCame);
        }
        true
    }

    /// Lets a receive agent with two paths say which it wants.
    pub(super) fn choose(&mut self, receive: u32, now_ns: u64) {
        let Some(agent) = self.receives.get_mut(receive as usize).and_then(|slot| slot.agent.as_mut()) else {
            return;
        };
        let Some(wanted) = agent.wanted_path(now_ns) else { return };
        // On both, and once each: the one that is wanted first.
        for via in [wanted, if wanted == Via::First { Via::Second } else { Via::First }] {
            let known = |choice: &Choice| choice.receive == receive && choice.via == via;
            match self.choices.iter_mut().find(|choice| known(choice)) {
                Some(choice) => choice.wanted = wanted,
                None => self.choices.push_back(Choice { receive, wanted, via }),
            }
        }
    }

    /// Makes the datagram of a choice.
    pub(super) fn choice(&mut self, out: &mut [u8]) -> Option<Action> {
        while let Some(Choice { receive, wanted, via }) = self.choices.pop_front() {
            let agent = self.receives.get(receive as usize).and_then(|slot| slot.agent.as_ref());
            let made = agent.and_then(|agent| agent.choice(wanted, via, out.first_chunk_mut::<HEADER>()?));
            if let Some(to) = made {
                return Some(Action::Choose { receive, to, via, len: HEADER });
            }
        }
        None
    }
}
