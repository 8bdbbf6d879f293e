use super::*;
use crate::{Kind, SystemException, Version, minor};
use alloc::string::ToString;
use alloc::vec::Vec;
use proptest::prelude::*;

fn loc(text: &str) -> Corbaloc {
    match text.parse() {
        Ok(ObjectUrl::Corbaloc(loc)) => loc,
        other => panic!("{text}: {other:?}"),
    }
}

fn iiop(minor: u8, host: &str, port: u16) -> Address {
    let version = [Version::V1_0, Version::V1_1, Version::V1_2][usize::from(minor)];
    Address::Iiop { version, host: host.into(), port }
}

/// The examples of clause 7.6.10.1 and similar ones.
#[test]
fn corbaloc() {
    let one = loc("corbaloc::555xyz.com/Prod/TradingService");
    assert_eq!(one.addresses, [iiop(0, "555xyz.com", 2809)]);
    assert_eq!(one.key, b"Prod/TradingService");
    let two = loc("corbaloc:iiop:1.1@555xyz.com:3075,:1.2@backup:99/Dev%20%ff");
    assert_eq!(two.addresses, [iiop(1, "555xyz.com", 3075), iiop(2, "backup", 99)]);
    assert_eq!(two.key, b"Dev \xff");
    assert_eq!(loc("corbaloc:rir:/TradingService").addresses, [Address::Rir]);
    assert_eq!(loc("corbaloc:rir:").key, b"NameService");
    assert_eq!(loc("CORBALOC:IIOP:host").key, b"");
    assert_eq!(
        loc("corbaloc::[fe80::1%eth0]:1234,:1.2@[::1]/k").addresses,
        [iiop(0, "fe80::1%eth0", 1234), iiop(2, "::1", 2809)]
    );
    let unix = loc("corbaloc:uiop:1.1@/tmp/s|key");
    let (protocol, address) = ("uiop".into(), "1.1@/tmp/s".into());
    assert_eq!(
        (unix.addresses, unix.key),
        (alloc::vec![Address::Other { protocol, address }], b"key".into())
    );
    let mixed = loc("corbaloc:ssliop:1.2@h:7,iiop:h/k");
    assert_eq!(mixed.addresses.len(), 2);
    let ior = mixed.to_ior().unwrap();
    assert_eq!(ior.profiles.len(), 1);
    let profile = ior.iiop_profiles().next().unwrap().unwrap();
    assert_eq!((profile.host.as_str(), profile.port, &profile.key[..]), ("h", 2809, &b"k"[..]));
    assert_eq!(loc("corbaloc:rir:/x").to_ior(), None);
}

#[test]
fn diop() {
    let one = loc("corbaloc:diop:1.1@h:7/k");
    assert_eq!(one.addresses, [Address::Diop { version: Version::V1_1, host: "h".into(), port: 7 }]);
    let other = loc("corbaloc:DIOP:[::1],:h/k");
    let version = Version::V1_2;
    assert_eq!(other.addresses[0], Address::Diop { version, host: "::1".into(), port: 2809 });
    // The layout is IIOP's profile, with TAO's tag.
    let ior = other.to_ior().unwrap();
    assert_eq!(ior.profiles.iter().map(|profile| profile.tag).collect::<Vec<_>>(), [0x5441_4f04, 0]);
    let profile = crate::IiopProfile::parse(&ior.profiles[0].data).unwrap();
    assert_eq!(
        (&*profile.host, profile.port, profile.version, &*profile.key),
        ("::1", 2809, version, &b"k"[..])
    );
}

#[test]
fn miop() {
    let parse = |text: &str| match &loc(text).addresses[..] {
        [Address::Miop(group)] => group.clone(),
        other => panic!("{text}: {other:?}"),
    };
    let one = parse("corbaloc:miop:1.0@1.0-domain-1/225.1.1.1:5000");
    assert_eq!((&*one.group.domain, one.group.id, one.group.ref_version), ("domain", 1, 0));
    assert_eq!((one.address.to_string(), one.port, one.answering), ("225.1.1.1".into(), 5000, None));
    let profile =
        loc("corbaloc:miop:1.0-d-18446744073709551615-7/[ff15::1]:1").to_ior().unwrap().profiles.remove(0);
    assert_eq!(profile.tag, 3);
    let profile = crate::miop::UipmcProfile::parse(&profile.data).unwrap();
    assert_eq!((&*profile.address, profile.port), ("ff15::1", 1));
    let group = profile.group().unwrap();
    assert_eq!((&*group.domain, group.id, group.ref_version), ("d", u64::MAX, 7));
    assert_eq!(profile.answering(), None);
    let two_ways = loc("corbaloc:miop:1.0@1.0-d-1/225.1.1.1:5000;iiop:1.2@lab:9/key").to_ior().unwrap();
    let profile = crate::miop::UipmcProfile::parse(&two_ways.profiles[0].data).unwrap();
    let iiop = profile.answering().unwrap();
    assert_eq!((&*iiop.host, iiop.port, &*iiop.key), ("lab", 9, &b"key"[..]));
    // Beside other addresses; it does not need their key.
    let mixed = loc("corbaloc:miop:1.0@1.0-d-1/225.1.1.1:5000,iiop:h/k");
    assert_eq!((mixed.addresses.len(), &*mixed.key), (2, &b"k"[..]));
}

#[test]
fn corbaname() {
    let parse = |text: &str| match text.parse() {
        Ok(ObjectUrl::Corbaname { context, name }) => (context, name),
        other => panic!("{text}: {other:?}"),
    };
    let (context, name) = parse("corbaname::h:1/ctx#a/string/path.k");
    assert_eq!((context.addresses, &context.key[..]), (alloc::vec![iiop(0, "h", 1)], &b"ctx"[..]));
    assert_eq!(name.unwrap().components()[2].kind, "k");
    assert_eq!(parse("corbaname:rir:").0.key, b"NameService");
    assert_eq!(parse("corbaname:rir:#").1, None);
    assert_eq!(parse("corbaname::h").0.key, b"NameService");
    // Clause 7.6.10.4: escapes of the URL are undone before those of the name.
    let (_, name) = parse(r"corbaname::h#a/b.c\/d");
    assert_eq!(name.clone().unwrap().components()[1].kind, "c/d");
    assert_eq!(parse("corbaname::h#a/b.c%5c/d").1, name);
    assert_eq!(parse("corbaname::h#%c3%bc").1.unwrap().components()[0].id, "\u{fc}");
}

#[test]
fn files_and_references() {
    for text in ["file:///tmp/a%20b.ior", "file://localhost/tmp/a b.ior", " FILE:/tmp/a%20b.ior\n"] {
        assert_eq!(text.parse(), Ok(ObjectUrl::File("/tmp/a b.ior".into())), "{text}");
    }
    assert_eq!("IOR:01000000010000000000000000000000".parse(), Ok(ObjectUrl::Ior(Ior::NIL)));
}

#[test]
fn errors_say_what_where_and_what_to_do() {
    use UrlErrorKind::*;
    for (text, kind, column) in [
        ("", Scheme, 1),
        ("NameService", Scheme, 1),
        (" http://x", Scheme, 2),
        ("corbaloc:", NoAddress, 10),
        ("corbaloc:host/k", Protocol, 10),
        ("corbaloc::h,", NoAddress, 13),
        ("corbaloc::h,g/k", Protocol, 13),
        ("corbaloc::1.9@h/k", Version, 11),
        ("corbaloc::/k", Host, 11),
        ("corbaloc::a b/k", Host, 11),
        ("corbaloc::[::1/k", Bracket, 15),
        ("corbaloc::[::1]x/k", Host, 16),
        ("corbaloc::h:0/k", Port, 13),
        ("corbaloc::h:/k", Port, 13),
        ("corbaloc::h:+1/k", Port, 13),
        ("corbaloc::h:65536/k", Port, 13),
        ("corbaloc:rir:h/k", Rir, 14),
        ("corbaloc::h,rir:/k", Rir, 13),
        ("corbaloc:rir:,:h/k", Rir, 14),
        ("corbaloc::h/k%2", Escape, 14),
        ("corbaloc::h/k#n", Character, 14),
        ("corbaloc::h;x/k", Host, 12),
        ("corbaloc:diop:1.3@h/k", Version, 15),
        ("corbaloc:diop:h:0/k", Port, 17),
        ("corbaloc:miop:1.0@225.1.1.1:5000", Group, 19),
        ("corbaloc:miop:1.0@2.0-d-1/225.1.1.1:5000", Group, 19),
        ("corbaloc:miop:1.0@1.0-d-x/225.1.1.1:5000", Group, 19),
        ("corbaloc:miop:1.0@1.0-d-1-2-3/225.1.1.1:5000", Group, 19),
        ("corbaloc:miop:1.0@1.0-d-1/10.1.1.1:5000", Multicast, 27),
        ("corbaloc:miop:1.0@1.0-d-1/[fe80::1]:5000", Multicast, 27),
        ("corbaloc:miop:1.0@1.0-d-1/225.1.1.1", Multicast, 27),
        ("corbaloc:miop:1.0@1.0-d-1/225.1.1.1:5000;rir:/k", Answering, 42),
        ("corbaloc:miop:1.0@1.0-d-1/225.1.1.1:5000;iiop:h", Answering, 42),
        ("corbaname::h#a//b", NameEmpty, 16),
        ("corbaname::h#a\\b", NameEscape, 15),
        ("corbaname::h#%ff", Escape, 14),
        ("file:x", Path, 6),
        ("file://host/x", Path, 8),
        ("IOR:0", OddDigits, 6),
    ] {
        let error = text.parse::<ObjectUrl>().unwrap_err();
        assert_eq!((error.kind, error.column), (kind, column), "{text}: {error}");
    }
    let exception = SystemException::from("corbaloc::h:0/k".parse::<ObjectUrl>().unwrap_err());
    assert_eq!((exception.kind, exception.minor), (Kind::BadParam, minor::BAD_PARAM_URL_ADDRESS));
    assert_eq!(exception.detail.as_deref(), Some("column 13: a port is a number from 1 to 65535"));
}

#[test]
fn written_and_read_again() {
    for text in [
        "corbaloc::1.0@h:2809/key",
        "corbaloc::1.2@[::1]:1,rir2:x/a%20b",
        "corbaloc:rir:/NameService",
        "corbaloc:uiop:/tmp/s|key%7c",
        "corbaloc:diop:1.2@h:7,:1.2@h:8/k",
        "corbaname:diop:1.2@h:7/NameService#a",
        "corbaloc:miop:1.0@1.0-domain-1/225.1.1.1:5000",
        "corbaloc:miop:1.0@1.0-domain-1-7/[ff15::1]:5000",
        "corbaloc:miop:1.0@1.0-d-1/225.1.1.1:5000/k",
        "corbaloc:miop:1.0@1.0-d-1/225.1.1.1:5000,:1.2@h:8/k",
        "corbaloc:miop:1.0@1.0-d-1/225.1.1.1:5000;:1.2@lab:9/key%20",
        "corbaname::1.0@h:2809/NameService#a/b.c%5c/d",
        "corbaname:rir:/NameService",
        "file:///tmp/a%20b",
    ] {
        assert_eq!(text.parse::<ObjectUrl>().unwrap().to_string(), text);
    }
}

proptest! {
    #[test]
    fn any_text(scheme in "(corbaloc|corbaname|file|IOR|x)?", rest in r"[:,/@#%|\[\]a-c0-2. \\ü]{0,24}") {
        if let Ok(url) = alloc::format!("{scheme}:{rest}").parse::<ObjectUrl>() {
            let text = url.to_string();
            prop_assert_eq!(text.parse::<ObjectUrl>(), Ok(url), "{}", text);
        }
    }

    #[test]
    fn any_unicode(text: String) {
        let _ = text.parse::<ObjectUrl>();
        let _ = alloc::format!("corbaloc:{text}").parse::<ObjectUrl>();
        let _ = alloc::format!("corbaname::h#{text}").parse::<ObjectUrl>();
    }

    #[test]
    fn any_group(rest in r"(1\.[02]@)?1\.0-[a-d]{1,3}-[0-9]{1,3}(-[0-9])?/225\.1\.1\.[0-9]:[0-9]{1,5}[;,/:@ihop.a-c0-9]{0,12}") {
        if let Ok(url) = alloc::format!("corbaloc:miop:{rest}").parse::<ObjectUrl>() {
            let text = url.to_string();
            prop_assert_eq!(text.parse::<ObjectUrl>(), Ok(url), "{}", text);
        }
    }

    #[test]
    fn any_key(key: Vec<u8>) {
        let loc = Corbaloc { addresses: alloc::vec![iiop(2, "h", 1)], key };
        let url = ObjectUrl::Corbaloc(loc);
        prop_assert_eq!(url.to_string().parse(), Ok(url));
    }
}
