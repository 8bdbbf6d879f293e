//! All servers, with their processes: waits, starts, and what is stored.

use crate::isorb_implementation_repository::ServerRef;
use crate::process::{self, Launch};
use crate::refusal::Refusal;
use crate::registration::{Limits, Mode, Registration};
use crate::server::{Decision, Demand, Phase, ProcessId, Server};
use crate::store::RegistrationStore;
use isorb::{Kind, Object, Orb, Policies, RequestForwarder, SystemException};
use isorb_rt::log::{error, info, warn};
use isorb_rt::sched::{SchedClass, ThreadSpec};
use isorb_rt::sync::{PiCondvar, PiMutex};
use isorb_rt::time::{Deadline, now_ns};
use std::collections::BTreeMap;
use std::process::Child;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

const TARGET: &str = "isorb::implementation-repository";

/// How often a request looks for a server that is lost again at once.
const ATTEMPTS: usize = 3;

/// The numbers of a repository, for its operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Numbers {
    /// Registered servers.
    pub servers: u64,
    /// Those that run, as far as is known.
    pub running: u64,
    /// Starts.
    pub starts: u64,
    /// Starts that failed, and processes that ended without leaving.
    pub failures: u64,
    /// Requests that were forwarded.
    pub forwarded: u64,
    /// Requests for registered servers that were not.
    pub refused: u64,
}

#[derive(Default)]
struct Counts {
    starts: AtomicU64,
    failures: AtomicU64,
    forwarded: AtomicU64,
    refused: AtomicU64,
}

/// The servers of a repository.
pub struct Servers {
    me: Weak<Servers>,
    servers: PiMutex<BTreeMap<String, Server>>,
    /// The phase of a server has changed.
    changed: PiCondvar,
    store: RegistrationStore,
    launch: Launch,
    limits: Limits,
    counts: Counts,
}

fn now() -> Duration {
    Duration::from_nanos(now_ns())
}

fn new_token() -> String {
    format!("{:016x}{:016x}", isorb_rt::random_u64(), isorb_rt::random_u64())
}

fn add_one(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

impl Servers {
    /// The servers of a store.
    pub fn open(store: RegistrationStore, launch: Launch, limits: Limits) -> Result<Arc<Servers>, Refusal> {
        let mut servers = BTreeMap::new();
        let mut others = Vec::new();
        for (registration, instance) in store.load()? {
            let name = registration.name.clone();
            others.extend(instance.as_ref().and_then(|it| it.process).map(|process| (name.clone(), process)));
            let server = match instance {
                Some(instance) => Server::resume(registration, instance, now()),
                None => Server::new(registration),
            };
            servers.insert(name, server);
        }
        let servers = Arc::new_cyclic(|me| Servers {
            me: me.clone(),
            servers: PiMutex::new(servers),
            changed: PiCondvar::new(),
            store,
            launch,
            limits,
            counts: Counts::default(),
        });
        others.into_iter().for_each(|(name, process)| servers.watch(name, process, None));
        Ok(servers)
    }

    /// Starts the servers that are to be started with the repository.
    pub fn start_automatic(&self) {
        let wanted =
            |server: &&Server| server.registration.mode == Mode::AutoStart && server.phase == Phase::Stopped;
        let names: Vec<String> =
            self.servers.lock().values().filter(wanted).map(|it| it.registration.name.clone()).collect();
        for name in names {
            let Some(servers) = self.me.upgrade() else { return };
            let start = move || {
                if let Err(refusal) = servers.await_reference(&name, Demand::Request) {
                    warn(TARGET, format_args!("{refusal}"));
                }
            };
            spawn("isorb-imr-start", start);
        }
    }

    /// The reference of a server's object, once it runs.
    fn await_reference(&self, name: &str, demand: Demand) -> Result<String, Refusal> {
        let mut awaited = false;
        let mut servers = self.servers.lock();
        loop {
            let server = servers.get_mut(name).ok_or_else(|| Refusal::NotRegistered(name.into()))?;
            match server.decide(now(), demand, awaited, new_token) {
                Decision::Ask(reference) => return Ok(reference),
                Decision::Refuse(refusal) => {
                    if matches!(refusal, Refusal::Restarts { .. })
                        && !std::mem::replace(&mut server.limit_logged, true)
                    {
                        error(
                            TARGET,
                            format_args!("{refusal}; its clients get TRANSIENT until the period is over"),
                        );
                    }
                    return Err(refusal);
                }
                Decision::Kill(killed) => {
                    add_one(&self.counts.failures);
                    warn(TARGET, format_args!("server {name}: {}", server.last_failure));
                    self.store(server);
                    self.changed.notify_all(&self.servers);
                    if let Some(killed) = killed {
                        process::end(killed, true);
                    }
                    awaited = true;
                }
                Decision::Start(token) => {
                    add_one(&self.counts.starts);
                    self.store(server);
                    let registration = server.registration.clone();
                    // Others wait meanwhile.
                    drop(servers);
                    self.start_process(&registration, &token);
                    servers = self.servers.lock();
                    awaited = true;
                }
                Decision::Wait(until) => {
                    awaited |= matches!(server.phase, Phase::Starting { .. });
                    let limit = self.limits.waiting;
                    if server.waiting >= limit {
                        return Err(Refusal::Waiting { name: name.into(), limit });
                    }
                    server.waiting += 1;
                    let deadline = Deadline::after(until.saturating_sub(now()));
                    self.changed.wait_until(&mut servers, deadline);
                    if let Some(server) = servers.get_mut(name) {
                        server.waiting = server.waiting.saturating_sub(1);
                    }
                }
            }
        }
    }

    fn start_process(&self, registration: &Registration, token: &str) {
        let name = &registration.name;
        let launched = self.launch.start(registration, token);
        let mut servers = self.servers.lock();
        let server = servers.get_mut(name);
        match launched {
            Ok((child, process)) => {
                info(
                    TARGET,
                    format_args!(
                        "server {name}: started {}, process {}",
                        registration.program, process.number
                    ),
                );
                let mut is_wanted = false;
                if let Some(server) = server {
                    is_wanted = server.launched(token, process);
                    self.store(server);
                }
                // It was removed, or took too long.
                if !is_wanted {
                    process::end(process, true);
                }
                drop(servers);
                self.watch(name.clone(), process, Some(child));
            }
            Err(why) => {
                add_one(&self.counts.failures);
                warn(TARGET, format_args!("server {name}: cannot be started: {why}"));
                if let Some(server) = server {
                    server.not_launched(token, why);
                    self.store(server);
                }
                self.changed.notify_all(&self.servers);
            }
        }
    }

    /// Notices the end of a process.
    fn watch(&self, name: String, process: ProcessId, child: Option<Child>) {
        let me = self.me.clone();
        let await_end = move || {
            let how = match child {
                Some(_) => process::await_child(process),
                None => process::await_other(process),
            };
            if let Some(servers) = me.upgrade() {
                servers.exited(&name, process, &how);
            }
            // Its number is used again from now on.
            let _ = child.map(|mut child| child.wait());
        };
        spawn("isorb-imr-wait", await_end);
    }

    fn exited(&self, name: &str, process: ProcessId, how: &str) {
        let mut servers = self.servers.lock();
        let Some(server) = servers.get_mut(name) else { return };
        let had_left = matches!(server.phase, Phase::Leaving { .. });
        if !server.exited(process, how) {
            return;
        }
        if had_left {
            info(TARGET, format_args!("server {name}: its process {} {how}", process.number));
        } else {
            add_one(&self.counts.failures);
            warn(
                TARGET,
                format_args!("server {name}: its process {} {}", process.number, server.last_failure),
            );
        }
        self.store(server);
        self.changed.notify_all(&self.servers);
    }

    /// Stores what runs. A full disk does not keep a server from running.
    fn store(&self, server: &Server) {
        let name = &server.registration.name;
        if let Err(refusal) = self.store.set_instance(name, server.instance()) {
            warn(
                TARGET,
                format_args!("server {name}: after a restart the repository will not know it: {refusal}"),
            );
        }
    }

    /// Where an object of a server is.
    fn locate(
        &self,
        orb: &Orb,
        name: &str,
        key: &[u8],
        demand: Demand,
    ) -> Result<Option<Object>, SystemException> {
        for _ in 0..ATTEMPTS {
            let reference = self.await_reference(name, demand)?;
            let policies = Policies { round_trip_timeout: Some(self.limits.answer), ..Policies::default() };
            let asked = orb.string_to_object(&reference).and_then(|object| {
                let server: ServerRef = object.with_policies(policies).unchecked_narrow();
                server.direct_reference(key)
            });
            match asked {
                Ok(found) => return Ok(found),
                Err(exception) => match exception.kind {
                    Kind::Timeout => {
                        warn(TARGET, format_args!("{}", Refusal::Silent(name.into())));
                        return Err(Refusal::Silent(name.into()).into());
                    }
                    // The repository has no descriptor for a connection; the server may be there.
                    _ if exception.is_shortage() => return Err(exception),
                    Kind::CommFailure | Kind::Transient | Kind::ObjectNotExist | Kind::InvObjref => {
                        self.lost(name, &reference, &exception);
                    }
                    _ => return Err(exception),
                },
            }
        }
        let why = "it registers, and cannot be reached".into();
        Err(Refusal::Start { name: name.into(), why }.into())
    }

    fn lost(&self, name: &str, reference: &str, why: &SystemException) {
        let mut servers = self.servers.lock();
        let Some(server) = servers.get_mut(name) else { return };
        if server.lost(now(), reference) {
            info(TARGET, format_args!("server {name}: is not where it was: {why}"));
            self.store(server);
            self.changed.notify_all(&self.servers);
        }
    }

    /// Adds a server.
    pub fn add(&self, registration: Registration) -> Result<bool, Refusal> {
        let mut servers = self.servers.lock();
        if servers.contains_key(&registration.name) {
            return Ok(false);
        }
        self.store.put(&registration)?;
        servers.insert(registration.name.clone(), Server::new(registration));
        Ok(true)
    }

    /// Whether there are as many servers as may be.
    pub fn is_full(&self) -> bool {
        self.servers.lock().len() >= self.limits.servers
    }

    /// Gives a server other values.
    pub fn change(&self, registration: Registration) -> Result<(), Refusal> {
        let mut servers = self.servers.lock();
        let server = servers
            .get_mut(&registration.name)
            .ok_or_else(|| Refusal::NotRegistered(registration.name.clone()))?;
        self.store.put(&registration)?;
        server.registration = registration;
        Ok(())
    }

    /// Removes a registration.
    pub fn remove(&self, name: &str) -> Result<(), Refusal> {
        let mut servers = self.servers.lock();
        if !servers.contains_key(name) {
            return Err(Refusal::NotRegistered(name.into()));
        }
        self.store.remove(name)?;
        servers.remove(name);
        self.changed.notify_all(&self.servers);
        Ok(())
    }

    /// The names of all servers.
    pub fn names(&self) -> Vec<String> {
        self.servers.lock().keys().cloned().collect()
    }

    /// Something about a server.
    pub fn look<T>(&self, name: &str, of: impl FnOnce(&Server) -> T) -> Result<T, Refusal> {
        self.servers.lock().get(name).map(of).ok_or_else(|| Refusal::NotRegistered(name.into()))
    }

    /// Starts a server, unless it runs.
    pub fn start(&self, orb: &Orb, name: &str) -> Result<(), SystemException> {
        // A server has no object with this key; that it says so is enough.
        self.locate(orb, name, &[], Demand::Administrator).map(drop)
    }

    /// Ends the process of a server.
    pub fn stop(&self, name: &str) -> Result<(), Refusal> {
        let instance = self.look(name, |server| server.instance().cloned())?;
        let Some(instance) = instance else { return Ok(()) };
        let ended = instance.process.ok_or_else(|| Refusal::NotStartedHere(name.into()))?;
        for force in [false, true] {
            process::end(ended, force);
            let deadline = Deadline::after(self.limits.stop);
            let mut servers = self.servers.lock();
            let runs = |servers: &BTreeMap<String, Server>| {
                let server = servers.get(name).and_then(Server::instance);
                server.is_some_and(|instance| instance.process == Some(ended))
            };
            while runs(&servers) && self.changed.wait_until(&mut servers, deadline) {}
            if !runs(&servers) {
                return Ok(());
            }
        }
        Err(Refusal::Leaving { name: name.into(), process: ended.number })
    }

    /// A process says that it is a server, and may.
    pub fn registered(&self, name: &str, token: &str, reference: &str) -> Result<(), Refusal> {
        let mut servers = self.servers.lock();
        let server = servers.get_mut(name).ok_or_else(|| Refusal::NotRegistered(name.into()))?;
        if server.registered(token, reference)? {
            info(TARGET, format_args!("server {name}: runs"));
            self.store(server);
            self.changed.notify_all(&self.servers);
        }
        Ok(())
    }

    /// A server says that it ends.
    pub fn left(&self, name: &str, token: &str) -> Result<(), Refusal> {
        let mut servers = self.servers.lock();
        let server = servers.get_mut(name).ok_or_else(|| Refusal::NotRegistered(name.into()))?;
        if server.left(now(), token) {
            info(TARGET, format_args!("server {name}: leaves"));
            self.store(server);
            self.changed.notify_all(&self.servers);
        }
        Ok(())
    }

    /// The numbers of the repository.
    pub fn numbers(&self) -> Numbers {
        let (servers, running) = {
            let servers = self.servers.lock();
            let runs = |server: &&Server| matches!(server.phase, Phase::Running(_));
            (servers.len() as u64, servers.values().filter(runs).count() as u64)
        };
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Counts { starts, failures, forwarded, refused } = &self.counts;
        Numbers {
            servers,
            running,
            starts: count(starts),
            failures: count(failures),
            forwarded: count(forwarded),
            refused: count(refused),
        }
    }
}

impl RequestForwarder for Servers {
    fn forward(&self, orb: &Orb, key: &[u8]) -> Option<isorb::Result<Object>> {
        let name = isorb::poa::server_of_key(key)?;
        let located = match self.look(name, |_| ()) {
            Ok(()) => self.locate(orb, name, key, Demand::Request),
            Err(_) => return None,
        };
        let result =
            located.and_then(|found| found.ok_or_else(|| SystemException::from(Kind::ObjectNotExist)));
        add_one(if result.is_ok() { &self.counts.forwarded } else { &self.counts.refused });
        Some(result)
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) {
    let spawned = ThreadSpec::new(name).class(SchedClass::Other).spawn(body);
    if let Err(refused) = spawned {
        error(TARGET, format_args!("no thread {name}: {refused}"));
    }
}
