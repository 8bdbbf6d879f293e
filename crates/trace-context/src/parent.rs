//! The field `traceparent` of the W3C's recommendation Trace Context.

use std::fmt;
use std::str::FromStr;

/// Characters of the field in version 00.
pub(crate) const TEXT: usize = 55;
/// Octets of the form in a slot.
const OCTETS: usize = 25;

/// A span of a trace, and whether it is recorded.
///
/// ```
/// use isorb_trace_context::TraceParent;
///
/// let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let parent: TraceParent = text.parse().unwrap();
/// assert!(parent.sampled && parent.to_string() == text);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TraceParent {
    /// The trace; not all zero.
    pub trace: [u8; 16],
    /// The span; not all zero.
    pub span: [u8; 8],
    /// Whether the caller may have recorded the span.
    pub sampled: bool,
}

/// A text that is not a `traceparent`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected 00-TRACE-SPAN-FLAGS with 32, 16 and 2 lower-case hexadecimal digits")
    }
}

impl std::error::Error for Malformed {}

impl TraceParent {
    /// The first span of a new trace, which is recorded.
    ///
    /// # Real-time
    /// Reads random octets of the kernel.
    #[must_use]
    pub fn begin() -> TraceParent {
        let [high, low] = [nonzero(), nonzero()].map(u64::to_be_bytes);
        let mut trace = [0; 16];
        trace[..8].copy_from_slice(&high);
        trace[8..].copy_from_slice(&low);
        TraceParent { trace, span: nonzero().to_be_bytes(), sampled: true }
    }

    /// A new span of the same trace.
    ///
    /// # Real-time
    /// As [`begin`](Self::begin).
    #[must_use]
    pub fn child(&self) -> TraceParent {
        TraceParent { span: nonzero().to_be_bytes(), ..*self }
    }

    pub(crate) fn to_octets(self) -> [u8; OCTETS] {
        let mut octets = [0; OCTETS];
        octets[..16].copy_from_slice(&self.trace);
        octets[16..24].copy_from_slice(&self.span);
        octets[24] = u8::from(self.sampled);
        octets
    }

    pub(crate) fn from_octets(octets: &[u8; OCTETS]) -> TraceParent {
        let (mut trace, mut span) = ([0; 16], [0; 8]);
        trace.copy_from_slice(&octets[..16]);
        span.copy_from_slice(&octets[16..24]);
        TraceParent { trace, span, sampled: octets[24] != 0 }
    }
}

fn nonzero() -> u64 {
    loop {
        let number = isorb_rt::random_u64();
        if number != 0 {
            return number;
        }
    }
}

impl FromStr for TraceParent {
    type Err = Malformed;

    /// Later versions may continue behind a dash; what they add is not read.
    fn from_str(text: &str) -> Result<TraceParent, Malformed> {
        let octets = text.as_bytes();
        let (known, more) = octets.split_at_checked(TEXT).ok_or(Malformed)?;
        let [version] = digits(&known[..2])?;
        let goes_on = matches!(more, [] | [b'-', ..]);
        if version == 0xff || !goes_on || version == 0 && !more.is_empty() {
            return Err(Malformed);
        }
        if [2, 35, 52].iter().any(|at| known[*at] != b'-') {
            return Err(Malformed);
        }
        let (trace, span) = (digits::<16>(&known[3..35])?, digits::<8>(&known[36..52])?);
        let [flags] = digits(&known[53..])?;
        if trace == [0; 16] || span == [0; 8] {
            return Err(Malformed);
        }
        Ok(TraceParent { trace, span, sampled: flags & 1 != 0 })
    }
}

/// Octets as lower-case hexadecimal digits, two each.
fn digits<const N: usize>(text: &[u8]) -> Result<[u8; N], Malformed> {
    let digit = |octet: u8| match octet {
        b'0'..=b'9' => Ok(octet - b'0'),
        b'a'..=b'f' => Ok(octet - b'a' + 10),
        _ => Err(Malformed),
    };
    let mut octets = [0; N];
    for (octet, pair) in octets.iter_mut().zip(text.chunks_exact(2)) {
        *octet = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Ok(octets)
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hexadecimal = |f: &mut fmt::Formatter<'_>, octets: &[u8]| {
            octets.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
        };
        f.write_str("00-")?;
        hexadecimal(f, &self.trace)?;
        f.write_str("-")?;
        hexadecimal(f, &self.span)?;
        write!(f, "-{:02x}", u8::from(self.sampled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn the_examples_of_the_recommendation() {
        let parent: TraceParent = GOOD.parse().unwrap();
        assert_eq!((parent.trace[0], parent.span[7], parent.sampled), (0x4b, 0xb7, true));
        assert!(!GOOD.replace("-01", "-00").parse::<TraceParent>().unwrap().sampled);
        // Other flags are not for us.
        assert!(GOOD.replace("-01", "-ff").parse::<TraceParent>().unwrap().sampled);
        let later = format!("cc{}-what-comes", &GOOD[2..]);
        assert_eq!(later.parse(), Ok(parent));
        assert_eq!(format!("cc{}", &GOOD[2..]).parse(), Ok(parent));
    }

    #[test]
    fn what_is_no_traceparent_is_refused() {
        let zero_trace = format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32));
        let zero_span = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{}-01", "0".repeat(16));
        let wrong = [
            "".to_owned(),
            GOOD[..54].to_owned(),
            format!("{GOOD}-more"),
            format!("cc{}more", &GOOD[2..]),
            format!("ff{}", &GOOD[2..]),
            GOOD.to_uppercase(),
            GOOD.replace('-', "_"),
            GOOD.replace("4b", "ü"),
            zero_trace,
            zero_span,
        ];
        for text in wrong {
            assert_eq!(text.parse::<TraceParent>(), Err(Malformed), "{text:?}");
        }
    }

    #[test]
    fn a_child_has_another_span_of_the_trace() {
        let (one, other) = (TraceParent::begin(), TraceParent::begin());
        assert_ne!(one.trace, other.trace);
        let child = one.child();
        assert!(child.trace == one.trace && child.span != one.span && child.sampled);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,70}") {
            let _ = text.parse::<TraceParent>();
        }

        #[test]
        fn what_is_written_is_read(trace in 1_u128.., span in 1_u64.., sampled: bool) {
            let parent = TraceParent { trace: trace.to_be_bytes(), span: span.to_be_bytes(), sampled };
            prop_assert_eq!(parent.to_string().parse(), Ok(parent));
            prop_assert_eq!(TraceParent::from_octets(&parent.to_octets()), parent);
        }
    }
}
