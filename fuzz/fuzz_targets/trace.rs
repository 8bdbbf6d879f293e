//! Trace files.
#![no_main]

use isorb_trace::{decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // The first octets are the same in all files.
    let mut file = b"isorbtrc\x02".to_vec();
    file.extend_from_slice(data);
    for octets in [data, &file] {
        if let Ok(recording) = decode(octets) {
            let written = encode(&recording);
            assert_eq!(decode(&written).as_ref(), Ok(&recording));
        }
    }
});
