//! Credits of a group's members: best effort by multicast.
//!
//! One datagram goes to all members, so the sender keeps what each member that limits it allows,
//! and sends as much as the least of them. All count the octets of the whole group. A member is
//! known by the address of its credits.
//!
//! A heartbeat says what was sent, so a group has one at each interval, and one as soon as a member
//! has joined, whatever else is sent. It carries no number of a credit, because each member has its
//! own: a member gives its credit again with each heartbeat. A member that lives allows two
//! datagrams more soon after it. One that does not for the silence after which
//! nodes count as dead has left, has died or lies, and the others do not wait for it.

use super::credit::on_wire;
use std::net::SocketAddr;

/// Members that limit a group, at most. A further one is not heard: there are no systems of so many
/// nodes on one switch, and a lying node must not take memory.
const MEMBERS: usize = 256;

/// The sender's side.
#[derive(Debug)]
pub(super) struct MemberCredits {
    members: Vec<Member>,
    sent: u64,
    /// See the module.
    silence_ns: u64,
    /// When the present wait began; none while the group may send.
    waits_since: Option<u64>,
}

#[derive(Debug)]
struct Member {
    address: SocketAddr,
    number: u64,
    limit: u64,
    /// When it allowed more than before.
    raised_ns: u64,
}

impl MemberCredits {
    /// No member limits it yet.
    pub fn new(silence_ns: u64) -> MemberCredits {
        MemberCredits { members: Vec::with_capacity(MEMBERS), sent: 0, silence_ns, waits_since: None }
    }

    /// Whether a datagram of `len` octets may be sent. If not, a wait begins.
    pub fn allows(&mut self, len: usize, now_ns: u64) -> bool {
        let next = self.sent.saturating_add(on_wire(len));
        let allowed = self.members.iter().all(|member| next <= member.limit);
        self.waits_since = if allowed { None } else { self.waits_since.or(Some(now_ns)) };
        allowed
    }

    pub fn sent(&mut self, len: usize) {
        self.sent = self.sent.saturating_add(on_wire(len));
    }

    /// Takes a member's credit. False if it is not newer than its last one.
    pub fn renew(&mut self, from: SocketAddr, number: u64, limit: u64, now_ns: u64) -> bool {
        let known = self.members.iter().position(|member| member.address == from);
        let Some(index) = known else {
            let has_room = self.members.len() < MEMBERS;
            if has_room {
                self.members.push(Member { address: from, number, limit, raised_ns: now_ns });
            }
            return has_room;
        };
        let member = &mut self.members[index];
        // After a restart of its server a member counts from 1 again.
        if (number, limit) == (member.number, member.limit) {
            return false;
        }
        if limit > member.limit {
            member.raised_ns = now_ns;
        }
        (member.number, member.limit) = (number, limit);
        true
    }

    /// Forgets the members that hold the group up for longer than the silence.
    pub fn forget_silent(&mut self, len: usize, now_ns: u64) {
        let Some(since) = self.waits_since else { return };
        let (next, silence_ns) = (self.sent.saturating_add(on_wire(len)), self.silence_ns);
        self.members.retain(|member| {
            next <= member.limit || now_ns.saturating_sub(member.raised_ns.max(since)) < silence_ns
        });
    }

    /// For heartbeats: octets that were sent.
    pub fn octets(&self) -> u64 {
        self.sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn member(number: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, number], 7))
    }

    fn fill(credits: &mut MemberCredits, now_ns: u64) -> u64 {
        let before = credits.sent;
        while credits.sent < before + (1 << 20) && credits.allows(934, now_ns) {
            credits.sent(934);
        }
        credits.sent - before
    }

    #[test]
    fn the_least_credit_counts_and_a_member_that_gives_none_is_left_behind() {
        let mut credits = MemberCredits::new(350 * MS);
        assert!(fill(&mut credits, 0) >= 1 << 20, "no member limits it");
        let sent = credits.octets();
        assert!(credits.renew(member(1), 1, sent + 10_000, 0));
        assert!(credits.renew(member(2), 1, sent + 4_000, 0));
        assert!(!credits.renew(member(2), 1, sent + 4_000, 0), "it came twice");
        assert_eq!(fill(&mut credits, 0), 4_000);
        assert!(credits.renew(member(2), 2, sent + 8_000, MS));
        assert_eq!(fill(&mut credits, MS), 4_000);
        // It allows nothing more, and its old credit comes again and again.
        for now in 2..350 {
            credits.renew(member(2), 3, sent + 8_000, now * MS);
            credits.forget_silent(934, now * MS);
            assert_eq!(fill(&mut credits, now * MS), 0, "{now}");
        }
        credits.forget_silent(934, 352 * MS);
        assert_eq!(fill(&mut credits, 352 * MS), 2_000, "as much as the other one allows");
    }

    #[test]
    fn an_old_credit_is_no_silence_before_the_group_waits() {
        let mut credits = MemberCredits::new(350 * MS);
        credits.renew(member(1), 1, 2_000, 0);
        // Nothing is sent for long.
        credits.forget_silent(934, 10_000 * MS);
        assert_eq!(fill(&mut credits, 10_000 * MS), 2_000);
        credits.forget_silent(934, 10_300 * MS);
        assert_eq!(fill(&mut credits, 10_300 * MS), 0, "the wait is shorter than the silence");
    }

    #[test]
    fn members_are_bounded() {
        let mut credits = MemberCredits::new(MS);
        for number in 0..1000_u32 {
            let from = SocketAddr::from((number.to_be_bytes(), 7));
            assert_eq!(credits.renew(from, 1, u64::MAX, 0), number < MEMBERS as u32);
        }
        assert_eq!(credits.members.capacity(), MEMBERS);
    }
}
