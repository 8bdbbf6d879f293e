//! Asks the interface repository that the program names for the definition of an interface.
//!
//! An ordinary thread asks, which lives as long as the call, and replies. A thread of a lane that
//! waited for the repository would hold up more urgent clients.

use super::Orb;
use crate::invoke::call_scope;
use crate::policy::{Policies, set_thread_policies};
use crate::servant::Outcome;
use crate::{Deferred, Object, Operation, Result, SystemException, Upcall};
use isorb_cdr::Handle;
use isorb_giop::{Kind, minor};
use isorb_rt::sched::SchedClass;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

/// The initial reference (part 1, clause 8.5.2).
const INTERFACE_REPOSITORY: &str = "InterfaceRepository";
/// Longest wait of a client of `_get_interface` for the repository.
const LONGEST: Duration = Duration::from_secs(1);
/// After a failure no thread calls the repository for this long: clients need not wait for one that
/// is down.
const PAUSE: Duration = Duration::from_secs(10);

static LOOKUP_ID: Operation = Operation { name: "lookup_id", oneway: false };

/// The definition of an interface, for a client that calls `_get_interface`.
///
/// # Errors
/// INTF_REPOS, with a sentence that says what is missing. [`Deferred::LATER`]: a thread asks the
/// repository, and replies.
///
/// # Real-time
/// Never waits for the repository. What was found before takes a PI lock; else it allocates and
/// starts a thread, one at a time and none within [`PAUSE`] of a failure.
pub(super) fn find_interface(upcall: Upcall<'_>, id: &'static str) -> Result<Object> {
    let orb = upcall.orb();
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
    let Some(asking) = Asking::begin(orb) else {
        return Err(unavailable("the interface repository is being asked: try again".to_owned()));
    };
    let deferred = upcall.defer()?;
    // A `ThreadSpec` makes its creator wait until the thread is set up.
    let thread = thread::Builder::new().name("isorb-interface".to_owned());
    let started = thread.spawn(move || {
        // The class of the lane, which it has until here, is not for work that waits.
        let _ = SchedClass::Other.set_current();
        let answer = ask(&asking.0, id);
        // Before the reply: its client may ask for another interface at once.
        drop(asking);
        // A client that is gone needs no answer.
        let _ = deferred.reply(|e| {
            Object::encode_handle(Some(&answer?), e);
            Ok(Outcome::Results)
        });
    });
    match started {
        Ok(_) => Err(Deferred::LATER),
        // The closure is gone, and with it what was deferred: the client gets NO_RESPONSE.
        Err(error) => Err(unavailable(format!("no thread can ask the interface repository: {error}"))),
    }
}

/// The right to ask the repository; ends when it is dropped.
struct Asking(Orb);

impl Asking {
    fn begin(orb: &Orb) -> Option<Asking> {
        let asking = &orb.server().interface_definitions.asking;
        (!asking.swap(true, Ordering::Acquire)).then(|| Asking(orb.clone()))
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.server().interface_definitions.asking.store(false, Ordering::Release);
    }
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
