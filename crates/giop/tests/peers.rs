//! Octets of other ORBs: stringified references, and the messages in `interop/golden`.

use isorb_giop::codeset::{self, CodeSetComponentInfo};
use isorb_giop::component::Component;
use isorb_giop::fragment::{Assembled, Assembler, Limits};
use isorb_giop::message::{
    self, LocateReply, LocateRequest, Reply, ReplyStatus, Request, Response, ServiceContexts,
};
use isorb_giop::{Header, Ior, MessageKind, SystemException, Version, context, explain};
use isorb_scope::{BufferPool, Region};
use std::fs;
use std::path::{Path, PathBuf};

/// From omniORB 4.3: `genior IDL:Test/Echo:1.0 lab.example 2809 key1`.
const OMNIORB: &str = "IOR:010000001200000049444c3a546573742f4563686f3a312e30000000010000000000000058000000010102000c\
                       0000006c61622e6578616d706c6500f90a0000040000006b65793102000000000000000800000001000000005454410100\
                       00001c00000001000000010001000100000001000105090101000100000009010100";

#[test]
fn a_reference_of_omniorb() {
    let ior: Ior = OMNIORB.parse().unwrap();
    assert_eq!(ior.type_id, "IDL:Test/Echo:1.0");
    let profile = ior.iiop_profiles().next().unwrap().unwrap();
    assert_eq!((profile.version, profile.host.as_str(), profile.port), (Version::V1_2, "lab.example", 2809));
    assert_eq!(profile.key, b"key1");
    assert_eq!(Component::parse(&profile.components[0]), Ok(Component::OrbType(0x4154_5400)));
    let sets = profile.code_sets().unwrap();
    assert_eq!((sets.char_data.native, sets.wchar_data.native), (codeset::ISO_8859_1, codeset::UTF_16));
    assert!(codeset::negotiate(&CodeSetComponentInfo::ours(), &sets).is_ok());
    let text = explain::explain_ior(&ior);
    assert!(text.contains("(omniORB)"), "{text}");
}

/// The reference of this name among those that TAO wrote.
fn of_tao(name: &str) -> Ior {
    let text = include_str!("../../../interop/golden/tao-iors.txt");
    let mut lines = text.lines().skip_while(|line| *line != format!("# {name}"));
    lines.nth(1).unwrap().parse().unwrap()
}

/// TAO's lists of endpoints have the layout that each profile's tag says.
#[test]
fn endpoints_of_lanes_of_tao() {
    let (addresses, shown) = (["127.0.0.1:20010", "127.0.0.1:20020", "127.0.0.1:20030"], [10, 20, 30]);
    let paths = ["/run/rt/s10", "/run/rt/s20", "/run/rt/s30"];
    for (group, lists) in [
        ("ior_iiop", &[addresses][..]),
        ("ior_uiop", &[paths]),
        ("ior_iiop_uiop", &[addresses, paths]),
        ("ior_diop", &[addresses]),
        ("ior_shmiop", &[["localhost:20010", "localhost:20020", "localhost:20030"]]),
    ] {
        let ior = of_tao(&format!("{group} client_propagated_lanes"));
        let text = explain::explain_ior(&ior);
        assert!(!text.contains("malformed"), "{text}");
        for (address, priority) in lists.iter().flat_map(|list| list.iter().zip(shown)) {
            let line = format!("endpoint: {address}, CORBA priority {priority}\n");
            assert!(text.contains(&line), "{group}: no {line}in\n{text}");
        }
        let plain = explain::explain_ior(&of_tao(&format!("{group} plain")));
        assert!(plain.contains("of any priority"), "{plain}");
    }
    let shared = explain::explain_ior(&of_tao("ior_shmiop plain"));
    assert!(shared.contains("address: localhost:20000") && shared.contains("(TAO)"), "{shared}");
}

/// Every recorded message of another ORB can be read to the end of its header, with everything in
/// it that this crate knows. `ISORB_RECORDINGS` names another folder of recordings.
#[test]
fn recorded_messages() {
    let golden = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/golden");
    let folder = std::env::var_os("ISORB_RECORDINGS").map_or_else(golden, PathBuf::from);
    let mut files: Vec<PathBuf> = match fs::read_dir(&folder) {
        Ok(entries) => entries.map(|entry| entry.unwrap().path()).collect(),
        Err(_) => Vec::new(),
    };
    files.retain(|file| file.extension().is_some_and(|extension| extension == "hex" || extension == "txt"));
    files.sort();
    if files.is_empty() {
        eprintln!("skipped: there are no recordings in {}", folder.display());
        return;
    }
    let (mut messages, mut wrong) = (0, Vec::new());
    for file in &files {
        let text = fs::read_to_string(file).unwrap();
        match recording(&text) {
            Ok(found) => messages += found,
            Err(error) => wrong.push(format!("{}: {error}", file.display())),
        }
    }
    eprintln!("{messages} messages and references in {} recordings", files.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(messages > 0);
}

/// A recording is lines of hexadecimal octets; the length in each header separates messages. `#`
/// begins a comment, and the comment before a message describes it. A line with `IOR:` is a
/// reference; its fields follow.
fn recording(text: &str) -> Result<usize, String> {
    let limits = Limits { messages: 8, bytes: 128 << 20, message: 64 << 20 };
    let mut assembler = Assembler::new(BufferPool::new(256 << 20, 1 << 20), limits);
    let mut found = 0;
    let mut octets = Vec::new();
    let mut comment = "";
    let mut fields = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let at = |error: String| format!("line {}: {error}", number + 1);
        if let Some(words) = line.strip_prefix('#') {
            comment = words;
        } else if let Some(start) = line.find("IOR:") {
            let word = line[start..].split_whitespace().next().unwrap_or_default();
            let ior: Ior = word.parse().map_err(|error| at(format!("{error}")))?;
            reference(&ior).map_err(at)?;
            fields = fields_of(&ior);
            found += 1;
        } else if line.starts_with("  ") {
            if !fields.contains(&line.trim().to_owned()) {
                return Err(at(format!("{line} is not among {fields:?}")));
            }
        } else {
            let digits: String = line.chars().filter(|c| !c.is_whitespace()).collect();
            octets.extend(
                (0..digits.len() / 2).map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap()),
            );
            while let Some(head) = octets.first_chunk() {
                let header = Header::parse(head).map_err(|error| at(error.to_string()))?;
                if octets.len() < header.total() {
                    break;
                }
                let rest = octets.split_off(header.total());
                message(&mut assembler, &header, &mut octets, comment).map_err(at)?;
                octets = rest;
                found += 1;
            }
        }
    }
    if octets.is_empty() { Ok(found) } else { Err(format!("{} octets are left over", octets.len())) }
}

/// A reference's fields as the recordings list them.
fn fields_of(ior: &Ior) -> Vec<String> {
    let hex = |octets: &[u8]| octets.iter().map(|octet| format!("{octet:02x}")).collect::<String>();
    let mut fields = vec![format!("type_id {}", ior.type_id)];
    for profile in ior.iiop_profiles().flatten() {
        let minor = isorb_giop::header::minor_version(profile.version);
        fields.push(format!("iiop 1.{minor}"));
        fields.push(format!("host {}", profile.host));
        fields.push(format!("port {}", profile.port));
        fields.push(format!("key {}", hex(&profile.key)));
        fields.extend(profile.components.iter().map(|c| format!("component {} {}", c.tag, hex(&c.data))));
    }
    for profile in ior.profiles.iter().filter(|profile| profile.tag != isorb_giop::profile::TAG_INTERNET_IOP)
    {
        fields.push(format!("profile {} {}", profile.tag, hex(&profile.data)));
    }
    fields
}

/// The observed properties of a message, to be compared with its comment.
#[derive(Default)]
struct Observed {
    id: Option<u32>,
    operation: Option<String>,
    response: Option<Response>,
    status: Option<ReplyStatus>,
    contexts: Vec<u32>,
}

/// `from client: GIOP 1.2, little endian, Request, id 6, echo_long, contexts 1 response_flags 3`
fn compare(comment: &str, header: &Header, seen: &Observed) -> Result<(), String> {
    let parts: Vec<&str> = comment.split(", ").map(|part| part.split(" (").next().unwrap_or(part)).collect();
    let minor = isorb_giop::header::minor_version(header.version);
    let mut wrong = Vec::new();
    let mut check = |what: String, good: bool| {
        if !good {
            wrong.push(what);
        }
    };
    check(format!("version 1.{minor}"), parts.iter().any(|part| part.ends_with(&format!("GIOP 1.{minor}"))));
    let order = if header.order == isorb_cdr::Order::Big { "big endian" } else { "little endian" };
    check(order.into(), parts.contains(&order));
    check(
        header.kind.to_string(),
        parts.iter().any(|part| part.split(' ').next() == Some(header.kind.name())),
    );
    if let Some(id) = seen.id {
        check(format!("id {id}"), parts.contains(&format!("id {id}").as_str()));
    }
    if let Some(operation) = &seen.operation {
        check(operation.clone(), parts.iter().any(|part| part.split(' ').next() == Some(operation)));
    }
    if let Some(response) = seen.response {
        let (flags, expected) = (response as u8, u8::from(response.expected()));
        let new = header.version == Version::V1_2;
        let words =
            if new { format!("response_flags {flags}") } else { format!("response_expected {expected}") };
        check(words.clone(), comment.contains(&words));
    }
    if let Some(status) = seen.status {
        let name = match status {
            ReplyStatus::NoException => "NO_EXCEPTION",
            ReplyStatus::UserException => "USER_EXCEPTION",
            ReplyStatus::SystemException => "SYSTEM_EXCEPTION",
            ReplyStatus::LocationForward => "LOCATION_FORWARD",
            ReplyStatus::LocationForwardPerm => "LOCATION_FORWARD_PERM",
            ReplyStatus::NeedsAddressingMode => "NEEDS_ADDRESSING_MODE",
        };
        check(name.into(), comment.contains(name));
    }
    if !seen.contexts.is_empty() {
        let list: Vec<String> = seen.contexts.iter().map(u32::to_string).collect();
        check(
            format!("contexts {}", list.join(",")),
            comment.contains(&format!("contexts {}", list.join(","))),
        );
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("saw {wrong:?}, the comment says{comment}")) }
}

fn message(
    assembler: &mut Assembler,
    header: &Header,
    octets: &mut [u8],
    comment: &str,
) -> Result<(), String> {
    let seen = match assembler.push(header, octets).map_err(|error| error.to_string())? {
        Assembled::Whole => whole(header, octets)?,
        Assembled::Complete(header, mut buffer) => {
            // The comment is that of the last fragment.
            whole(&header, &mut buffer.bytes_mut()[..header.total()])?;
            Observed::default()
        }
        Assembled::Pending | Assembled::Ignored => Observed::default(),
    };
    // Your own recordings have no comments.
    if comment.contains("GIOP") { compare(comment, header, &seen) } else { Ok(()) }
}

fn whole(header: &Header, octets: &mut [u8]) -> Result<Observed, String> {
    let mut seen = Observed::default();
    let mut region = Region::new(1 << 20);
    let scope = region.enter();
    let read = |error: isorb_cdr::Error| format!("{}: {error}", header.kind);
    let mut d = message::start(octets, header, &scope).map_err(read)?;
    let contexts = match header.kind {
        MessageKind::Request => {
            let request = Request::read(&mut d).map_err(read)?;
            let operation = request.operation.text().map_err(read)?;
            if operation.is_empty() || request.target.key().is_none() {
                return Err(format!("a request without an operation or key: {request:?}"));
            }
            seen.id = Some(request.id);
            seen.operation = Some(operation.into());
            seen.response = Some(request.response);
            request.contexts
        }
        MessageKind::Reply => {
            let reply = Reply::read(&mut d).map_err(read)?;
            message::body(&mut d);
            match reply.status {
                ReplyStatus::SystemException => {
                    let exception = SystemException::decode(&mut d).map_err(read)?;
                    assert_eq!(d.remaining(), 0, "{exception}");
                }
                ReplyStatus::UserException => {
                    let id = d.string().map_err(read)?;
                    assert!(id.starts_with("IDL:"), "{id}");
                }
                ReplyStatus::LocationForward | ReplyStatus::LocationForwardPerm => {
                    reference(&Ior::decode(&mut d).map_err(read)?)?;
                }
                _ => {}
            }
            seen.id = Some(reply.id);
            seen.status = Some(reply.status);
            reply.contexts
        }
        MessageKind::LocateRequest => {
            let locate = LocateRequest::read(&mut d).map_err(read)?;
            assert!(locate.target.key().is_some());
            seen.id = Some(locate.id);
            ServiceContexts::EMPTY
        }
        MessageKind::LocateReply => {
            seen.id = Some(LocateReply::read(&mut d).map_err(read)?.id);
            ServiceContexts::EMPTY
        }
        MessageKind::CancelRequest => {
            seen.id = Some(message::read_cancel(&mut d).map_err(read)?);
            ServiceContexts::EMPTY
        }
        MessageKind::CloseConnection | MessageKind::MessageError | MessageKind::Fragment => {
            ServiceContexts::EMPTY
        }
    };
    for each in contexts {
        let read = |error: isorb_cdr::Error| format!("context {}: {error}", each.id);
        match each.id {
            context::CODE_SETS => drop(context::CodeSets::read(each.data).map_err(read)?),
            context::BI_DIR_IIOP => drop(context::read_listen_points(each.data).map_err(read)?),
            context::INVOCATION_POLICIES => drop(context::read_invocation_policies(each.data).map_err(read)?),
            context::EXCEPTION_DETAIL_MESSAGE => {
                drop(context::read_exception_detail(each.data).map_err(read)?)
            }
            context::RT_CORBA_PRIORITY => {
                context::read_rt_corba_priority(each.data).map_err(|error| error.to_string())?;
            }
            context::RT_CORBA_PRIORITY_RANGE => {
                context::PriorityRange::read(each.data).map_err(|error| error.to_string())?;
            }
            _ => {}
        }
        seen.contexts.push(each.id);
    }
    Ok(seen)
}

fn reference(ior: &Ior) -> Result<(), String> {
    if ior.to_string().parse().as_ref() != Ok(ior) {
        return Err("the reference is not the same when it is written and read".into());
    }
    for profile in ior.iiop_profiles() {
        let profile = profile.map_err(|error| format!("profile: {error}"))?;
        for tagged in &profile.components {
            Component::parse(tagged).map_err(|error| format!("component {:#x}: {error}", tagged.tag))?;
        }
    }
    let text = explain::explain_ior(ior);
    if text.contains("malformed") { Err(text) } else { Ok(()) }
}

/// The test's own reading of recordings.
#[test]
fn recordings_are_read() {
    let good = "# from client: GIOP 1.2, little endian, CloseConnection\n47 49 4f 50 01 02 01 05\n00 00 00 00\n\n474f\n";
    assert_eq!(recording(good).unwrap_err(), "2 octets are left over");
    let good = &good[..good.len() - 5];
    assert_eq!(recording(good), Ok(1));
    for (right, wrong) in [("1.2", "1.1"), ("little", "big"), ("CloseConnection", "MessageError")] {
        assert!(recording(&good.replace(right, wrong)).unwrap_err().starts_with("line 3: saw"), "{wrong}");
    }
    assert_eq!(recording(&format!("# references\n{OMNIORB}\n  host lab.example\n")), Ok(1));
    assert!(recording(&format!("{OMNIORB}\n  port 1\n")).is_err());
    assert!(recording("47494f51010201050000000000").unwrap_err().starts_with("line 1: the message begins"));
}
