//! A server's side of its implementation repository: where it is, that the server serves, that it
//! ends.

/// The variable in which the repository gives a server that it starts its token.
#[doc(hidden)]
pub const SERVER_TOKEN: &str = "ISORB_SERVER_TOKEN";

#[cfg(not(feature = "implementation-repository"))]
impl crate::Orb {
    /// Ignoring the setting would give references that end with the process.
    pub(super) fn find_repository(&self) -> crate::Result<()> {
        match self.config().implementation_repository {
            None => Ok(()),
            Some(_) => Err(crate::SystemException::from(isorb_giop::Kind::BadParam).detail(
                "implementation_repository: this program was built without the feature \
                 implementation-repository of isorb",
            )),
        }
    }

    pub(super) fn begin_registration(&self) -> crate::Result<()> {
        Ok(())
    }

    pub(super) fn end_registration(&self) {}
}

#[cfg(feature = "implementation-repository")]
mod thread {
    use super::SERVER_TOKEN;
    use crate::indirect::Indirect;
    use crate::invoke::call_scope;
    use crate::log::{info, warn};
    use crate::poa::PoaPolicies;
    use crate::{
        Interface, Object, Operation, Operations, Orb, Outcome, Policies, Result, Servant, SystemException,
        Upcall,
    };
    use isorb_cdr::{Decoder, Encoder};
    use isorb_giop::{Ior, Kind};
    use isorb_rt::sched::{SchedClass, ThreadSpec};
    use std::any::Any;
    use std::sync::Arc;
    use std::time::Duration;

    const TARGET: &str = "isorb::implementation-repository";
    /// The server announces itself so often, in case that the repository was replaced.
    const REPEAT: Duration = Duration::from_secs(10);
    /// The first pause after a failure; later ones double up to [`REPEAT`].
    const RETRY: Duration = Duration::from_millis(100);
    /// Longest wait for the repository.
    const LONGEST: Duration = Duration::from_secs(5);
    /// Longest wait for the repository while the server ends.
    const LONGEST_AT_END: Duration = Duration::from_secs(1);

    static SERVER_RUNNING: Operation = Operation { name: "server_running", oneway: false };
    static SERVER_LEFT: Operation = Operation { name: "server_left", oneway: false };

    // Written by hand: `isorb-implementation-repository`, which has the generated interfaces, is
    // above this crate.
    static SERVER: Interface = Interface {
        id: "IDL:IsorbImplementationRepository/Server:1.0",
        bases: &[],
        operations: Operations::new(&["direct_reference"], 0, &[0]),
    };

    impl Orb {
        /// Finds the repository of the configuration, before the first POA is made.
        ///
        /// # Errors
        /// What resolving the URL ends in; BAD_PARAM for a reference of another form.
        pub(in crate::orb) fn find_repository(&self) -> Result<()> {
            let config = self.config();
            let (Some(url), Some(server)) = (&config.implementation_repository, &config.server_name) else {
                return Ok(());
            };
            let repository = self.string_to_object(url)?;
            let _ = self.server().resources.indirect.set(Arc::new(Indirect::new(server, repository.ior())?));
            Ok(())
        }

        /// Starts the thread that tells the repository that the server serves.
        ///
        /// # Errors
        /// NO_RESOURCES without a thread.
        pub(in crate::orb) fn begin_registration(&self) -> Result<()> {
            let Some(indirect) = self.server().resources.indirect().cloned() else { return Ok(()) };
            let orb = self.clone();
            let spec = ThreadSpec::new("isorb-imr").class(SchedClass::Other);
            spec.spawn(move || register(&orb, &indirect)).map(drop).map_err(|error| {
                let why = format!("no thread for implementation_repository: {error}");
                SystemException::from(Kind::NoResources).detail(why)
            })
        }

        /// Tells the repository that the server ends, if it can be told quickly.
        pub(in crate::orb) fn end_registration(&self) {
            let Some(indirect) = self.server().resources.indirect() else { return };
            if !indirect.end() || !indirect.has_served() {
                return;
            }
            let repository = repository(self, indirect, LONGEST_AT_END);
            let told = call_scope(|scope| {
                let arguments = |e: &mut Encoder<'_>| {
                    e.string(&indirect.server);
                    e.string(&token());
                };
                repository.invoke(&SERVER_LEFT, scope, &arguments)?.results(|_| Ok(()))
            });
            if let Err(exception) = told {
                // It will notice by itself.
                info(TARGET, format_args!("server {}: left without a word: {exception}", indirect.server));
            }
        }
    }

    /// Registers the server, again and again, until it ends.
    fn register(orb: &Orb, indirect: &Indirect) {
        if !indirect.await_serving() {
            return;
        }
        let (mut server, mut retry, mut known) = (None, RETRY, None);
        loop {
            let told = announce(orb, indirect, &mut server);
            // Once for each change.
            if known != Some(told.is_ok()) && !orb.is_shut_down() {
                let name = &indirect.server;
                match &told {
                    Ok(()) => info(TARGET, format_args!("server {name}: the repository knows it")),
                    Err(exception) => warn(
                        TARGET,
                        format_args!(
                            "server {name}: the repository at implementation_repository does not take it, so its \
                             persistent references lead nowhere; tried again until it does: {exception}"
                        ),
                    ),
                }
                known = Some(told.is_ok());
            }
            let pause = if told.is_ok() { REPEAT } else { retry };
            retry = if told.is_ok() { RETRY } else { REPEAT.min(2 * retry) };
            if !indirect.pause(pause) {
                return;
            }
        }
    }

    fn announce(orb: &Orb, indirect: &Indirect, server: &mut Option<Object>) -> Result<()> {
        let server = match server {
            Some(server) => server,
            None => server.insert(make_server(orb)?),
        };
        call_scope(|scope| {
            let arguments = |e: &mut Encoder<'_>| {
                e.string(&indirect.server);
                e.string(&token());
                // Not as an argument of the program's, which would activate the root POA's manager.
                server.ior().encode(e);
            };
            let repository = repository(orb, indirect, LONGEST);
            repository.invoke(&SERVER_RUNNING, scope, &arguments)?.results(|_| Ok(()))
        })
    }

    fn repository(orb: &Orb, indirect: &Indirect, longest: Duration) -> Object {
        let policies = Policies { round_trip_timeout: Some(longest), ..Policies::default() };
        Object::new(orb, indirect.repository.clone()).with_policies(policies)
    }

    fn token() -> String {
        std::env::var(SERVER_TOKEN).unwrap_or_default()
    }

    /// The object by which the repository asks whether the server runs, and where its objects are.
    /// It has a POA of its own, which serves whatever the states of the program's managers are.
    fn make_server(orb: &Orb) -> Result<Object> {
        let failed = |why: &dyn std::fmt::Debug| {
            SystemException::from(Kind::Internal).detail(format!("the server's object: {why:?}"))
        };
        let root = orb.root_poa()?;
        let poa = root.create_poa("isorb.server", None, PoaPolicies::new()).map_err(|why| failed(&why))?;
        let servant = Servant::from_parts(Arc::new(()), serve, &SERVER);
        let id = poa.activate_object(servant).map_err(|why| failed(&why))?;
        poa.manager().activate().map_err(|why| failed(&why))?;
        poa.id_to_reference(&id).map_err(|why| failed(&why))
    }

    fn serve<'u>(
        _: &'u (dyn Any + Send + Sync),
        operation: u16,
        cx: Upcall<'u>,
        arguments: &mut Decoder<'u>,
        results: &mut Encoder<'u>,
    ) -> Result<Outcome> {
        if operation != 0 {
            return Err(Kind::BadOperation.into());
        }
        let count = arguments.count(1)?;
        let key = arguments.take(count)?;
        let found = cx.orb().server().registry.direct_reference(key)?;
        found.as_ref().map_or(&Ior::NIL, Object::ior).encode(results);
        Ok(Outcome::Results)
    }
}
