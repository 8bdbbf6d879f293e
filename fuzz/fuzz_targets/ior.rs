//! References, as octets and as text: every readable one can be explained, written, and read again
//! with the same result.
#![no_main]

use isorb_giop::component::Component;
use isorb_giop::{Ior, explain, profile};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(text) = core::str::from_utf8(data)
        && let Ok(ior) = text.parse::<Ior>()
    {
        check(&ior);
    }
    if let Ok(ior) = Ior::from_encapsulation(data) {
        check(&ior);
    }
    let _ = profile::multiple_components(data);
    let _ = isorb::poa::server_of_key(data);
});

fn check(ior: &Ior) {
    assert_eq!(ior.to_string().parse().as_ref(), Ok(ior));
    let text = explain::explain_ior(ior);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
    for profile in ior.iiop_profiles().flatten() {
        profile.addresses().for_each(drop);
        let _ = (profile.code_sets(), profile.orb_type(), profile.component(3));
        let written = profile.to_tagged().unwrap();
        assert_eq!(profile::IiopProfile::parse(&written.data).as_ref(), Ok(&profile));
        for tagged in &profile.components {
            if let Ok(component) = Component::parse(tagged) {
                assert_eq!(Component::parse(&component.to_tagged().unwrap()), Ok(component));
            }
        }
    }
}
