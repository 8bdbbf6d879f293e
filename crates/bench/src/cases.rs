//! What is called, and with how many bytes on the wire.
//!
//! Each case is one operation of `idl/bench.idl` with an argument of one size. The raw subject
//! sends as many bytes as the GIOP 1.2 messages of that operation have (CORBA 3.x part 2, clause
//! 9.4), so that the ratio to it is what an ORB adds to the same traffic.

use std::fmt;
use std::str::FromStr;

/// Readings in the sequence of structures.
pub const READINGS: u32 = 64;
/// The `unit` of each reading.
pub const UNIT: &str = "Cel";

/// Octets of the object key that the messages are computed with.
const OBJECT_KEY: usize = 24;
const GIOP_HEADER: usize = 12;
/// A reading on the wire: a double, an unsigned long long, and the unit as a counted, terminated,
/// padded string.
pub const READING: usize = 8 + 8 + align(4 + UNIT.len() + 1, 8);

/// A sample on the wire, and in memory: a double and an unsigned long long.
pub const SAMPLE: usize = 8 + 8;

/// An operation and the size of its argument.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Case {
    /// The operation.
    pub kind: Kind,
    /// Bytes of payload; 0 for [`Kind::Void`].
    pub size: usize,
}

/// The operations of `Bench::Target` that are timed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// `ping`: nothing either way.
    Void,
    /// `echo`: a sequence of octets there and back.
    Octets,
    /// `text`: a string there and back.
    Text,
    /// `structs`: a sequence of [`READINGS`] structures there and back.
    Structs,
    /// `plain`: a sequence of structures of [`SAMPLE`] bytes there and back, without strings and
    /// padding.
    Plain,
    /// `feed`: a burst of oneways of a sequence of octets, ended by one `fed`.
    Oneway,
    /// `method`: a number and a sequence of octets there and back, as one argument.
    Message,
    /// `post`: a burst of oneways of the same, ended by one `fed`.
    Post,
}

impl Kind {
    const ALL: [Kind; 8] = [
        Kind::Void,
        Kind::Octets,
        Kind::Text,
        Kind::Structs,
        Kind::Plain,
        Kind::Oneway,
        Kind::Message,
        Kind::Post,
    ];

    /// The case's name, the operation of the interface, and the `experiment` field of a result.
    fn spellings(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Kind::Void => ("void", "ping", "two-way-void"),
            Kind::Octets => ("octets", "echo", "two-way-octets"),
            Kind::Text => ("string", "text", "two-way-string"),
            Kind::Structs => ("structs", "structs", "two-way-structs"),
            Kind::Plain => ("plain", "plain", "two-way-plain"),
            Kind::Oneway => ("oneway", "feed", "oneway-octets"),
            Kind::Message => ("message", "method", "two-way-message"),
            Kind::Post => ("post", "post", "oneway-message"),
        }
    }
}

impl Case {
    /// The cases of the two-way experiment, in the order of its report.
    pub fn all() -> Vec<Case> {
        let octets = [64, 1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
        let mut all = vec![Case { kind: Kind::Void, size: 0 }];
        all.extend(octets.map(|size| Case { kind: Kind::Octets, size }));
        all.push(Case { kind: Kind::Text, size: 64 });
        all.push(Case { kind: Kind::Structs, size: READINGS as usize * READING });
        all.push(Case { kind: Kind::Plain, size: READINGS as usize * SAMPLE });
        all.push(Case { kind: Kind::Oneway, size: 1 << 10 });
        all
    }

    /// The `experiment` field of a result.
    pub fn experiment(self) -> &'static str {
        self.kind.spellings().2
    }

    /// Is a sample a mean over a burst instead of one call?
    pub fn is_burst(self) -> bool {
        matches!(self.kind, Kind::Oneway | Kind::Post)
    }

    /// Bytes of the request.
    pub fn request_bytes(self) -> usize {
        let (_, operation, _) = self.kind.spellings();
        self.message(request_header(operation))
    }

    /// Bytes of the reply; 0 for a oneway.
    pub fn reply_bytes(self) -> usize {
        match self.kind {
            Kind::Oneway | Kind::Post => 0,
            // Header, request id, status, number of service contexts (clause 9.4.3.1).
            _ => self.message(GIOP_HEADER + 4 + 4 + 4),
        }
    }

    /// Bytes of the call that ends a burst, there and back.
    pub fn fed_bytes() -> (usize, usize) {
        (request_header("fed"), GIOP_HEADER + 12 + 8)
    }

    fn message(self, header: usize) -> usize {
        let body = match self.kind {
            Kind::Void => return header,
            Kind::Octets | Kind::Oneway => 4 + self.size,
            Kind::Text => 4 + self.size + 1,
            Kind::Structs | Kind::Plain | Kind::Message | Kind::Post => 8 + self.size,
        };
        // A body of GIOP 1.2 starts at a multiple of 8.
        align(header, 8) + body
    }
}

/// A GIOP 1.2 request up to its body (clause 9.4.2.1): id, flags, reserved, target by key,
/// operation, no contexts.
fn request_header(operation: &str) -> usize {
    let target = GIOP_HEADER + 4 + 1 + 3 + align(2, 4);
    let key = target + 4 + OBJECT_KEY;
    align(key + 4 + operation.len() + 1, 4) + 4
}

const fn align(n: usize, to: usize) -> usize {
    n.next_multiple_of(to)
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind.spellings() {
            (name, ..) if self.kind == Kind::Void => f.write_str(name),
            (name, ..) => write!(f, "{name}:{}", self.size),
        }
    }
}

/// A name that is no case of the benchmark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoCase;

impl fmt::Display for NoCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected void, structs, or one of octets, string, plain, oneway, message, post with :BYTES, up to 1048576; plain in whole structures of 16")
    }
}

impl std::error::Error for NoCase {}

impl FromStr for Case {
    type Err = NoCase;

    /// As [`Display`](fmt::Display) writes it; any size that a subject's buffers are made for.
    fn from_str(s: &str) -> Result<Case, NoCase> {
        let (name, size) = s.split_once(':').unwrap_or((s, ""));
        let kind = Kind::ALL.into_iter().find(|kind| kind.spellings().0 == name).ok_or(NoCase)?;
        let usual = match kind {
            Kind::Void => 0,
            Kind::Structs => READINGS as usize * READING,
            Kind::Plain => READINGS as usize * SAMPLE,
            Kind::Octets | Kind::Oneway | Kind::Message | Kind::Post => 1 << 10,
            Kind::Text => 64,
        };
        let size = if size.is_empty() { usual } else { size.parse().map_err(|_| NoCase)? };
        let fixed = matches!(kind, Kind::Void | Kind::Structs);
        let cut = kind == Kind::Plain && (size == 0 || size % SAMPLE != 0);
        let fits = size <= 1 << 20 && !cut && (!fixed || size == usual);
        fits.then_some(Case { kind, size }).ok_or(NoCase)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_case() {
        let others = [Kind::Message, Kind::Post].map(|kind| Case { kind, size: 0 });
        for case in Case::all().into_iter().chain(others) {
            assert_eq!(case.to_string().parse(), Ok(case));
        }
        assert_eq!("oneway".parse(), Ok(Case { kind: Kind::Oneway, size: 1024 }));
        for bad in [
            "",
            "ping",
            "octets:-1",
            "octets:1048577",
            "void:1",
            "structs:7",
            "plain:7",
            "plain:0",
            "string:x",
        ] {
            assert_eq!(bad.parse::<Case>(), Err(NoCase), "{bad}");
        }
    }

    #[test]
    fn messages_are_as_long_as_giop_has_them() {
        // By hand: 12 header, 4 id, 4 flags, 2 disposition and 2 padding, 4 + 24 key, 4 + 5
        // operation, 3 padding, 4 contexts.
        let void = Case { kind: Kind::Void, size: 0 };
        assert_eq!((void.request_bytes(), void.reply_bytes()), (68, 24));
        // The body at 72 or 24, its count, then the octets.
        let octets = Case { kind: Kind::Octets, size: 64 };
        assert_eq!((octets.request_bytes(), octets.reply_bytes()), (72 + 4 + 64, 24 + 4 + 64));
        // A terminating zero.
        let text = Case { kind: Kind::Text, size: 64 };
        assert_eq!((text.request_bytes(), text.reply_bytes()), (72 + 4 + 65, 24 + 4 + 65));
        // 8 value, 8 stamp, 4 count, "Cel\0": 24 octets each, after a count and 4 of padding.
        let structs: Case = "structs".parse().unwrap();
        assert_eq!(structs.size, 64 * 24);
        assert_eq!(structs.reply_bytes(), 24 + 8 + 64 * 24);
        // 8 value, 8 stamp: 16 octets each, after a count and 4 of padding.
        let plain: Case = "plain".parse().unwrap();
        assert_eq!((plain.size, plain.reply_bytes()), (64 * 16, 24 + 8 + 64 * 16));
        let oneway = Case { kind: Kind::Oneway, size: 1024 };
        assert_eq!((oneway.request_bytes(), oneway.reply_bytes()), (72 + 4 + 1024, 0));
        // 4 work, 4 count.
        let message = Case { kind: Kind::Message, size: 64 };
        assert_eq!((message.request_bytes(), message.reply_bytes()), (72 + 8 + 64, 24 + 8 + 64));
        assert_eq!(Case { kind: Kind::Post, size: 0 }.reply_bytes(), 0);
        assert_eq!(Case::fed_bytes(), (64, 32));
    }
}
