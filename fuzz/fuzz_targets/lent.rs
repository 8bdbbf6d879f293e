//! Reads a message of which parts lie elsewhere, and the same message in one piece: the values must
//! be the same, wherever the parts lie.
#![no_main]

use isorb_cdr::{Decoder, Lent, LentOctets, Narrow, Order, Result, Text, Version, Wide};
use isorb_scope::Region;
use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;

struct Elsewhere {
    parts: Vec<(usize, Vec<u8>)>,
    filled: RefCell<Vec<usize>>,
}

impl LentOctets for Elsewhere {
    fn part(&self, i: usize) -> Option<(usize, usize)> {
        self.parts.get(i).map(|(at, octets)| (*at, octets.len()))
    }
    fn fill(&self, i: usize, into: &mut [u8]) {
        into.copy_from_slice(&self.parts[i].1);
        self.once(i);
    }
    fn claim(&self, i: usize) {
        self.once(i);
    }
    fn read(&self, i: usize, from: usize, into: &mut [u8]) {
        into.copy_from_slice(&self.parts[i].1[from..][..into.len()]);
    }
}

impl Elsewhere {
    /// Each part is filled or claimed once, in order.
    fn once(&self, i: usize) {
        assert_eq!(self.filled.borrow().len(), i);
        self.filled.borrow_mut().push(i);
    }
}

// The first octet chooses the byte order, the second how many of the next ones choose types. Then
// come four pairs: how far a part lies behind the one before, and how long it is.
fuzz_target!(|data: &[u8]| {
    let [how, count, rest @ ..] = data else { return };
    let (steps, rest) = rest.split_at(rest.len().min(usize::from(*count)));
    let Some((gaps, octets)) = rest.split_first_chunk::<8>() else { return };
    let mut parts = Vec::new();
    let mut holed = octets.to_vec();
    let mut end = 0;
    for gap in gaps.chunks_exact(2) {
        let range = end + usize::from(gap[0])..end + usize::from(gap[0]) + usize::from(gap[1]).max(1);
        if range.end > octets.len() {
            break;
        }
        end = range.end;
        holed[range.clone()].fill(0xee);
        parts.push((range.start, octets[range].to_vec()));
    }
    let elsewhere = Elsewhere { parts, filled: RefCell::default() };
    let all = |octets: &mut [u8], elsewhere: Option<&Elsewhere>| {
        let text = Text { version: Version::V1_2, narrow: Narrow::Utf8, wide: Wide::Utf16 };
        let mut region = Region::new(1 << 16);
        let scope = region.enter();
        let mut d = Decoder::new(octets, Order::from_flag(*how), text, &scope);
        if let Some(elsewhere) = elsewhere {
            d = d.with_lent(elsewhere);
        }
        let mut values = Vec::new();
        for which in steps {
            let value = read(&mut d, *which);
            let failed = value.is_err();
            values.push(value.map_err(|error| error.kind));
            if failed {
                break;
            }
            assert_eq!(d.position() + d.remaining(), holed.len());
        }
        values
    };
    let whole = all(&mut octets.to_vec(), None);
    let pieces = all(&mut holed.clone(), Some(&elsewhere));
    assert_eq!(whole, pieces);
});

/// A value as text.
fn read(d: &mut Decoder<'_>, which: u8) -> Result<String> {
    Ok(match which % 12 {
        0 => format!("{:?}", d.read::<u8>()?),
        1 => format!("{:?}", d.read::<u16>()?),
        2 => format!("{:?}", d.read::<i64>()?),
        3 => format!("{:?}", d.read::<&str>()?),
        4 => format!("{:?}", d.read::<&[u8]>()?),
        5 => format!("{:?}", d.read::<&[i16]>()?),
        6 => format!("{:?}", d.read::<&[u64]>()?),
        7 => format!("{:?}", d.read::<&[&str]>()?),
        8 => format!("{:?}", d.read::<Lent<'_, u8>>()?.to_vec()),
        9 => format!("{:?}", d.read::<Lent<'_, u32>>()?.to_vec()),
        10 => format!("{:?}", d.read::<Lent<'_, u64>>()?.iter().collect::<Vec<_>>()),
        _ => format!("{:?}", d.encapsulation()?.remaining()),
    })
}
