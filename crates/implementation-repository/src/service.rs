//! The repository as a CORBA object.

use crate::isorb_implementation_repository as idl;
use crate::isorb_implementation_repository::repository as operations;
use crate::isorb_implementation_repository::{
    Activation, AlreadyRegistered, Failed, Invalid, NotRegistered, RegistrationView, RepositoryRef,
    ServerRef, State, StatusView,
};
use crate::process::Launch;
use crate::refusal::Refusal;
use crate::registration::{Limits, Mode, Registration};
use crate::server::{Phase, Server};
use crate::servers::{Numbers, Servers};
use crate::store::RegistrationStore;
use isorb::poa::policies::{IdAssignment, Lifespan};
use isorb::poa::{CreateError, PoaPolicies};
use isorb::{Concurrency, Kind, Object, Orb, Reference, Result, Servant, SystemException, Upcall};
use isorb_access::{Permission, Subject, authorize_owner, authorize_unrecorded, may_administer};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The key in `corbaloc::host:port/ImplementationRepository`, and the name of the initial
/// reference.
pub const REPOSITORY: &str = "ImplementationRepository";

/// The POA of the repository. Its name is a part of the reference, which must not change.
const POA: &str = "implementation-repository";

/// The longest reference of a server, in octets of its text.
const REFERENCE: usize = 64 << 10;

/// How a repository works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The URL of the repository, which servers get in their arguments. Empty: the reference.
    pub url: String,
    /// The folder with a file for the output of each server, `NAME.log`. `None`: standard error of
    /// the repository.
    pub output: Option<PathBuf>,
    /// Limits.
    pub limits: Limits,
}

/// An implementation repository in an ORB.
#[derive(Clone)]
pub struct Repository {
    object: Object,
    servers: Arc<Servers>,
}

impl Repository {
    /// Starts a repository in an ORB: makes its POA below the root POA, with the root POA's
    /// manager, offers it as `corbaloc::host:port/ImplementationRepository` and as the initial
    /// reference `ImplementationRepository`, and forwards requests for the objects of servers.
    ///
    /// The ORB needs a thread for each connection: a request waits on its thread for the server,
    /// which registers over another one.
    ///
    /// # Errors
    /// BAD_PARAM with lanes; BAD_INV_ORDER if the ORB has a repository already; PERSIST_STORE for a
    /// store that cannot be read; errors of opening the endpoints or of making the POA.
    pub fn start(orb: &Orb, store: RegistrationStore, settings: Settings) -> Result<Repository> {
        let config = orb.config();
        if config.concurrency != Concurrency::Connection
            || config.endpoints.iter().any(|endpoint| endpoint.contains(";lane"))
        {
            return Err(SystemException::from(Kind::BadParam).detail(
                "an implementation repository needs a thread for each connection; leave out lane and concurrency",
            ));
        }
        let root = orb.root_poa()?;
        let policies = PoaPolicies::new().lifespan(Lifespan::Persistent).id_assignment(IdAssignment::User);
        let poa = root.create_poa(POA, Some(&root.manager()), policies).map_err(|error| match error {
            CreateError::System(exception) => exception,
            CreateError::AdapterAlreadyExists => SystemException::from(Kind::BadInvOrder)
                .detail("the ORB has an implementation repository already"),
            _ => Kind::Internal.into(),
        })?;
        let object = poa.create_reference_with_id(REPOSITORY, RepositoryRef::INTERFACE.id)?;
        let url = if settings.url.is_empty() { object.to_string() } else { settings.url };
        let launch = Launch { url, output: settings.output };
        let servers = Servers::open(store, launch, settings.limits)?;
        let servant = Arc::new(RepositoryServant { servers: servers.clone() });
        poa.activate_object_with_id(REPOSITORY, Servant::new::<RepositoryRef, _>(servant))
            .map_err(|_| SystemException::from(Kind::Internal))?;
        orb.set_request_forwarder(servers.clone())?;
        orb.register_corbaloc_key(REPOSITORY, &object);
        orb.register_initial_reference(REPOSITORY, &object);
        Ok(Repository { object, servers })
    }

    /// Starts the servers that are to be started with the repository, once it serves.
    pub fn start_automatic(&self) {
        self.servers.start_automatic();
    }

    /// The repository as an object; its `Display` is the stringified reference.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// The numbers of the repository.
    pub fn numbers(&self) -> Numbers {
        self.servers.numbers()
    }
}

impl fmt::Debug for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Repository").field("object", &self.object).finish_non_exhaustive()
    }
}

struct RepositoryServant {
    servers: Arc<Servers>,
}

impl RepositoryServant {
    /// Whether a client without the token of a server may speak for it: one that may bind its name,
    /// and without a policy one that may administer.
    fn authorize_server(&self, cx: Upcall<'_>, name: &str, changes: bool) -> Result<()> {
        let subject = Subject::Name(name);
        if !changes {
            return authorize_unrecorded(cx, Permission::Bind, subject);
        }
        match cx.guard() {
            Some(_) => authorize_owner(cx, Permission::Bind, subject, []),
            None => may_administer(cx),
        }
    }
}

fn milliseconds(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

fn registration(of: RegistrationView<'_>) -> Result<Registration, Invalid> {
    let registration = Registration {
        name: of.name.into(),
        program: of.program.into(),
        arguments: of.arguments.iter().map(|argument| (*argument).to_owned()).collect(),
        folder: of.folder.into(),
        mode: match of.activation_mode {
            Activation::Normal => Mode::Normal,
            Activation::Manual => Mode::Manual,
            Activation::AutoStart => Mode::AutoStart,
        },
        start_timeout: Duration::from_millis(of.start_timeout_ms.into()),
        restart_limit: of.restart_limit,
        restart_period: Duration::from_millis(of.restart_period_ms.into()),
    };
    registration.check().map_err(|wrong| Invalid { reason: wrong.to_string() })?;
    Ok(registration)
}

fn status(of: &Server) -> idl::Status {
    let Registration { name, program, arguments, folder, mode, start_timeout, restart_limit, restart_period } =
        of.registration.clone();
    let server = idl::Registration {
        name,
        program,
        arguments,
        folder,
        activation_mode: match mode {
            Mode::Normal => Activation::Normal,
            Mode::Manual => Activation::Manual,
            Mode::AutoStart => Activation::AutoStart,
        },
        start_timeout_ms: milliseconds(start_timeout),
        restart_limit,
        restart_period_ms: milliseconds(restart_period),
    };
    let process = of.instance().and_then(|instance| instance.process);
    idl::Status {
        server,
        server_state: match of.phase {
            Phase::Stopped => State::Stopped,
            Phase::Starting { .. } => State::Starting,
            Phase::Running(_) => State::Running,
            Phase::Leaving { .. } => State::Leaving,
        },
        process: process.map_or(0, |process| process.number),
        starts: of.starts,
        last_failure: of.last_failure.clone(),
    }
}

impl idl::Repository for RepositoryServant {
    fn add(&self, _: Upcall<'_>, server: RegistrationView<'_>) -> Result<(), operations::AddError> {
        let registration = registration(server)?;
        if self.servers.is_full() {
            let why = "the repository has as many servers as it takes; remove some";
            return Err(SystemException::from(Kind::ImpLimit).detail(why).into());
        }
        let name = registration.name.clone();
        match self.servers.add(registration).map_err(SystemException::from)? {
            true => Ok(()),
            false => Err(AlreadyRegistered { name }.into()),
        }
    }

    fn change(&self, _: Upcall<'_>, server: RegistrationView<'_>) -> Result<(), operations::ChangeError> {
        let registration = registration(server)?;
        self.servers.change(registration).map_err(|refusal| match refusal {
            Refusal::NotRegistered(name) => NotRegistered { name }.into(),
            other => SystemException::from(other).into(),
        })
    }

    fn remove(&self, _: Upcall<'_>, name: &str) -> Result<(), operations::RemoveError> {
        self.servers.remove(name).map_err(|refusal| match refusal {
            Refusal::NotRegistered(name) => NotRegistered { name }.into(),
            other => SystemException::from(other).into(),
        })
    }

    fn list<'u>(&'u self, cx: Upcall<'u>) -> Result<&'u [&'u str]> {
        cx.give(self.servers.names())
    }

    fn show<'u>(&'u self, cx: Upcall<'u>, name: &str) -> Result<StatusView<'u>, operations::RemoveError> {
        match self.servers.look(name, status) {
            Ok(status) => Ok(cx.give(status)?),
            Err(_) => Err(NotRegistered { name: name.into() }.into()),
        }
    }

    fn start(&self, cx: Upcall<'_>, name: &str) -> Result<(), operations::StartError> {
        self.servers.look(name, |_| ()).map_err(|_| NotRegistered { name: name.into() })?;
        self.servers.start(cx.orb(), name).map_err(|exception| {
            let reason = exception.detail.as_deref().map_or_else(|| exception.to_string(), str::to_owned);
            Failed { reason }.into()
        })
    }

    fn stop(&self, _: Upcall<'_>, name: &str) -> Result<(), operations::StartError> {
        self.servers.stop(name).map_err(|refusal| match refusal {
            Refusal::NotRegistered(name) => NotRegistered { name }.into(),
            other => Failed { reason: other.to_string() }.into(),
        })
    }

    fn server_running(
        &self,
        cx: Upcall<'_>,
        name: &str,
        token: &str,
        server: Option<&ServerRef>,
    ) -> Result<()> {
        let wrong = |why: String| SystemException::from(Kind::BadParam).detail(why);
        let server = server.ok_or_else(|| wrong("the reference of the server is nil".into()))?;
        let reference = server.object().to_string();
        if reference.len() > REFERENCE {
            return Err(wrong(format!("the reference of the server is longer than {REFERENCE} octets")));
        }
        let runs_there = |server: &Server| match &server.phase {
            Phase::Running(instance) => instance.reference == reference && instance.token == token,
            _ => false,
        };
        let known = self.servers.look(name, |server| (server.has_token(token), runs_there(server)));
        let Ok((is_the_one, is_known)) = known else {
            return Err(wrong(format!("no server {name} is registered: isorb imr add {name}")));
        };
        if !is_the_one {
            self.authorize_server(cx, name, !is_known)?;
        }
        Ok(self.servers.registered(name, token, &reference)?)
    }

    fn server_left(&self, cx: Upcall<'_>, name: &str, token: &str) -> Result<()> {
        if !self.servers.look(name, |server| server.has_token(token)).unwrap_or(false) {
            self.authorize_server(cx, name, true)?;
        }
        Ok(self.servers.left(name, token)?)
    }
}
