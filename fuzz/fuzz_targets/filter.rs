//! Filters from the lists that consumers send.
#![no_main]

use isorb_event::{Dependency, Header, encode, parse, parse_union};
use libfuzzer_sys::fuzz_target;

// Ten octets an entry: type, source and creation time. Small types are designators.
fuzz_target!(|data: &[u8]| {
    let entry = |octets: &[u8]| {
        let number = |at: usize| i16::from_le_bytes([octets[at], octets[at + 1]]);
        let time = [octets[4], octets[5], octets[6], octets[7], octets[8], octets[9], 0, 0];
        let header = Header {
            event_type: i32::from(number(0)),
            source: i32::from(number(2)),
            creation_time: u64::from_le_bytes(time),
            ..Header::default()
        };
        Dependency { header, rt_info: 0 }
    };
    let list: Vec<Dependency> = data.chunks_exact(10).map(entry).collect();
    if let Err(error) = parse_union(&list) {
        assert!(!error.to_string().is_empty());
    }
    let filters = match parse(&list) {
        Ok(filters) => filters,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert!(filters.len() <= list.len());
    // Members of a federation send them on. Masks without bits are written as the filter that every
    // event passes.
    let written = encode(&filters, 0);
    let again = parse(&written).expect("what was written is read");
    assert_eq!((again.len(), encode(&again, 0)), (filters.len(), written));
});
