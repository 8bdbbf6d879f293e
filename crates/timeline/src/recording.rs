//! What is kept of a channel's trace.

use isorb_event::trace::Track;
use isorb_event::{Channel, Rack};

/// On which side of the channel somebody stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Role {
    /// It pushes events.
    Supplier = 0,
    /// It is pushed to.
    Consumer = 1,
}

/// A supplier or consumer, and what people call it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Party {
    /// Which of both.
    pub role: Role,
    /// The number that the trace knows it by, among those of its role.
    pub id: u32,
    /// Its name. A supplier and a consumer of the same name share a row.
    pub name: String,
}

/// What the trace of one channel held.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recording {
    /// The channel's name.
    pub name: String,
    /// Records that found no ring.
    pub lost: u64,
    /// The names.
    pub parties: Vec<Party>,
    /// The records, by thread.
    pub tracks: Vec<Track>,
}

impl Recording {
    /// What `channel` has recorded so far. The channel knows the names of its consumers, as long as they are connected; those of the suppliers
    /// are given here, with their proxies' numbers.
    pub fn of<R: Rack>(
        name: impl Into<String>,
        channel: &Channel<R>,
        suppliers: &[(u32, &str)],
    ) -> Recording {
        let party = |role, id, name: &str| Party { role, id, name: name.to_owned() };
        let mut parties: Vec<Party> =
            suppliers.iter().map(|(id, name)| party(Role::Supplier, *id, name)).collect();
        let consumers = channel.consumers();
        parties.extend(consumers.iter().map(|c| party(Role::Consumer, c.id, &c.name)));
        Recording {
            name: name.into(),
            lost: channel.trace().lost(),
            parties,
            tracks: channel.trace().snapshot(),
        }
    }
}
