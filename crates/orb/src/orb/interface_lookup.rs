//! Asks the interface repository that the program names for the definition of an interface.

use super::Orb;
use crate::invoke::call_scope;
use crate::policy::{Policies, set_thread_policies};
use crate::{Object, Operation, Result, SystemException};
use isorb_cdr::Handle;
use isorb_giop::{Kind, minor};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The initial reference (part 1, clause 8.5.2).
const INTERFACE_REPOSITORY: &str = "InterfaceRepository";
/// Longest wait of a thread that serves `_get_interface` for the repository.
const LONGEST: Duration = Duration::from_secs(1);
/// After a failure no thread calls the repository for this long, so that clients of a repository
/// that is down cannot keep the lanes waiting: a tenth of the time of one thread at most.
const PAUSE: Duration = Duration::from_secs(10);

static LOOKUP_ID: Operation = Operation { name: "lookup_id", oneway: false };

/// The definition of an interface, for a client that calls `_get_interface`.
///
/// # Errors
/// INTF_REPOS, with a sentence that says what is missing.
pub(super) fn find_interface(orb: &Orb, id: &'static str) -> Result<Object> {
    let server = orb.server();
    let found = &server.interface_definitions;
    if let Some(known) = found.known.lock().get(id) {
        return Ok(known.clone());
    }
    let is_named = server.references.lock().contains_key(INTERFACE_REPOSITORY)
        || orb.config().init_refs.contains_key(INTERFACE_REPOSITORY);
    if !is_named {
        return Err(unavailable(format!(
            "the server has no interface repository: start it with -ORBInitRef {INTERFACE_REPOSITORY}=URL"
        )));
    }
    let now = isorb_rt::time::now_ns();
    if now < found.not_before.load(Ordering::Relaxed) {
        return Err(unavailable("the interface repository failed less than 10 s ago".to_owned()));
    }
    // One thread waits for the repository; the others of its lane serve.
    let Ok(_asks) = found.asking.try_use(1) else {
        return Err(unavailable("the interface repository is being asked: try again".to_owned()));
    };
    ask(orb, id)
}

/// Asks the repository, and keeps its answer or the time of its failure.
fn ask(orb: &Orb, id: &'static str) -> Result<Object> {
    let found = &orb.server().interface_definitions;
    let outer = set_thread_policies(Policies { round_trip_timeout: Some(LONGEST), ..Policies::default() });
    let answer = look_up(orb, id);
    set_thread_policies(outer);
    match answer {
        Ok(Some(definition)) => {
            found.known.lock().insert(id, definition.clone());
            Ok(definition)
        }
        Ok(None) => Err(SystemException::from(Kind::IntfRepos)
            .minor(minor::INTF_REPOS_NO_ENTRY)
            .detail(format!("the interface repository does not have {id}: give it the IDL file"))),
        Err(exception) => {
            let pause = u64::try_from(PAUSE.as_nanos()).unwrap_or(u64::MAX);
            found.not_before.store(isorb_rt::time::now_ns().saturating_add(pause), Ordering::Relaxed);
            Err(unavailable(format!("the interface repository cannot be asked: {exception}")))
        }
    }
}

fn unavailable(why: String) -> SystemException {
    SystemException::from(Kind::IntfRepos).minor(minor::INTF_REPOS_UNAVAILABLE).detail(why)
}

/// Written by hand: `isorb-ifr`, which has the generated client, is above this crate.
fn look_up(orb: &Orb, id: &str) -> Result<Option<Object>> {
    let repository = orb.resolve_initial_references(INTERFACE_REPOSITORY)?;
    call_scope(|scope| {
        repository.invoke(&LOOKUP_ID, scope, &|e| e.string(id))?.results(Object::decode_handle)
    })
}
