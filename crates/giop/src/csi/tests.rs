use super::*;
use crate::component::TAG_CSI_SEC_MECH_LIST;
use alloc::vec;

fn token() -> alloc::vec::Vec<u8> {
    let target = ExportedName::gssup("plant").write();
    gssup::InitialToken { user: b"ada", password: b"engine", target: &target }.write().unwrap()
}

#[test]
fn a_token_is_framed_as_the_gss_api_wants() {
    let token = token();
    assert_eq!(token[..2], [0x60, token.len() as u8 - 2]);
    assert_eq!(token[2..10], *GSSUP_OID);
    let read = gssup::InitialToken::read(&token).unwrap();
    assert_eq!((read.user, read.password), (&b"ada"[..], &b"engine"[..]));
    let target = ExportedName::read(read.target).unwrap();
    assert_eq!((target.mechanism, target.name), (GSSUP_OID, &b"plant"[..]));
    // What a log prints does not have the password.
    assert!(!alloc::format!("{read:?}").contains("engine"));
}

#[test]
fn lengths_of_all_forms_are_read() {
    for length in [0, 60, 100, 101, 200, 300, 4000] {
        let password = vec![b'x'; length];
        let token = gssup::InitialToken { user: b"u", password: &password, target: b"" }.write().unwrap();
        assert_eq!(gssup::InitialToken::read(&token).unwrap().password.len(), length);
        // As JacORB writes it: seven bits to an octet.
        let head = token.len() - token[2..].windows(8).position(|at| at == GSSUP_OID).unwrap() - 2;
        if (0x80..0x4000).contains(&head) {
            let high = (head >> 7) as u8 | 0x80;
            let framed = [&[0x60, high, head as u8 & 0x7f], &token[token.len() - head..]].concat();
            assert_eq!(gssup::InitialToken::read(&framed).unwrap().password.len(), length);
        }
    }
    let long = vec![0; MAX_TOKEN];
    assert!(gssup::InitialToken { user: b"u", password: &long, target: b"" }.write().is_err());
}

#[test]
fn octets_that_are_no_token_are_errors() {
    let token = token();
    for end in 0..token.len() {
        assert!(gssup::InitialToken::read(&token[..end]).is_err(), "{end}");
    }
    for (at, octet) in [(0, 0x61), (1, 0x7f), (1, 0x84), (7, 0x02), (9, 0x02), (14, 0xff)] {
        let mut wrong = token.clone();
        wrong[at] = octet;
        assert!(gssup::InitialToken::read(&wrong).is_err(), "{at}");
    }
    let name = ExportedName::gssup("plant").write();
    for end in 0..name.len() {
        assert!(ExportedName::read(&name[..end]).is_err(), "{end}");
    }
}

#[test]
fn messages_survive_the_wire() {
    let name = ExportedName::gssup("ada").write();
    let establish = |identity| {
        SasMessage::Establish(EstablishContext {
            id: 7,
            authorization: vec![Authorization { kind: 1, element: b"x" }],
            identity,
            token: b"token",
        })
    };
    for message in [
        establish(IdentityToken::Absent),
        establish(IdentityToken::Anonymous),
        establish(IdentityToken::PrincipalName(&name)),
        establish(IdentityToken::CertificateChain(b"chain")),
        establish(IdentityToken::DistinguishedName(b"name")),
        establish(IdentityToken::Other(16, b"other")),
        SasMessage::Complete { id: 1 << 40, stateful: true, token: b"" },
        SasMessage::Error(ContextError { id: 0, major: 1, minor: 1, token: b"e" }),
        SasMessage::InContext { id: 3, discard: true },
    ] {
        let octets = message.write().unwrap();
        assert_eq!(SasMessage::read(&octets).unwrap(), message);
        for end in 0..octets.len() {
            assert!(SasMessage::read(&octets[..end]).is_err(), "{end} of {message:?}");
        }
    }
}

#[test]
fn lists_are_bounded() {
    let authorization = vec![Authorization { kind: 0, element: b"" }; MAX_LIST + 1];
    let identity = IdentityToken::Absent;
    let too_many = SasMessage::Establish(EstablishContext { id: 0, authorization, identity, token: b"" });
    assert!(SasMessage::read(&too_many.write().unwrap()).is_err());
    let long = vec![0; MAX_TOKEN + 1];
    let too_long = SasMessage::Complete { id: 0, stateful: false, token: &long };
    assert!(SasMessage::read(&too_long.write().unwrap()).is_err());
}

#[test]
fn a_mechanism_list_survives_the_wire() {
    let transports = [
        TransportMech::None,
        TransportMech::Tls { supports: 0x66, requires: 6, addresses: vec![("lab".into(), 2809)] },
        TransportMech::Other(crate::component::TaggedComponent { tag: 35, data: vec![1, 2] }),
    ];
    let mechanisms = transports.map(|transport| CompoundSecMech {
        requires: options::ESTABLISH_TRUST_IN_CLIENT,
        transport,
        authentication: AsContext {
            supports: 64,
            requires: 64,
            mechanism: GSSUP_OID.into(),
            target: ExportedName::gssup("plant").write(),
        },
        attributes: SasContext {
            supports: 1024,
            requires: 0,
            authorities: vec![(1, vec![7])],
            naming_mechanisms: vec![GSSUP_OID.into()],
            identity_types: 3,
        },
    });
    let list = SecMechList { stateful: false, mechanisms: mechanisms.into() };
    let component = list.to_tagged().unwrap();
    assert_eq!(component.tag, TAG_CSI_SEC_MECH_LIST);
    assert_eq!(SecMechList::read(&component.data).unwrap(), list);
    for end in 0..component.data.len() {
        assert!(SecMechList::read(&component.data[..end]).is_err(), "{end}");
    }
}

// Octets of JacORB 3.9: its Codec's, and the component of a reference to an object of a POA that
// requires a user name and password.
const JACORB_COMPONENT: &str = "00010000000000010040000000000022000000000040004000000008\
                                06066781020101010000000000000000000000000000000000000000";
const JACORB_TOKEN: &str = "60390606678102010101000000000000000361646100\
                            00000006656e67696e6500000000001504010008060667810201010100000005706c616e74";
const JACORB_ESTABLISH: &str = "000000000000000000000000000000010000000000000000010000000000003b";
const JACORB_ERROR: &str = "00000004000000000000000000000001000000010000000100000000";
const JACORB_COMPLETE: &str = "000000010000000000000000000000010000000000000000";
const JACORB_IN_CONTEXT: &str = "0000000500000000000000000000000100";

fn octets(hex: &str) -> alloc::vec::Vec<u8> {
    let pairs = hex.as_bytes().as_chunks::<2>().0.iter();
    pairs.map(|pair| u8::from_str_radix(core::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

#[test]
fn jacorbs_component_is_read() {
    let list = SecMechList::read(&octets(JACORB_COMPONENT)).unwrap();
    let trust = options::ESTABLISH_TRUST_IN_CLIENT;
    let authentication =
        AsContext { supports: trust, requires: trust, mechanism: GSSUP_OID.into(), target: vec![] };
    let mechanism = CompoundSecMech {
        requires: trust,
        transport: TransportMech::None,
        authentication,
        attributes: SasContext::default(),
    };
    assert_eq!(list, SecMechList { stateful: true, mechanisms: vec![mechanism] });
}

#[test]
fn jacorbs_messages_are_read() {
    let token = octets(JACORB_TOKEN);
    let target = ExportedName::gssup("plant").write();
    let read = gssup::InitialToken::read(&token).unwrap();
    assert_eq!(read, gssup::InitialToken { user: b"ada", password: b"engine", target: &target });
    let establish = [octets(JACORB_ESTABLISH), token.clone()].concat();
    let expected =
        EstablishContext { id: 1, authorization: vec![], identity: IdentityToken::Absent, token: &token };
    assert_eq!(SasMessage::read(&establish).unwrap(), SasMessage::Establish(expected));
    for (hex, expected) in [
        (JACORB_ERROR, SasMessage::Error(ContextError { id: 1, major: 1, minor: 1, token: b"" })),
        (JACORB_COMPLETE, SasMessage::Complete { id: 1, stateful: false, token: b"" }),
        (JACORB_IN_CONTEXT, SasMessage::InContext { id: 1, discard: false }),
    ] {
        assert_eq!(SasMessage::read(&octets(hex)).unwrap(), expected);
    }
}
