//! Registrations outlive the process that serves the channel.

use crate::frozen_consumers::Counting;
use crate::unreachable_peers::{event, publishes};
use crate::{client, server_at};
use isorb::{Kind, Orb, Reference};
use isorb_event::servants::stamped::rtec_event_channel_admin::proxy_push_consumer::ConnectPushSupplierError;
use isorb_event::servants::stamped::{rtec_event_channel_admin as admin, rtec_event_comm as comm};
use isorb_event::servants::{EventServiceOptions, RegistrationStore, RtecEventService};
use isorb_event::{Channel, Configuration, Strategy};
use isorb_testkit::{Process, TempFolder, fill_disk, on_small_disk, retry, wait_until};
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
    let Ok(port) = std::env::var(PORT) else { return };
    let (orb, channel) = server_at(Channel::builder(), vec![format!("iiop://127.0.0.1:{port}")]);
    let options = EventServiceOptions::default();
    let _service = match std::env::var(STORE) {
        Ok(file) => {
            let store = RegistrationStore::open(file).unwrap();
            RtecEventService::start_persistent(&orb, &channel, options, store).unwrap()
        }
        Err(_) => RtecEventService::start(&orb, &channel, options).unwrap(),
    };
    println!("\nREADY");
    loop {
        std::thread::park();
    }
}

/// A channel that is killed and started again, and its clients.
pub struct World {
    file: PathBuf,
    port: u16,
    here: Orb,
    consumer: comm::PushConsumerRef,
    counting: Arc<Counting>,
}

impl World {
    pub fn new(folder: &Path) -> World {
        let here = client();
        let counting = Arc::new(Counting::default());
        let consumer = here.root_poa().unwrap().activate(counting.clone()).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        World { file: folder.join("registrations"), port, here, consumer, counting }
    }

    pub fn start(&self) -> Process {
        self.start_by(|command| command.env(STORE, &self.file))
    }

    pub fn start_without_store(&self) -> Process {
        self.start_by(|command| command)
    }

    fn start_by(&self, set: impl FnOnce(&mut Command) -> &mut Command) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["persistent::serves_a_channel_for_other_tests", "--exact", "--nocapture"]);
        let mut child = Process::start(set(&mut command).env(PORT, self.port.to_string()));
        while child.next_line().expect("it serves") != "READY" {}
        child
    }

    pub fn url(&self) -> String {
        format!("corbaloc:iiop:1.2@127.0.0.1:{}/EventService", self.port)
    }

    fn far(&self) -> isorb::Result<admin::EventChannelRef> {
        self.here.resolve(&self.url())
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

    /// A supplier that takes much of the store.
    fn supply_much(&self) -> isorb::Result<()> {
        let gone = || isorb::SystemException::from(Kind::ObjectNotExist);
        let proxy =
            self.far()?.for_suppliers()?.ok_or_else(gone)?.obtain_push_consumer()?.ok_or_else(gone)?;
        let one = |type_| admin::Publication { event: event(type_), dependency_info: Default::default() };
        let qos = admin::SupplierQOS { publications: (100..600).map(one).collect(), is_gateway: false };
        match proxy.connect_push_supplier(None::<&comm::PushSupplierRef>, &qos) {
            Err(ConnectPushSupplierError::System(why)) => Err(why),
            other => other.map_err(|_| gone()),
        }
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

#[test]
fn the_modules_of_a_channel_are_kept() {
    let folder = TempFolder::new();
    let file = folder.file("registrations");
    let store = || RegistrationStore::open(&file).unwrap();
    assert_eq!(store().modules(), Ok(None));
    let configurations = [
        Configuration::Full,
        Configuration::ForwardingDiscriminator,
        Configuration::SubscriptionAndFiltering,
        Configuration::Broadcaster,
    ];
    let strategies = [
        Strategy::Direct,
        Strategy::SingleThreaded,
        Strategy::Threads { per_level: 3 },
        Strategy::Upcalls,
        Strategy::ByHand { upcalls: true },
    ];
    for configuration in configurations {
        for strategy in strategies {
            store().put_modules(configuration, strategy).unwrap();
            assert_eq!(store().modules(), Ok(Some((configuration, strategy))));
        }
    }
}

#[test]
fn while_the_disk_is_full_peers_are_refused_and_events_go_on() {
    const TEST: &str = "persistent::while_the_disk_is_full_peers_are_refused_and_events_go_on";
    on_small_disk(TEST, |disk| {
        let world = World::new(disk);
        let mut child = world.start();
        let consumer = world.consume().unwrap();
        let supplier = world.supply().unwrap();
        let filling = fill_disk(disk);
        // Pages that are free in the file take some.
        let full = (0..500).find_map(|_| world.supply_much().err()).expect("the disk is full");
        assert_eq!(full.kind, Kind::PersistStore, "{full}");
        supplier.push(&vec![event(20)]).unwrap();
        wait_until("events go on", || world.counting.0.load(Relaxed) == 1);

        // A channel that starts meanwhile knows those that were acknowledged.
        child.kill();
        let _child = world.start();
        assert!(exists(consumer.object()) && exists(supplier.object()));
        supplier.push(&vec![event(20)]).unwrap();
        wait_until("events go on", || world.counting.0.load(Relaxed) == 2);
        assert_eq!(world.supply_much().unwrap_err().kind, Kind::PersistStore);

        filling.set_len(0).unwrap();
        retry("a connection when there is space", || world.supply_much());
    });
}
