//! Bindings as they lie in the store of the naming service: what can be read is written as the same
//! octets.
#![no_main]

use isorb_naming::binding::{Binding, Target};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some(binding) = Binding::from_octets(data) else { return };
    assert_eq!(binding.to_octets(), data);
    if let Target::Local(id) = binding.target {
        assert!(!id.to_string().is_empty() && Binding::context(id).target == binding.target);
    }
});
