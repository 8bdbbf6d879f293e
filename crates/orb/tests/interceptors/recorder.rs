//! Two interceptors on each side that record their calls, and the observed objects.

use crate::common::{Echo, EchoRef, Parrot};
use isorb::generated::*;
use isorb::interceptor::*;
use isorb::{Concurrency, Config, Orb, SyncScope};
use std::sync::{Arc, Mutex};

/// The path of a call to its servant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CallPath {
    Connection,
    Lane,
    Collocated,
}

pub const WAYS: [CallPath; 3] = [CallPath::Connection, CallPath::Lane, CallPath::Collocated];

#[derive(Default)]
pub struct Observed {
    calls: Vec<String>,
    exceptions: Vec<(String, SystemException)>,
    forwards: Vec<Object>,
    targets: Vec<(Object, Object)>,
    scopes: Vec<(bool, SyncScope)>,
}

#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Observed>>);

impl Log {
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap().calls)
    }
    pub fn clear(&self) {
        *self.0.lock().unwrap() = Observed::default();
    }
    pub fn count(&self, call: &str) -> usize {
        self.0.lock().unwrap().calls.iter().filter(|other| *other == call).count()
    }
    pub fn exceptions(&self) -> Vec<(String, SystemException)> {
        std::mem::take(&mut self.0.lock().unwrap().exceptions)
    }
    pub fn forwards(&self) -> Vec<Object> {
        std::mem::take(&mut self.0.lock().unwrap().forwards)
    }
    pub fn targets(&self) -> Vec<(Object, Object)> {
        self.0.lock().unwrap().targets.clone()
    }
    pub fn scopes(&self) -> Vec<(bool, SyncScope)> {
        self.0.lock().unwrap().scopes.clone()
    }
}

pub type Raise = Arc<dyn Fn(&str, &str) -> Option<Raised> + Send + Sync>;

pub struct Recorder {
    pub name: &'static str,
    pub log: Log,
    pub raise: Raise,
}

impl Recorder {
    fn note(&self, point: &str, more: impl FnOnce(&mut Observed)) -> Result<(), Raised> {
        {
            let mut seen = self.log.0.lock().unwrap();
            seen.calls.push(format!("{}.{point}", self.name));
            more(&mut seen);
        }
        (self.raise)(self.name, point).map_or(Ok(()), Err)
    }

    fn exception_only(result: Result<(), Raised>) -> Result<()> {
        result.map_err(|raised| match raised {
            Raised::Exception(exception) => exception,
            Raised::Forward(_) => panic!("no forward here"),
        })
    }
}

impl ClientRequestInterceptor for Recorder {
    fn name(&self) -> &str {
        self.name
    }
    fn send_request(&self, info: &mut ClientRequestInfo<'_>) -> Result<(), Raised> {
        let target = (info.target().clone(), info.effective_target());
        let scope = (info.response_expected(), info.sync_scope());
        assert_eq!(info.reply_status().unwrap_err().minor, isorb::minor::BAD_INV_ORDER_INTERCEPTOR);
        self.note("send_request", |seen| {
            seen.targets.push(target);
            if self.name == "A" {
                seen.scopes.push(scope);
            }
        })
    }
    fn receive_reply(&self, info: &ClientRequestInfo<'_>) -> Result<()> {
        assert_eq!(info.reply_status(), Ok(ReplyStatus::Successful));
        assert!(info.received_exception().is_err() && info.forward_reference().is_err());
        Recorder::exception_only(self.note("receive_reply", |_| ()))
    }
    fn receive_exception(&self, info: &ClientRequestInfo<'_>) -> Result<(), Raised> {
        let exception = (info.received_exception_id()?.to_owned(), info.received_exception()?);
        let user = exception.0.contains("Test");
        let status = if user { ReplyStatus::UserException } else { ReplyStatus::SystemException };
        assert_eq!(info.reply_status(), Ok(status));
        self.note("receive_exception", |seen| seen.exceptions.push(exception))
    }
    fn receive_other(&self, info: &ClientRequestInfo<'_>) -> Result<(), Raised> {
        let forward = info.forward_reference().ok().cloned();
        assert_eq!(info.reply_status() == Ok(ReplyStatus::LocationForward), forward.is_some());
        self.note("receive_other", |seen| seen.forwards.extend(forward))
    }
}

impl ServerRequestInterceptor for Recorder {
    fn name(&self) -> &str {
        self.name
    }
    fn receive_request_service_contexts(&self, info: &mut ServerRequestInfo<'_>) -> Result<(), Raised> {
        for error in
            [info.object_id().map(drop), info.reply_status().map(drop), info.target_is_a("x").map(drop)]
        {
            assert_eq!(error.unwrap_err().minor, isorb::minor::BAD_INV_ORDER_INTERCEPTOR);
        }
        self.note("receive_request_service_contexts", |_| ())
    }
    fn receive_request(&self, info: &mut ServerRequestInfo<'_>) -> Result<(), Raised> {
        assert_eq!(info.adapter_name()?, ["RootPOA"]);
        assert_eq!(info.adapter_id()?, info.poa()?.id());
        assert!(!info.object_id()?.is_empty());
        assert!(info.target_is_a(Interface::OBJECT_ID)? && !info.target_is_a("IDL:Test/Other:1.0")?);
        assert!(info.target_most_derived_interface()?.starts_with("IDL:Test/"));
        assert!(info.sending_exception().is_err());
        self.note("receive_request", |_| ())
    }
    fn send_reply(&self, info: &mut ServerRequestInfo<'_>) -> Result<()> {
        assert_eq!(info.reply_status(), Ok(ReplyStatus::Successful));
        assert!(info.sending_exception().is_err() && info.object_id().is_ok());
        Recorder::exception_only(self.note("send_reply", |_| ()))
    }
    fn send_exception(&self, info: &mut ServerRequestInfo<'_>) -> Result<(), Raised> {
        let exception = (info.sending_exception_id()?.to_owned(), info.sending_exception()?);
        self.note("send_exception", |seen| seen.exceptions.push(exception))
    }
    fn send_other(&self, info: &mut ServerRequestInfo<'_>) -> Result<(), Raised> {
        assert_eq!(info.reply_status(), Ok(ReplyStatus::LocationForward));
        let forward = info.forward_reference()?.clone();
        self.note("send_other", |seen| seen.forwards.push(forward))
    }
}

/// Accepts everything if the parrot fails.
pub struct Forgiving;

impl Echo for Forgiving {}

/// An object of one operation, which raises a user exception.
pub struct Denier;

#[derive(Clone)]
pub struct DenyRef(Object);

static DENY: Operation = Operation { name: "deny", oneway: false };
static DENY_INTERFACE: Interface =
    Interface { id: "IDL:Test/Deny:1.0", bases: &[], operations: Operations::new(&["deny"], 0, &[0]) };
isorb::reference!(DenyRef, DENY_INTERFACE, []);

impl Serves<Denier> for DenyRef {
    fn dispatch<'u>(
        _: &'u Denier,
        _: u16,
        _: Upcall<'u>,
        _: &mut Decoder<'u>,
        e: &mut Encoder<'u>,
    ) -> Result<Outcome> {
        e.string("IDL:Test/Denied:1.0");
        e.put(5_u64);
        Ok(Outcome::Exception)
    }
}

pub struct Bed {
    pub server: Orb,
    pub client: Orb,
    pub echo: EchoRef,
    pub other: EchoRef,
    pub denier: DenyRef,
    pub servant: Arc<Parrot>,
    pub log: Log,
}

type Register<'a> = &'a mut dyn FnMut(&mut OrbInitInfo) -> Result<()>;

impl Bed {
    /// Recorders A and B on both sides, which raise exceptions by `raise`.
    pub fn new(way: CallPath, raise: impl Fn(&str, &str) -> Option<Raised> + Send + Sync + 'static) -> Bed {
        let (log, raise): (Log, Raise) = (Log::default(), Arc::new(raise));
        let recorder = |name| Arc::new(Recorder { name, log: log.clone(), raise: raise.clone() });
        let mut bed = Bed::with(
            way,
            Config::default(),
            &mut |info| {
                info.add_client_request_interceptor(recorder("A"))?;
                Ok(info.add_client_request_interceptor(recorder("B"))?)
            },
            &mut |info| {
                info.add_server_request_interceptor(recorder("A"))?;
                Ok(info.add_server_request_interceptor(recorder("B"))?)
            },
        );
        bed.log = log.clone();
        bed
    }

    /// With the registrations of each side; for a collocated call both are one ORB.
    pub fn with(way: CallPath, config: Config, client: Register<'_>, server: Register<'_>) -> Bed {
        let concurrency = if way == CallPath::Lane { Concurrency::Lane } else { Concurrency::Connection };
        let config = Config { concurrency, ..config };
        let together = way == CallPath::Collocated;
        let server = Orb::builder()
            .config(config.clone())
            .register(|info| {
                if together {
                    client(info)?;
                }
                server(info)
            })
            .build()
            .unwrap();
        let client = match together {
            true => server.clone(),
            false => Orb::builder().config(config).register(client).build().unwrap(),
        };
        let root = server.root_poa().unwrap();
        let servant = Arc::new(Parrot::default());
        let echo: EchoRef = root.activate(servant.clone()).unwrap();
        let other: EchoRef = root.activate(Arc::new(Forgiving)).unwrap();
        let denier: DenyRef = root.activate(Arc::new(Denier)).unwrap();
        let background = server.clone();
        std::thread::spawn(move || background.run());
        root.manager().activate().unwrap();
        let far = |object: &Object| client.string_to_object(&object.to_string()).unwrap();
        let (echo, other) = (far(echo.object()).unchecked_narrow(), far(other.object()).unchecked_narrow());
        let denier = far(denier.object()).unchecked_narrow();
        Bed { server, client, echo, other, denier, servant, log: Log::default() }
    }

    /// The user exception as a system exception; its sentence is the id.
    pub fn deny(&self) -> Result<()> {
        call_scope(|scope| {
            self.denier.0.invoke(&DENY, scope, &|_| ())?.raises(
                |_| Ok(()),
                |id, d| {
                    assert_eq!(d.get::<u64>()?, 5);
                    Ok(Some(SystemException::from(isorb::Kind::Unknown).detail(id)))
                },
            )
        })
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let _ = self.client.shutdown(true);
        let _ = self.server.shutdown(true);
    }
}
