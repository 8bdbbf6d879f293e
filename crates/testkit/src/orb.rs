//! ORBs of the test's process.

use isorb::transport::Transport;
use isorb::{Config, Object, Orb};
use std::ops::Deref;
use std::sync::Arc;
use std::thread::JoinHandle;

/// An ORB with its root POA active and a thread in [`Orb::run`]. Dropping it shuts the ORB down and
/// waits for the thread.
#[derive(Debug)]
pub struct RunningOrb {
    orb: Orb,
    thread: Option<JoinHandle<()>>,
}

impl RunningOrb {
    /// An ORB that listens at the default endpoint, a free TCP port of the loopback interface.
    #[expect(clippy::new_without_default, reason = "it starts a thread")]
    pub fn new() -> RunningOrb {
        RunningOrb::with_config(Config::default())
    }

    /// An ORB that listens at these endpoints.
    pub fn at(endpoints: Vec<String>) -> RunningOrb {
        RunningOrb::with_config(Config { endpoints, ..Config::default() })
    }

    /// An ORB with this configuration.
    ///
    /// # Panics
    /// Where an endpoint cannot be opened.
    pub fn with_config(config: Config) -> RunningOrb {
        RunningOrb::of(Orb::with_config(config).expect("the configuration is valid"))
    }

    /// An ORB with this configuration and a transport of the test.
    ///
    /// # Panics
    /// Where an endpoint cannot be opened.
    pub fn with_transport(config: Config, transport: Arc<dyn Transport>) -> RunningOrb {
        let builder = Orb::builder().config(config);
        let builder = builder.register(|info| Ok(info.add_transport(transport)?));
        RunningOrb::of(builder.build().expect("the configuration is valid"))
    }

    fn of(orb: Orb) -> RunningOrb {
        let root = orb.root_poa().expect("the endpoint opens");
        root.manager().activate().expect("the manager is new");
        let background = orb.clone();
        RunningOrb { orb, thread: Some(std::thread::spawn(move || background.run())) }
    }

    /// The ORB.
    pub fn orb(&self) -> &Orb {
        &self.orb
    }
}

impl Deref for RunningOrb {
    type Target = Orb;
    fn deref(&self) -> &Orb {
        &self.orb
    }
}

impl Drop for RunningOrb {
    fn drop(&mut self) {
        // An error means that the test has shut it down itself.
        let _ = self.orb.shutdown(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A server and a client in one process, which call each other over connections.
#[derive(Debug)]
pub struct OrbPair {
    /// The ORB that serves.
    pub server: RunningOrb,
    /// The ORB that calls; it serves call-backs.
    pub client: RunningOrb,
}

impl OrbPair {
    /// Two ORBs with default configurations.
    #[expect(clippy::new_without_default, reason = "it starts threads")]
    pub fn new() -> OrbPair {
        OrbPair::with_configs(Config::default(), Config::default())
    }

    /// Two ORBs with these configurations.
    pub fn with_configs(server: Config, client: Config) -> OrbPair {
        OrbPair { server: RunningOrb::with_config(server), client: RunningOrb::with_config(client) }
    }

    /// The client's reference to an object of the server.
    ///
    /// # Panics
    /// Where the object's IOR cannot be read.
    pub fn far(&self, object: &Object) -> Object {
        self.client.string_to_object(&object.to_string()).expect("the IOR is valid")
    }
}
