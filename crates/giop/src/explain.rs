//! References and URLs explained field by field, for people.

use crate::AddressProfile;
use crate::component::{self, Component, PolicyValue, TaggedComponent};
use crate::csi::{
    AsContext, CompoundSecMech, ExportedName, GSSUP_OID, SasContext, SecMechList, TransportMech,
};
use crate::header::minor_version;
use crate::ior::Ior;
use crate::lane_endpoints::{self, LaneEndpoint};
#[cfg(feature = "miop")]
use crate::miop::UipmcProfile;
use crate::policy::{PriorityModel, PriorityModelPolicy, RtPolicy};
use crate::profile::{
    self, IiopProfile, TAG_INTERNET_IOP, TAG_ISORB_SEGMENTS, TAG_MULTIPLE_COMPONENTS, TAG_TAO_DIOP,
    TAG_TAO_SHMIOP, TAG_TAO_UIOP,
};
use crate::url::{Address, Corbaloc, ObjectUrl};
use crate::{UrlError, codeset};
use alloc::format;
use alloc::string::String;
use core::fmt::Write;

#[cfg(feature = "miop")]
mod groups;

/// Octets that one line of a dump shows.
const DUMP_LINE: usize = 16;

/// Octets of unknown data in the dump; the rest is counted.
const DUMP_LIMIT: usize = 256;

/// A reference, field by field, a line each.
pub fn explain_ior(ior: &Ior) -> String {
    let mut lines = Lines::default();
    lines.ior(ior);
    lines.text
}

/// An object URL of any scheme, field by field, a line each.
pub fn explain_url(url: &ObjectUrl) -> String {
    let mut lines = Lines::default();
    match url {
        ObjectUrl::Ior(ior) => lines.ior(ior),
        ObjectUrl::Corbaloc(corbaloc) => {
            lines.line("corbaloc: an object by address and key");
            lines.corbaloc(corbaloc);
        }
        ObjectUrl::Corbaname { context, name } => {
            lines.line("corbaname: an object by its name in a naming context");
            lines.corbaloc(context);
            match name {
                None => lines.line("name: none, the naming context itself"),
                Some(name) => {
                    lines.line(&format!("name: {name}"));
                    lines.indented(|lines| {
                        for (i, step) in name.components().iter().enumerate() {
                            lines.line(&format!("step {}: id {:?}, kind {:?}", i + 1, step.id, step.kind));
                        }
                    });
                }
            }
        }
        ObjectUrl::File(path) => lines.line(&format!("file: another URL or reference, in {path}")),
    }
    lines.text
}

/// Parses a text and explains it.
///
/// # Errors
/// [`UrlError`] for a text that is not a URL.
pub fn explain(text: &str) -> Result<String, UrlError> {
    Ok(explain_url(&text.parse()?))
}

#[derive(Default)]
struct Lines {
    text: String,
    indent: usize,
}

impl Lines {
    fn line(&mut self, line: &str) {
        // Control characters of a peer's text must not reach the terminal.
        let _ = write!(self.text, "{:width$}", "", width = 2 * self.indent);
        self.text.extend(line.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }));
        self.text.push('\n');
    }

    fn indented(&mut self, write: impl FnOnce(&mut Lines)) {
        self.indent += 1;
        write(self);
        self.indent -= 1;
    }

    fn ior(&mut self, ior: &Ior) {
        if ior.is_nil() {
            return self.line("the nil reference: it names no object");
        }
        match ior.type_id.as_str() {
            "" => self.line("type: not given (any object; ask it with _is_a)"),
            id => self.line(&format!("type: {id}")),
        }
        for (i, tagged) in ior.profiles.iter().enumerate() {
            let name = profile::tag_name(tagged.tag).unwrap_or("unknown");
            let (number, tag) = (i + 1, tagged.tag);
            self.line(&format!("profile {number}: {name} (tag {tag:#x}), {} bytes", tagged.data.len()));
            self.indented(|lines| match tagged.tag {
                // All have the layout of IIOP.
                TAG_INTERNET_IOP | TAG_TAO_DIOP | TAG_TAO_SHMIOP => match IiopProfile::parse(&tagged.data) {
                    Ok(profile) => lines.iiop(tagged.tag, &profile, &tagged.data),
                    Err(error) => lines.malformed(&tagged.data, error),
                },
                #[cfg(feature = "miop")]
                profile::TAG_UIPMC => match UipmcProfile::parse(&tagged.data) {
                    Ok(profile) => lines.uipmc(&profile),
                    Err(error) => lines.malformed(&tagged.data, error),
                },
                TAG_MULTIPLE_COMPONENTS => match profile::multiple_components(&tagged.data) {
                    Ok(components) => lines.components(tagged.tag, &components),
                    Err(error) => lines.malformed(&tagged.data, error),
                },
                TAG_TAO_UIOP | TAG_ISORB_SEGMENTS => match AddressProfile::parse(tagged) {
                    Ok(profile) => lines.by_address(&profile),
                    Err(error) => lines.malformed(&tagged.data, error),
                },
                _ => lines.dump(&tagged.data),
            });
        }
    }

    fn by_address(&mut self, profile: &AddressProfile) {
        self.line(&format!("GIOP version: 1.{}", minor_version(profile.version)));
        self.line(&format!("address: {}", profile.address));
        self.line(&format!("object key: {} bytes", profile.key.len()));
        self.indented(|lines| lines.dump(&profile.key));
        self.components(profile.tag, &profile.components);
    }

    fn malformed(&mut self, data: &[u8], error: isorb_cdr::Error) {
        self.line(&format!("malformed: {error}"));
        self.dump(data);
    }

    fn iiop(&mut self, tag: u32, profile: &IiopProfile, data: &[u8]) {
        let order = if data.first().is_some_and(|flag| flag & 1 == 1) { "little" } else { "big" };
        self.line(&format!("IIOP version: 1.{} ({order} endian)", minor_version(profile.version)));
        self.line(&format!("address: {}", address(&profile.host, profile.port)));
        self.line(&format!("object key: {} bytes", profile.key.len()));
        self.indented(|lines| lines.dump(&profile.key));
        self.components(tag, &profile.components);
    }

    fn components(&mut self, profile: u32, components: &[TaggedComponent]) {
        for tagged in components {
            let name = component::tag_name(tagged.tag).unwrap_or("unknown");
            self.line(&format!("component: {name} (tag {:#x}), {} bytes", tagged.tag, tagged.data.len()));
            self.indented(|lines| match lane_endpoints::read(profile, tagged) {
                Some(Ok(lanes)) => lines.lanes(&lanes),
                Some(Err(error)) => lines.malformed(&tagged.data, error),
                None => match Component::parse(tagged) {
                    Ok(component) => lines.component(&component),
                    Err(error) => lines.malformed(&tagged.data, error),
                },
            });
        }
    }

    fn lanes(&mut self, lanes: &[LaneEndpoint]) {
        for LaneEndpoint { address: host, port, priority } in lanes {
            let at = if *port == 0 { host.clone() } else { address(host, *port) };
            match priority {
                0.. => self.line(&format!("endpoint: {at}, CORBA priority {priority}")),
                _ => self.line(&format!("endpoint: {at}, of any priority")),
            }
        }
    }

    fn component(&mut self, component: &Component) {
        match component {
            Component::OrbType(orb) => {
                let name = match orb {
                    0x4953_4f00 => "isorb",
                    0x4154_5400 => "omniORB",
                    0x5441_4f00 => "TAO",
                    0x4a41_4300 => "JacORB",
                    _ => "unknown",
                };
                self.line(&format!("ORB type: {orb:#010x} ({name})"));
            }
            Component::CodeSets(info) => {
                for (text, sets) in [("char", &info.char_data), ("wchar", &info.wchar_data)] {
                    self.line(&format!("{text}: native {}", code_set(sets.native)));
                    for id in &sets.conversion {
                        self.line(&format!("{text}: converts to and from {}", code_set(*id)));
                    }
                }
            }
            Component::Policies(policies) => policies.iter().for_each(|policy| self.policy(policy)),
            Component::AlternateAddress { host, port } => {
                self.line(&format!("also at: {}", address(host, *port)));
            }
            Component::Ssl { supports, requires, port } => {
                self.line(&format!("TLS port: {port}, supports {supports:#06x}, requires {requires:#06x}"));
            }
            Component::OmniUnix { host, path } => {
                self.line(&format!("also at: unix socket {path} of host {host}"));
            }
            Component::Locality { host, identity } => {
                self.line(&format!("means: identity {identity} on the host with boot id {host}"));
            }
            Component::Unknown(tagged) if tagged.tag == component::TAG_CSI_SEC_MECH_LIST => {
                match SecMechList::read(&tagged.data) {
                    Ok(list) => self.security(&list),
                    Err(error) => self.malformed(&tagged.data, error),
                }
            }
            Component::Unknown(tagged) => {
                #[cfg(feature = "miop")]
                if self.of_groups(tagged) {
                    return;
                }
                self.dump(&tagged.data);
            }
        }
    }

    fn security(&mut self, list: &SecMechList) {
        for CompoundSecMech { requires, transport, authentication, attributes } in &list.mechanisms {
            self.line(&format!("security mechanism: requires {requires:#06x}"));
            self.indented(|lines| {
                match transport {
                    TransportMech::None => {}
                    TransportMech::Tls { supports, requires, addresses } => {
                        lines.line(&format!("TLS: supports {supports:#06x}, requires {requires:#06x}"));
                        for (host, port) in addresses {
                            lines.line(&format!("TLS at: {}", address(host, *port)));
                        }
                    }
                    TransportMech::Other(other) => {
                        lines.line(&format!("transport: component with tag {:#x}", other.tag));
                    }
                }
                let AsContext { supports, requires, mechanism, target } = authentication;
                if *supports != 0 {
                    let name =
                        if mechanism == GSSUP_OID { "user name and password (GSSUP)" } else { "a token" };
                    let line = format!(
                        "client authentication by {name}: supports {supports:#06x}, requires {requires:#06x}"
                    );
                    lines.line(&line);
                }
                if let Ok(target) = ExportedName::read(target) {
                    lines.line(&format!("target: {:?}", String::from_utf8_lossy(target.name)));
                }
                let SasContext { supports, identity_types, .. } = attributes;
                if *supports != 0 {
                    let line = format!("identities: supports {supports:#06x}, types {identity_types:#x}");
                    lines.line(&line);
                }
            });
        }
    }

    fn policy(&mut self, policy: &PolicyValue) {
        let name = policy_name(policy.policy_type);
        let number = policy.policy_type;
        match real_time(policy) {
            Some(value) => self.line(&format!("policy {number}: {name}, {value}")),
            None => {
                self.line(&format!("policy {number}: {name}, {} bytes", policy.value.len()));
                self.indented(|lines| lines.dump(&policy.value));
            }
        }
    }

    fn corbaloc(&mut self, corbaloc: &Corbaloc) {
        for url in &corbaloc.addresses {
            match url {
                Address::Rir => self.line("address: an initial reference of this process"),
                Address::Iiop { version, host, port } => {
                    let minor = minor_version(*version);
                    self.line(&format!("address: {}, GIOP 1.{minor}", address(host, *port)));
                }
                #[cfg(feature = "diop")]
                Address::Diop { version, host, port } => {
                    let minor = minor_version(*version);
                    self.line(&format!("address: {}, GIOP 1.{minor} over UDP", address(host, *port)));
                }
                #[cfg(feature = "miop")]
                Address::Miop(found) => {
                    let multicast = address(&format!("{}", found.address), found.port);
                    self.line(&format!("multicast group: {multicast}, UDP"));
                    self.indented(|lines| {
                        lines.group(&found.group);
                        if let Some(answering) = &found.answering {
                            lines.line("for requests that are answered:");
                            lines.indented(|lines| lines.corbaloc(answering));
                        }
                    });
                }
                Address::Other { protocol, address } => {
                    self.line(&format!(
                        "address: {address}, by the protocol {protocol}, which is not known here"
                    ));
                }
            }
        }
        self.line(&format!("object key: {} bytes", corbaloc.key.len()));
        self.indented(|lines| lines.dump(&corbaloc.key));
    }

    /// Offset, hexadecimal digits, and the ASCII characters among them.
    fn dump(&mut self, data: &[u8]) {
        for (i, chunk) in data[..data.len().min(DUMP_LIMIT)].chunks(DUMP_LINE).enumerate() {
            let mut hex = String::new();
            chunk.iter().for_each(|octet| {
                let _ = write!(hex, "{octet:02x} ");
            });
            let plain = |octet: &u8| matches!(octet, b' '..=b'~');
            let ascii: String =
                chunk.iter().map(|octet| if plain(octet) { char::from(*octet) } else { '.' }).collect();
            self.line(&format!("{:04x}  {hex:<width$} {ascii}", i * DUMP_LINE, width = 3 * DUMP_LINE));
        }
        if data.len() > DUMP_LIMIT {
            self.line(&format!("... {} bytes more", data.len() - DUMP_LIMIT));
        }
    }
}

fn address(host: &str, port: u16) -> String {
    match host {
        "" => format!("no host, port {port}"),
        host if host.contains(':') => format!("[{host}]:{port}"),
        host => format!("{host}:{port}"),
    }
}

fn code_set(id: u32) -> String {
    format!("{} ({id:#010x})", codeset::name(id).unwrap_or("unknown"))
}

/// The standard's name of a policy type.
fn policy_name(policy_type: u32) -> &'static str {
    match policy_type {
        16 => "THREAD_POLICY",
        17 => "LIFESPAN_POLICY",
        23 => "REBIND_POLICY",
        24 => "SYNC_SCOPE_POLICY",
        25 => "REQUEST_PRIORITY_POLICY",
        26 => "REPLY_PRIORITY_POLICY",
        31 => "RELATIVE_REQ_TIMEOUT_POLICY",
        32 => "RELATIVE_RT_TIMEOUT_POLICY",
        35 => "QUEUE_ORDER_POLICY",
        37 => "BIDIRECTIONAL_POLICY",
        40 => "PRIORITY_MODEL_POLICY",
        41 => "THREADPOOL_POLICY",
        42 => "SERVER_PROTOCOL_POLICY",
        43 => "CLIENT_PROTOCOL_POLICY",
        44 => "PRIVATE_CONNECTION_POLICY",
        45 => "PRIORITY_BANDED_CONNECTION_POLICY",
        _ => "unknown",
    }
}

/// A Real-Time CORBA policy in words, if there is more to print than its name.
fn real_time(policy: &PolicyValue) -> Option<String> {
    let mut text = String::new();
    let written = match RtPolicy::parse(policy).ok()?? {
        RtPolicy::PriorityModel(PriorityModelPolicy { model, server_priority }) => {
            let model = match model {
                PriorityModel::ClientPropagated => "CLIENT_PROPAGATED",
                PriorityModel::ServerDeclared => "SERVER_DECLARED",
            };
            write!(text, "{model}, server priority {server_priority}")
        }
        RtPolicy::PriorityBands(bands) => {
            text.push_str("bands");
            bands.iter().try_for_each(|band| write!(text, " {}..{}", band.low, band.high))
        }
        RtPolicy::ServerProtocol(protocols) | RtPolicy::ClientProtocol(protocols) => {
            let name = |tag| crate::profile::tag_name(tag).unwrap_or("unknown");
            text.push_str("protocols");
            protocols.iter().try_for_each(|protocol| write!(text, " {}", name(protocol.tag)))
        }
        _ => return None,
    };
    written.ok().map(|()| text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codeset::CodeSetComponentInfo;
    use crate::profile::TaggedProfile;
    use alloc::vec;
    use alloc::vec::Vec;
    use isorb_cdr::Version;
    use proptest::prelude::*;

    #[test]
    fn every_field_is_there() {
        let lanes = [LaneEndpoint { address: "lab".into(), port: 9, priority: 3 }];
        let components = [
            Component::OrbType(component::ORB_TYPE_ISORB),
            Component::CodeSets(CodeSetComponentInfo::ours()),
            Component::Policies(vec![
                PolicyValue { policy_type: 40, value: b"\0\0\0\0\0\0\0\x01\0\x07".into() },
                PolicyValue { policy_type: 45, value: b"\0\0\0\0\0\0\0\x01\0\x01\0\x09".into() },
                PolicyValue { policy_type: 99, value: b"?".into() },
            ]),
            Component::AlternateAddress { host: "fe80::1".into(), port: 7 },
            Component::Unknown(lane_endpoints::write(0, &lanes).unwrap().unwrap()),
            Component::Unknown(TaggedComponent { tag: 0xabcd, data: b"\x01hi".into() }),
        ];
        let profile = IiopProfile {
            version: Version::V1_2,
            host: "lab".into(),
            port: 2809,
            key: b"k\x00".into(),
            components: components.iter().map(|c| c.to_tagged().unwrap()).collect(),
        };
        let mut ior = Ior::iiop("IDL:T:1.0", &profile).unwrap();
        ior.profiles.push(TaggedProfile { tag: 0, data: vec![0, 1] });
        ior.profiles.push(TaggedProfile { tag: 77, data: b"xyz".into() });
        let text = explain_ior(&ior);
        for part in [
            "type: IDL:T:1.0",
            "profile 1: TAG_INTERNET_IOP (tag 0x0)",
            "IIOP version: 1.2",
            "address: lab:2809",
            "object key: 2 bytes",
            "0000  6b 00                                            k.",
            "ORB type: 0x49534f00 (isorb)",
            "char: native UTF-8 (0x05010001)",
            "char: converts to and from ISO 8859-1 (0x00010001)",
            "wchar: native UTF-16 (0x00010109)",
            "policy 40: PRIORITY_MODEL_POLICY, SERVER_DECLARED, server priority 7",
            "policy 45: PRIORITY_BANDED_CONNECTION_POLICY, bands 1..9",
            "policy 99: unknown, 1 bytes",
            "also at: [fe80::1]:7",
            "endpoint: lab:9, CORBA priority 3",
            "component: unknown (tag 0xabcd), 3 bytes",
            "malformed: the message ends inside a value",
            "profile 3: unknown (tag 0x4d), 3 bytes",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(explain_ior(&Ior::NIL).contains("nil"));
    }

    #[test]
    fn urls() {
        let text = explain("corbaname:iiop:1.2@lab:1,rir2:x/Ctx#a/b.c").unwrap();
        for part in ["address: lab:1, GIOP 1.2", "protocol rir2", "step 2: id \"b\", kind \"c\"", "Ctx"] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(explain("corbaloc:rir:/X").unwrap().contains("initial reference"));
        assert!(explain("file:///x").unwrap().contains("/x"));
        assert!(explain("corbaname:rir:").unwrap().contains("context itself"));
        assert!(explain("x").is_err());
    }

    #[test]
    fn nothing_reaches_the_terminal_raw() {
        let ior = Ior {
            type_id: "IDL:\x1b[2J\nX:1.0".into(),
            profiles: vec![TaggedProfile { tag: 9, data: vec![27; 300] }],
        };
        let text = explain_ior(&ior);
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
        assert!(text.contains("44 bytes more"));
    }

    proptest! {
        #[test]
        fn any_profile(tag in 0u32..4, data: Vec<u8>, head in 0usize..3) {
            let mut bytes = b"\0\x01\x02"[..head].to_vec();
            bytes.extend(data);
            let _ = explain_ior(&Ior { type_id: "".into(), profiles: vec![TaggedProfile { tag, data: bytes }] });
        }
    }
}
