//! The next step of a scheduler: timers, heartbeats, pushes.

use super::push::{Advance, Push};
use super::queue::Band;
use super::{Action, AgentScheduler, PushKey, Timer, TrafficClass, WIRE_OVERHEAD};
use isorb_rt::timers::TimerHandle;
use isorb_trace::{Record, RecordKind};

impl AgentScheduler {
    /// Handles timers that are due and makes at most one datagram.
    ///
    /// # Real-time
    /// Neither allocates nor blocks. The first datagram of a push copies its value.
    pub fn next_action(&mut self, now_ns: u64, out: &mut [u8]) -> Action {
        self.tick(now_ns);
        if let Some(action) = self.next_report(now_ns, out) {
            return action;
        }
        if !self.queue.holds(Band::Upper)
            && let Some(step) = self.heartbeat(now_ns, out)
        {
            return step;
        }
        let free_at = self.link.ready_at(now_ns);
        if free_at > now_ns && self.queue.holds_any() {
            let until = self.timers.next_at().map_or(free_at, |timer| timer.min(free_at));
            return Action::Idle { until_ns: Some(until) };
        }
        while let Some((index, band)) = self.queue.pop() {
            let slot = &mut self.pushes[index];
            let Some(push) = &mut slot.agent else { continue };
            let key = PushKey { index: index as u32, generation: slot.generation, number: push.number };
            match push.advance(now_ns, out) {
                Advance::Datagram { len, last } => {
                    let (to, via) = push.to();
                    // Also values that come early: another class could overtake them.
                    let class = match push.spec.guarantee {
                        Some(_) => TrafficClass::Guaranteed,
                        None => TrafficClass::BestEffort,
                    };
                    self.queue.charge(index, len);
                    self.link.sent(now_ns, len + WIRE_OVERHEAD);
                    if last {
                        self.finish(index as u32, now_ns);
                    } else {
                        self.requeue(index as u32);
                    }
                    return Action::Send { to, via, len, push: key, band, class };
                }
                Advance::WaitUntil(at) => {
                    let handle = self.timers.push(at, Timer::Pace(index as u32)).ok();
                    if let Some(push) = &mut self.pushes[index].agent {
                        push.pace = handle;
                    }
                }
                // It queues again when a credit comes.
                Advance::WaitForCredit => {}
                Advance::Nothing => self.finish(index as u32, now_ns),
            }
        }
        if let Some(step) = self.heartbeat(now_ns, out) {
            return step;
        }
        Action::Idle { until_ns: self.timers.next_at() }
    }

    pub(super) fn tick(&mut self, now_ns: u64) {
        while let Some((at, timer)) = self.timers.pop_due(now_ns) {
            match timer {
                Timer::Release(index) => {
                    let Some(push) = self.agent(index) else { continue };
                    push.release = None;
                    // A periodic release counts from the time at which it was due, so a late check
                    // does not shift the next one.
                    self.release(index, at);
                }
                Timer::Promote(index) => {
                    let Some(push) = self.agent(index) else { continue };
                    push.promote = None;
                    let (was_ready, number) = (push.is_ready(), push.number);
                    push.promoted();
                    if was_ready {
                        self.queue.remove(index as usize);
                        self.requeue(index);
                    }
                    self.note(at, RecordKind::Timeout, Band::Upper, number, now_ns.saturating_sub(at));
                }
                Timer::Pace(index) => {
                    let Some(push) = self.agent(index) else { continue };
                    push.pace = None;
                    self.requeue(index);
                }
                Timer::Heartbeat(index) => {
                    let Some(push) = self.agent(index) else { continue };
                    push.heartbeat = None;
                    push.heartbeat_due = true;
                    self.queue.push_heartbeat(index as usize);
                }
                Timer::Watch(index) => {
                    let Some(receive) = self.receives.get_mut(index as usize).and_then(|s| s.agent.as_mut())
                    else {
                        continue;
                    };
                    receive.watch = None;
                    receive.look(now_ns);
                    self.report(index, now_ns);
                    self.watch(index);
                }
            }
        }
    }

    /// Heartbeats go before all pushes that can wait: they are short, and a node that misses them
    /// declares this one dead. Promoted pushes go before heartbeats, because each agent may have a
    /// heartbeat, and promoted pushes have a bounded share of the link.
    pub(super) fn heartbeat(&mut self, now_ns: u64, out: &mut [u8]) -> Option<Action> {
        while let Some(index) = self.queue.pop_heartbeat() {
            let slot = &mut self.pushes[index];
            let Some(push) = &mut slot.agent else { continue };
            let key = PushKey { index: index as u32, generation: slot.generation, number: push.number };
            if !core::mem::take(&mut push.heartbeat_due) {
                // The path that is not in use: datagrams on the other path are no sign of life on
                // this one.
                if let Some((to, via)) = push.other_path()
                    && let Some(len) = push.plain_heartbeat(now_ns, out)
                {
                    self.link.sent(now_ns, len + WIRE_OVERHEAD);
                    let (band, class) = (Band::Middle, TrafficClass::Control);
                    return Some(Action::Send { to, via, len, push: key, band, class });
                }
                continue;
            }
            if push.spec.second.is_some() {
                self.queue.push_heartbeat(index);
            }
            let made = push.heartbeat_datagram(now_ns, self.config.heartbeat_ns, out);
            let refresh = push.wants_refresh(now_ns, self.config.refresh_ns);
            let (to, via) = push.to();
            let next = push.heartbeat_at(now_ns, self.config.heartbeat_ns);
            self.set(Timer::Heartbeat(index as u32), next);
            if self.agent(index as u32).is_some_and(|push| push.forget_silent(now_ns)) {
                self.requeue(index as u32);
            }
            if refresh && self.agent(index as u32).is_some_and(Push::refreshed) {
                self.requeue(index as u32);
            }
            if let Some(len) = made {
                self.link.sent(now_ns, len + WIRE_OVERHEAD);
                let (band, class) = (Band::Middle, TrafficClass::Control);
                return Some(Action::Send { to, via, len, push: key, band, class });
            }
        }
        None
    }

    /// Begins a push, unless one is under way; then the newest value follows it.
    pub(super) fn release(&mut self, index: u32, at_ns: u64) {
        let Some(push) = self.agent(index) else { return };
        let next = push.released(at_ns);
        if let Some(at) = next.again_at
            && push.release.is_none()
        {
            self.set(Timer::Release(index), at);
        }
        if !next.begins {
            return;
        }
        let (level, id) = self.agent(index).map_or((0, 0), |push| (push.band() as u8, push.number));
        self.trace.add(Record { at: at_ns, kind: RecordKind::Push, level, id, a: 0, b: 0 });
        if let Some(at) = next.promote_at {
            self.set(Timer::Promote(index), at);
        }
        // If the pacer delays it, it queues when the pacer admits it.
        if self.agent(index).is_some_and(|push| push.is_ready()) {
            self.requeue(index);
        }
    }

    pub(super) fn requeue(&mut self, index: u32) {
        let Some(push) = self.agent(index) else { return };
        let (band, level) = (push.band(), push.level());
        self.queue.push(index as usize, band, level);
    }

    pub(super) fn finish(&mut self, index: u32, now_ns: u64) {
        self.queue.end_value(index as usize);
        let Some(push) = self.agent(index) else { return };
        let again = push.finished(now_ns);
        if let Some(timer) = push.promote.take() {
            self.timers.remove(timer);
        }
        if again {
            self.release(index, now_ns);
        }
    }

    pub(super) fn set(&mut self, timer: Timer, at: u64) {
        // The heap has room for four timers a push agent and one a receive agent, and each is set
        // once at a time.
        let Ok(handle) = self.timers.push(at, timer) else { return };
        let keep = |slot: Option<&mut Option<TimerHandle>>| {
            if let Some(slot) = slot {
                *slot = Some(handle);
            }
        };
        match timer {
            Timer::Release(index) => keep(self.agent(index).map(|push| &mut push.release)),
            Timer::Promote(index) => keep(self.agent(index).map(|push| &mut push.promote)),
            Timer::Pace(index) => keep(self.agent(index).map(|push| &mut push.pace)),
            Timer::Heartbeat(index) => keep(self.agent(index).map(|push| &mut push.heartbeat)),
            Timer::Watch(index) => {
                let agent = self.receives.get_mut(index as usize).and_then(|slot| slot.agent.as_mut());
                keep(agent.map(|receive| &mut receive.watch));
            }
        }
    }

    /// Sets the timer of a receive agent, unless one stands that is early enough.
    pub(super) fn watch(&mut self, channel: u32) {
        let Some(receive) = self.receives.get_mut(channel as usize).and_then(|slot| slot.agent.as_mut())
        else {
            return;
        };
        let Some(at) = receive.next_check() else { return };
        match receive.watch {
            Some(timer) if at < receive.watch_at => {
                receive.watch_at = at;
                self.timers.change_key(timer, at);
            }
            Some(_) => {}
            None => {
                receive.watch_at = at;
                self.set(Timer::Watch(channel), at);
            }
        }
    }
}
