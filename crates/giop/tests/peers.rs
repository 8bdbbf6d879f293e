//! What other ORBs wrote: stringified references, and the messages in `interop/golden`.

use isorb_giop::codeset::{self, CodeSetComponentInfo};
use isorb_giop::component::Component;
use isorb_giop::fragment::{Assembled, Assembler, Limits};
use isorb_giop::message::{self, LocateReply, LocateRequest, Reply, ReplyStatus, Request, ServiceContexts};
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

/// Every message that another ORB was seen to send can be read to the end of its header, and everything in it that this
/// crate knows. Another folder of recordings is read when `ISORB_RECORDINGS` names one.
#[test]
fn recorded_messages() {
    let golden = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/golden");
    let folder = std::env::var_os("ISORB_RECORDINGS").map_or_else(golden, PathBuf::from);
    let mut files: Vec<PathBuf> = match fs::read_dir(&folder) {
        Ok(entries) => entries.map(|entry| entry.unwrap().path()).collect(),
        Err(_) => Vec::new(),
    };
    files.retain(|file| file.extension().is_some_and(|extension| extension == "hex" || extension == "ior"));
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

/// A recording is lines of hexadecimal octets, perhaps behind an offset and a colon; `#` begins a comment; a line that is
/// something else, or empty, parts messages, and so does the length in each header. A line with `IOR:` is a reference.
fn recording(text: &str) -> Result<usize, String> {
    let limits = Limits { messages: 8, bytes: 128 << 20, message: 64 << 20 };
    let mut assembler = Assembler::new(BufferPool::new(256 << 20, 1 << 20), limits);
    let mut found = 0;
    let mut octets = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let at = |error: String| format!("line {}: {error}", number + 1);
        if let Some(start) = line.find("IOR:").filter(|_| !line.starts_with('#')) {
            let word = line[start..].split_whitespace().next().unwrap_or_default();
            let ior: Ior = word.parse().map_err(|error| at(format!("{error}")))?;
            reference(&ior).map_err(at)?;
            found += 1;
            continue;
        }
        let line = line.split('#').next().unwrap_or_default();
        let line = line.split_once(": ").map_or(line, |(_, rest)| rest);
        let digits: String = line.chars().filter(|c| !c.is_whitespace()).collect();
        if digits.is_empty()
            || !digits.len().is_multiple_of(2)
            || !digits.bytes().all(|b| b.is_ascii_hexdigit())
        {
            continue;
        }
        octets
            .extend((0..digits.len()).step_by(2).map(|i| u8::from_str_radix(&digits[i..i + 2], 16).unwrap()));
        while let Some(head) = octets.first_chunk() {
            let header = Header::parse(head).map_err(|error| at(error.to_string()))?;
            if octets.len() < header.total() {
                break;
            }
            let rest = octets.split_off(header.total());
            message(&mut assembler, &header, &mut octets).map_err(at)?;
            octets = rest;
            found += 1;
        }
    }
    if octets.is_empty() { Ok(found) } else { Err(format!("{} octets are left over", octets.len())) }
}

fn message(assembler: &mut Assembler, header: &Header, octets: &mut [u8]) -> Result<(), String> {
    match assembler.push(header, octets).map_err(|error| error.to_string())? {
        Assembled::Whole => whole(header, octets),
        Assembled::Complete(header, mut buffer) => whole(&header, &mut buffer.bytes_mut()[..header.total()]),
        Assembled::Pending | Assembled::Ignored => Ok(()),
    }
}

fn whole(header: &Header, octets: &mut [u8]) -> Result<(), String> {
    let mut region = Region::new(1 << 20);
    let scope = region.enter();
    let read = |error: isorb_cdr::Error| format!("{}: {error}", header.kind);
    let mut d = message::start(octets, header, &scope).map_err(read)?;
    let contexts = match header.kind {
        MessageKind::Request => {
            let request = Request::read(&mut d).map_err(read)?;
            if request.operation.is_empty() || request.target.key().is_none() {
                return Err(format!("a request without an operation or key: {request:?}"));
            }
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
            reply.contexts
        }
        MessageKind::LocateRequest => {
            let locate = LocateRequest::read(&mut d).map_err(read)?;
            assert!(locate.target.key().is_some());
            ServiceContexts::EMPTY
        }
        MessageKind::LocateReply => {
            LocateReply::read(&mut d).map_err(read)?;
            ServiceContexts::EMPTY
        }
        MessageKind::CancelRequest => {
            message::read_cancel(&mut d).map_err(read)?;
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
    }
    Ok(())
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
    let good =
        "# omniORB, GIOP 1.2, close\n0000: 47 49 4f 50 01 02 01 05  # GIOP, 1.2\n0008: 00 00 00 00\n\n474f\n";
    assert_eq!(recording(good).unwrap_err(), "2 octets are left over");
    assert_eq!(recording(&good[..good.len() - 5]), Ok(1));
    assert_eq!(recording(&format!("# references\necho {OMNIORB}\n")), Ok(1));
    assert!(recording("47494f51010201050000000000").unwrap_err().starts_with("line 1: the message begins"));
}
