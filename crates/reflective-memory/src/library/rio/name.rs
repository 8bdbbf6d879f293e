//! The name of a process's RIO in the naming service.

use crate::idl::RIORef;
use isorb::{Policies, Reference};
use isorb_naming::Naming;
use std::time::Duration;

/// Host, process and start time: the kernel reuses process numbers, and each process has an object
/// of its own.
pub(super) fn of_this_process() -> String {
    let process = std::process::id();
    format!("{}{process}-{}", prefix(), start_of(process).unwrap_or(0))
}

/// The prefix of this host's names.
fn prefix() -> String {
    let uname = rustix::system::uname();
    let host = uname.nodename().to_string_lossy().replace(['/', '.', '\\'], "-");
    format!("crm-{host}-")
}

/// Field 22 of /proc/PROCESS/stat, after the name in parentheses (proc(5)); none where there is no
/// such process.
fn start_of(process: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, after) = stat.rsplit_once(')')?;
    after.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Whether this is the name of a process of this host that has ended.
fn is_of_dead_process(name: &str, prefix: &str) -> bool {
    let numbers = name.strip_prefix(prefix).and_then(|rest| rest.split_once('-'));
    let numbers =
        numbers.and_then(|(process, start)| Some((process.parse().ok()?, start.parse::<u64>().ok()?)));
    numbers.is_some_and(|(process, start)| start_of(process) != Some(start))
}

/// The number of bindings that are checked.
const LOOKED_AT: u32 = 10_000;
/// The time-out for a RIO's answer.
const ANSWER: Duration = Duration::from_millis(500);

/// Removes the names of ended processes of this host. A name with an answering object stays: it may
/// belong to another container with the host's name. A name that the service does not remove stays
/// as well.
pub(super) fn sweep(naming: &Naming) {
    let prefix = prefix();
    let Ok((bindings, more)) = naming.context().list(LOOKED_AT) else { return };
    if let Some(more) = more {
        let _ = more.destroy();
    }
    let names = bindings.iter().filter_map(|binding| match &binding.binding_name[..] {
        [only] if only.kind.is_empty() => Some(&only.id),
        _ => None,
    });
    for name in names.filter(|name| is_of_dead_process(name, &prefix)) {
        let policies = Policies { round_trip_timeout: Some(ANSWER), ..Policies::default() };
        let is_gone = match naming.resolve::<RIORef>(name) {
            Ok(rio) => match rio.object().with_policies(policies).non_existent() {
                Ok(gone) => gone,
                Err(exception) => !exception.is_shortage(),
            },
            Err(_) => true,
        };
        if is_gone {
            let _ = naming.unbind(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isorb::Config;
    use isorb_naming::{Limits, MemoryStore, NamingService};
    use isorb_testkit::{RunningOrb, ScarceTransport};
    use std::sync::Arc;

    #[test]
    fn a_name_stays_while_this_process_has_no_descriptor() {
        let names = RunningOrb::new();
        let service = NamingService::start(&names, Arc::new(MemoryStore::new()), Limits::default()).unwrap();
        let transport = ScarceTransport::new();
        let mut config = Config::default();
        config.init_refs.insert("NameService".into(), service.object().to_string());
        let orb = RunningOrb::with_transport(config, transport.clone());
        let naming = Naming::initial(&orb).unwrap();
        // An object that answers, of a process of another container with this host's name.
        let endpoints = vec![ScarceTransport::ENDPOINT.into()];
        let config = Config { endpoints, ..Config::default() };
        let other = RunningOrb::with_transport(config, ScarceTransport::new());
        let poa = other.root_poa().unwrap();
        let object = poa.create_reference(RIORef::INTERFACE.id).unwrap();
        let name = format!("{}4294967295-1", prefix());
        naming.bind(&name, &orb.string_to_object(&object.to_string()).unwrap()).unwrap();
        transport.set_exhausted(true);
        sweep(&naming);
        naming.resolve::<RIORef>(&name).unwrap();
        // The control: the object does not exist.
        transport.set_exhausted(false);
        sweep(&naming);
        let _ = naming.resolve::<RIORef>(&name).unwrap_err();
    }

    #[test]
    fn a_name_says_which_process_it_is_of() {
        let (mine, prefix) = (of_this_process(), prefix());
        assert!(mine.starts_with(&prefix) && !is_of_dead_process(&mine, &prefix), "{mine}");
        let process = std::process::id();
        let dead = |name: &str| is_of_dead_process(name, &prefix);
        assert!(
            dead(&format!("{prefix}{process}-1")),
            "a process with this number, which started at another time"
        );
        assert!(dead(&format!("{prefix}4294967295-1")), "no such process");
        for other in ["plant", "crm-elsewhere-1-1", &format!("{prefix}x-1"), &format!("{prefix}1"), &prefix] {
            assert!(!dead(other), "{other}");
        }
    }
}
