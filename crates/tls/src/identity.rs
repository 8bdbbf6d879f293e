//! The identity that a peer proved by its certificate.

use isorb_transport::{PeerCertificate, PeerIdentity, Stream};
use rustls::Connection;
use rustls::pki_types::CertificateDer;
use std::sync::Arc;
use webpki::EndEntityCert;

/// The identity of the peer of a connection after its handshake.
pub(crate) fn of(stream: &dyn Stream, tls: &Connection) -> PeerIdentity {
    let certificate = tls.peer_certificates().and_then(<[_]>::first).and_then(certificate);
    PeerIdentity { certificate: certificate.map(Arc::new), encrypted: true, ..stream.identity() }
}

/// The names in a certificate that the handshake has checked. `None` if it cannot be read all the
/// same.
fn certificate(der: &CertificateDer<'_>) -> Option<PeerCertificate> {
    let certificate = EndEntityCert::try_from(der).ok()?;
    Some(PeerCertificate {
        common_name: common_name(certificate.subject()).unwrap_or_default(),
        dns_names: certificate.valid_dns_names().map(str::to_owned).collect(),
        der: der.to_vec(),
    })
}

/// The first common name in the content of a `Name` (X.501): sets of sequences of a type and a
/// value.
fn common_name(mut name: &[u8]) -> Option<String> {
    const SEQUENCE: u8 = 0x30;
    const SET: u8 = 0x31;
    const COMMON_NAME: [u8; 5] = [0x06, 3, 0x55, 4, 3];
    const UTF8_STRING: u8 = 12;
    const PRINTABLE_STRING: u8 = 19;
    while !name.is_empty() {
        let (mut relative, rest) = content(name, &[SET])?;
        name = rest;
        while !relative.is_empty() {
            let (attribute, rest) = content(relative, &[SEQUENCE])?;
            relative = rest;
            if let Some(value) = attribute.strip_prefix(&COMMON_NAME) {
                let (text, _) = content(value, &[UTF8_STRING, PRINTABLE_STRING])?;
                return String::from_utf8(text.to_vec()).ok();
            }
        }
    }
    None
}

/// The content of a DER value with one of these tags, and the octets behind it.
fn content<'d>(der: &'d [u8], tags: &[u8]) -> Option<(&'d [u8], &'d [u8])> {
    let [tag, length, rest @ ..] = der else { return None };
    let (length, rest) = match *length {
        short @ 0..=0x7f => (usize::from(short), rest),
        0x81 => rest.split_first().map(|(length, rest)| (usize::from(*length), rest))?,
        0x82 => {
            let (length, rest) = rest.split_first_chunk::<2>()?;
            (usize::from(u16::from_be_bytes(*length)), rest)
        }
        _ => return None,
    };
    tags.contains(tag).then(|| rest.split_at_checked(length))?
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &[u8] = b"\x31\x0b\x30\x09\x06\x03\x55\x04\x06\x13\x02DE\
                          \x31\x0e\x30\x0c\x06\x03\x55\x04\x03\x0c\x05radar";

    #[test]
    fn the_common_name_is_found_among_the_parts_of_a_name() {
        assert_eq!(common_name(NAME).as_deref(), Some("radar"));
        assert_eq!(common_name(&NAME[..13]), None);
    }

    #[test]
    fn octets_that_are_no_name_give_none() {
        for end in 14..NAME.len() {
            assert_eq!(common_name(&NAME[..end]), None, "{end}");
        }
        assert_eq!(common_name(b"\x31\x84\xff\xff\xff\xff"), None);
        assert_eq!(common_name(b"\x31\x82\xff"), None);
        assert_eq!(common_name(b"\x30\x00"), None);
    }
}
