//! What the client of a workload is told.

use std::str::FromStr;

/// What some threads of the client do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Role {
    /// How many threads.
    pub threads: u32,
    /// Calls a second of each; 0 is without a pause.
    pub hz: u32,
    /// Work of each call, as [`work`](crate::load::work) counts.
    pub work: i32,
    /// Octets there and back.
    pub payload: u32,
    /// The CORBA priority of the threads; `None` leaves them ordinary threads without one.
    pub priority: Option<i16>,
    /// How long after the others' their first period begins, in microseconds.
    pub delay_us: u32,
    /// What is called.
    pub call: Call,
}

impl Role {
    /// Threads at a CORBA priority that send no payload.
    pub fn new(threads: u32, hz: u32, work: i32, priority: i16) -> Role {
        Role { threads, hz, work, priority: Some(priority), ..Role::default() }
    }

    /// Calls over a raw socket, half a period later so that the two never meet.
    pub fn raw_between(self) -> Role {
        self.raw_after(2)
    }

    /// The same, so many quarters of a period later.
    pub fn raw_after(self, quarters: u32) -> Role {
        Role { delay_us: 250_000 * quarters / self.hz.max(1), call: Call::Raw, ..self }
    }
}

/// What a call is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Call {
    /// Work for the server, and octets there and back.
    #[default]
    Message,
    /// So many structures there and back; neither work nor octets.
    Structures(u32),
    /// The octets of a message without an ORB, over the probe's connection.
    Raw,
    /// As a message, and where its time goes. One thread of one role.
    Layers,
}

/// One run: its length and its roles.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Milliseconds.
    pub ms: u32,
    /// The roles.
    pub roles: Vec<Role>,
}

impl Plan {
    /// The line that orders it.
    pub fn line(&self) -> String {
        let mut line = format!("run {}", self.ms);
        for role in &self.roles {
            let Role { threads, hz, work, payload, priority, delay_us, call } = role;
            let priority = priority.unwrap_or(-1);
            let call = match call {
                Call::Message => "message".to_owned(),
                Call::Structures(count) => count.to_string(),
                Call::Raw => "raw".to_owned(),
                Call::Layers => "layers".to_owned(),
            };
            line += &format!(" {threads}:{hz}:{work}:{payload}:{priority}:{delay_us}:{call}");
        }
        line
    }
}

/// A line that orders nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoPlan;

impl FromStr for Plan {
    type Err = NoPlan;

    fn from_str(line: &str) -> Result<Plan, NoPlan> {
        let mut words = line.split_ascii_whitespace();
        if words.next() != Some("run") {
            return Err(NoPlan);
        }
        let ms = words.next().and_then(|word| word.parse().ok()).ok_or(NoPlan)?;
        let roles: Vec<Role> = words.map(role).collect::<Option<_>>().ok_or(NoPlan)?;
        if roles.is_empty() { Err(NoPlan) } else { Ok(Plan { ms, roles }) }
    }
}

fn role(word: &str) -> Option<Role> {
    let mut numbers = word.split(':');
    let role = Role {
        threads: numbers.next()?.parse().ok()?,
        hz: numbers.next()?.parse().ok()?,
        work: numbers.next()?.parse().ok()?,
        payload: numbers.next()?.parse().ok()?,
        priority: Some(numbers.next()?.parse().ok()?).filter(|&priority| priority >= 0),
        delay_us: numbers.next()?.parse().ok()?,
        call: match numbers.next()? {
            "message" => Call::Message,
            "raw" => Call::Raw,
            "layers" => Call::Layers,
            count => Call::Structures(count.parse().ok()?),
        },
    };
    (numbers.next().is_none() && role.hz <= 10_000).then_some(role)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_lead_back_to_their_order() {
        let high =
            Role { threads: 1, hz: 20, work: 100, priority: Some(30_000), delay_us: 7, ..Role::default() };
        let low =
            Role { threads: 50, work: 100, payload: 10_240, call: Call::Structures(64), ..Role::default() };
        let raw = Role { threads: 1, call: Call::Raw, ..Role::default() };
        let layers = Role { threads: 1, call: Call::Layers, ..Role::default() };
        let order = Plan { ms: 4000, roles: vec![high, low, raw, layers] };
        assert_eq!(
            order.line(),
            "run 4000 1:20:100:0:30000:7:message 50:0:100:10240:-1:0:64 1:0:0:0:-1:0:raw 1:0:0:0:-1:0:layers"
        );
        assert_eq!(order.line().parse(), Ok(order));
        for bad in [
            "",
            "run",
            "run 5",
            "run x 1:1:1:1:1:1:1",
            "run 5 1:1:1:1:1:1",
            "run 5 1:1:1:1:1:1:x",
            "run 5 1:1:1:1:1:1:1:1",
            "walk 5 1:1:1:1:1:1:1",
        ] {
            assert_eq!(bad.parse::<Plan>(), Err(NoPlan), "{bad}");
        }
    }
}
