//! Registrations outlive the process that serves the channel.

use crate::frozen_consumers::Counting;
use crate::unreachable_peers::{event, publishes};
use crate::{client, server_at};
use isorb::{Kind, Orb, Reference};
use isorb_event::Channel;
use isorb_event::servants::stamped::{rtec_event_channel_admin as admin, rtec_event_comm as comm};
use isorb_event::servants::{EventServiceOptions, RegistrationStore, RtecEventService};
use isorb_testkit::{Process, TempFolder, wait_until};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Where the child keeps its store, and its port.
const STORE: &str = "ISORB_EVENT_STORE";
const PORT: &str = "ISORB_EVENT_PORT";

/// The child's part: serves a channel until it is killed.
#[test]
fn serves_a_channel_for_other_tests() {
    let (Ok(file), Ok(port)) = (std::env::var(STORE), std::env::var(PORT)) else { return };
    let (orb, channel) = server_at(Channel::builder(), vec![format!("iiop://127.0.0.1:{port}")]);
    let store = RegistrationStore::open(file).unwrap();
    let _service =
        RtecEventService::start_persistent(&orb, &channel, EventServiceOptions::default(), store).unwrap();
    println!("\nREADY");
    loop {
        std::thread::park();
    }
}

/// A channel that is killed and started again, and its clients.
struct World {
    file: PathBuf,
    port: u16,
    here: Orb,
    consumer: comm::PushConsumerRef,
    counting: Arc<Counting>,
}

impl World {
    fn new(folder: &Path) -> World {
        let here = client();
        let counting = Arc::new(Counting::default());
        let consumer = here.root_poa().unwrap().activate(counting.clone()).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        World { file: folder.join("registrations"), port, here, consumer, counting }
    }

    fn start(&self) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["persistent::serves_a_channel_for_other_tests", "--exact", "--nocapture"]);
        let mut child = Process::start(command.env(STORE, &self.file).env(PORT, self.port.to_string()));
        while child.next_line().expect("it serves") != "READY" {}
        child
    }

    fn far(&self) -> isorb::Result<admin::EventChannelRef> {
        self.here.resolve(&format!("corbaloc:iiop:1.2@127.0.0.1:{}/EventService", self.port))
    }

    fn consume(&self) -> isorb::Result<admin::ProxyPushSupplierRef> {
        let gone = || isorb::SystemException::from(Kind::ObjectNotExist);
        let proxy =
            self.far()?.for_consumers()?.ok_or_else(gone)?.obtain_push_supplier()?.ok_or_else(gone)?;
        let dependencies = vec![admin::Dependency { event: event(20), rt_info: 0 }];
        let qos = admin::ConsumerQOS { dependencies, is_gateway: false };
        proxy.connect_push_consumer(&self.consumer, &qos).map_err(|_| gone())?;
        Ok(proxy)
    }

    fn supply(&self) -> isorb::Result<admin::ProxyPushConsumerRef> {
        let gone = || isorb::SystemException::from(Kind::ObjectNotExist);
        let proxy =
            self.far()?.for_suppliers()?.ok_or_else(gone)?.obtain_push_consumer()?.ok_or_else(gone)?;
        proxy.connect_push_supplier(None::<&comm::PushSupplierRef>, &publishes(20)).map_err(|_| gone())?;
        Ok(proxy)
    }
}

fn exists(object: &isorb::Object) -> bool {
    object.non_existent() == Ok(false)
}

#[test]
fn kill_9_at_any_step_loses_no_acknowledged_registration() {
    let folder = TempFolder::new();
    let world = World::new(folder.path());
    let (mut consumers, mut suppliers) = (Vec::new(), Vec::new());
    for round in 0..8 {
        let mut child = world.start();
        // From while the first one connects to after many.
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros(4_321 * round * (round + 1)));
            child.kill();
        });
        while let Ok(proxy) = world.consume() {
            consumers.push(proxy);
            match world.supply() {
                Ok(proxy) => suppliers.push(proxy),
                Err(_) => break,
            }
        }
        killer.join().unwrap();
    }
    assert!(!suppliers.is_empty(), "the child was killed too early each time");
    let _child = world.start();
    assert!(consumers.iter().all(|proxy| exists(proxy.object())));
    assert!(suppliers.iter().all(|proxy| exists(proxy.object())));
    // The old references serve: each supplier reaches each consumer.
    let supplier = suppliers.last().unwrap();
    supplier.push(&vec![event(20)]).unwrap();
    wait_until("all have it", || world.counting.0.load(Relaxed) >= consumers.len());
}

#[test]
fn what_was_disconnected_stays_so_and_what_was_suspended_too() {
    let folder = TempFolder::new();
    let world = World::new(folder.path());
    let mut child = world.start();
    let [gone, suspended, other] = [0, 1, 2].map(|_| world.consume().unwrap());
    let supplier = world.supply().unwrap();
    let unconnected =
        world.far().unwrap().for_suppliers().unwrap().unwrap().obtain_push_consumer().unwrap().unwrap();
    gone.disconnect_push_supplier().unwrap();
    suspended.suspend_connection().unwrap();
    child.kill();
    let mut child = world.start();
    assert!(!exists(gone.object()) && !exists(unconnected.object()));
    assert!(exists(suspended.object()) && exists(other.object()));
    assert!(world.consume().unwrap().object().to_string() != gone.object().to_string(), "no id comes twice");
    // The suspended one does not count: the new and the other one do.
    supplier.push(&vec![event(20)]).unwrap();
    wait_until("two have it", || world.counting.0.load(Relaxed) == 2);
    suspended.resume_connection().unwrap();
    child.kill();
    let mut child = world.start();
    supplier.push(&vec![event(20)]).unwrap();
    wait_until("three have it", || world.counting.0.load(Relaxed) == 5);
    world.far().unwrap().destroy().unwrap();
    child.kill();
    let _child = world.start();
    assert!(!exists(other.object()) && !exists(supplier.object()), "the channel was destroyed");
}
