//! A naming service in an ORB of its own, and a client's view of it.
#![allow(dead_code)]

use isorb::cos_naming::{NameComponent, NamingContextExtRef};
use isorb::{Config, Object, Orb};
use isorb_naming::{Limits, MemoryStore, NamingService, Store};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A service that runs, shut down at the end.
pub struct Served {
    pub orb: Orb,
    pub service: NamingService,
    pub port: u16,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Served {
    pub fn start(store: Arc<dyn Store>, limits: Limits, port: u16) -> Served {
        let config = Config { endpoints: vec![format!("127.0.0.1:{port}")], ..Config::default() };
        let orb = Orb::with_config(config).unwrap();
        let service = NamingService::start(&orb, store, limits).unwrap();
        let port = orb.endpoint_addresses()[0].1;
        let background = orb.clone();
        let thread = Some(std::thread::spawn(move || background.run()));
        Served { orb, service, port, thread }
    }

    pub fn memory() -> Served {
        Served::start(Arc::new(MemoryStore::new()), Limits::default(), 0)
    }

    pub fn url(&self) -> String {
        format!("corbaloc::1.2@127.0.0.1:{}/NameService", self.port)
    }

    /// The root context as another ORB sees it.
    pub fn far(&self) -> NamingContextExtRef {
        client().resolve(&self.url()).unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.orb.shutdown(true).unwrap();
        self.thread.take().unwrap().join().unwrap();
    }
}

pub fn client() -> Orb {
    Orb::with_config(Config::default()).unwrap()
}

/// A name from its text.
pub fn name(text: &str) -> Vec<NameComponent> {
    let parsed: isorb_giop::Name = text.parse().unwrap();
    parsed.into_components().into_iter().map(|step| NameComponent { id: step.id, kind: step.kind }).collect()
}

/// An object that nobody calls.
pub fn object(orb: &Orb, number: u32) -> Object {
    orb.string_to_object(&format!("corbaloc::1.2@127.0.0.1:1/object{number}")).unwrap()
}

/// A folder of its own for a test, removed at its end.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("isorb-naming-test-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
