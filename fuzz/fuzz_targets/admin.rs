//! Requests to the live page and to metrics.
#![no_main]

use isorb_admin::is_request;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let hosts = ["lab.example".to_owned()];
    let _ = is_request(data, &hosts);
    // Behind a head that is valid so far.
    let mut request = b"GET / HTTP/1.1\r\nHost: localhost\r\n".to_vec();
    request.extend_from_slice(data);
    let taken = is_request(&request, &hosts);
    request.extend_from_slice(b"\r\n\r\n");
    // Octets after a head that is complete do not change what it says.
    assert!(!taken || is_request(&request, &hosts));
});
