//! Trace files.
#![no_main]

use isorb_trace::{decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // The first octets are the same in all files of a version.
    let [first, alone, file] = [2, 3, 4].map(|version| [&b"isorbtrc"[..], &[version], data].concat());
    for octets in [data, &first, &alone, &file] {
        match decode(octets) {
            Ok(recording) => {
                let written = encode(&recording);
                assert_eq!(decode(&written).as_ref(), Ok(&recording));
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
});
