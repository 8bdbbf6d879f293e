//! CSIv2: service contexts, the component of references, tokens and names. What can be read is
//! written and read again with the same result.
#![no_main]

use isorb_giop::csi::gssup::InitialToken;
use isorb_giop::csi::{EstablishContext, ExportedName, IdentityToken, SasMessage, SecMechList};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((form, data)) = data.split_first() else { return };
    match form % 4 {
        0 => message(data),
        1 => {
            if let Ok(list) = SecMechList::read(data) {
                assert_eq!(SecMechList::read(&list.to_tagged().unwrap().data), Ok(list));
            }
        }
        2 => token(data),
        _ => name(data),
    }
});

fn message(data: &[u8]) {
    let Ok(message) = SasMessage::read(data) else { return };
    assert_eq!(SasMessage::read(&message.write().unwrap()).as_ref(), Ok(&message));
    if let SasMessage::Establish(EstablishContext { identity, token: octets, .. }) = message {
        token(octets);
        if let IdentityToken::PrincipalName(octets) = identity {
            name(octets);
        }
    }
}

fn token(octets: &[u8]) {
    // The framing of a written token may be longer.
    if let Ok(token) = InitialToken::read(octets)
        && let Ok(written) = token.write()
    {
        assert_eq!(InitialToken::read(&written), Ok(token));
    }
}

fn name(octets: &[u8]) {
    if let Ok(name) = ExportedName::read(octets) {
        assert_eq!(name.write(), octets);
    }
}
