//! Limits for each client of a service: a client that takes as much as it gets is refused, and the
//! refusal names the setting. Another client is served.

mod common;

use common::events::{consume, supply};
use common::{Ended, Service, get, isorb, run};
use isorb::{Config, Kind, Orb, SystemException};
use isorb_event::servants::stamped::rtec_event_channel_admin as admin;
use isorb_reflective_memory::idl::{Area, CRM_CommRef, Glob_CommRef, Node};
use isorb_testkit::{Process, TempFolder, wait_until};
use isorb_tls::Tls;
use isorb_tls::testing::Authority;
use std::sync::Arc;

const OBJECT: &str = "corbaloc::1.2@127.0.0.1:9/thing";

/// A service over TLS, which tells its clients apart by their certificates.
struct Shared {
    _folder: TempFolder,
    authority: Authority,
    service: Service,
    metrics: String,
}

impl Shared {
    fn start(args: &[&str]) -> Shared {
        let folder = TempFolder::new();
        let authority = Authority::at(&folder.file("ca")).unwrap();
        let tls = files(&authority, "server");
        let args = [args, &["--port", "0", "--tls", &tls, "--metrics", "0"]].concat();
        let (service, metrics) = Service::with_line(&mut isorb(&args), "METRICS");
        let metrics = metrics.strip_prefix("http://").and_then(|url| url.strip_suffix("/metrics")).unwrap();
        Shared { _folder: folder, authority, service, metrics: metrics.into() }
    }

    /// The value of `--tls` of a client.
    fn tls(&self, client: &str) -> String {
        files(&self.authority, client)
    }

    /// An ORB with a client's certificate, which is called back over TLS.
    fn orb(&self, client: &str) -> Orb {
        let tls = Tls::new(self.authority.member(client).unwrap()).unwrap();
        let config = Config { endpoints: vec!["giop:ssl:127.0.0.1:0".into()], ..Config::default() };
        let builder = Orb::builder().config(config);
        let orb = builder.register(|info| Ok(info.add_transport(Arc::new(tls))?)).build().unwrap();
        orb.root_poa().unwrap().manager().activate().unwrap();
        orb
    }

    /// Requests that were refused at a limit for each client.
    fn refused(&self) -> u64 {
        let text = get(&self.metrics, "/metrics");
        let value = text.lines().find_map(|line| line.strip_prefix("isorb_peer_limits_refused_total "));
        value.unwrap().parse().unwrap()
    }
}

fn files(authority: &Authority, name: &str) -> String {
    authority.sign(name).unwrap();
    let file = |name: &str| authority.folder().join(name).display().to_string();
    [file(&format!("{name}.pem")), file(&format!("{name}.key")), file("authority.pem")].join(",")
}

/// The refusal of a client that has as many as it may.
fn assert_limit(refused: &SystemException, setting: &str, has: &str) {
    assert_eq!(refused.kind, Kind::ImpLimit);
    let detail = refused.detail.as_deref().unwrap_or_default();
    assert!(detail.contains(setting) && detail.contains(has), "{detail}");
}

#[test]
fn bindings_and_contexts() {
    let shared = Shared::start(&["naming", "--memory", "--max-peer-bindings", "3"]);
    let name = |client: &str, args: &[&str]| -> Ended {
        run(&[&["name", "--tls", &shared.tls(client), "--ns", &shared.service.url], args].concat())
    };
    let done = |client: &str, args: &[&str]| {
        let (code, _, error) = name(client, args);
        assert_eq!(code, Some(0), "{client} {args:?}: {error}");
    };
    let refused = |client: &str, args: &[&str]| {
        let before = shared.refused();
        let (code, _, error) = name(client, args);
        assert_eq!(code, Some(1), "{client} {args:?}");
        assert!(error.contains("--max-peer-bindings") && error.contains("\"greedy\" has 3"), "{error}");
        assert_eq!(shared.refused(), before + 1);
    };
    // A context and its binding are two.
    done("greedy", &["new-context", "plant"]);
    done("greedy", &["bind", "plant/one", OBJECT]);
    refused("greedy", &["bind", "two", OBJECT]);
    refused("greedy", &["new-context", "more"]);
    // Its own name it may bind anew; not that of another client.
    done("greedy", &["rebind", "plant/one", OBJECT]);
    done("modest", &["bind", "two", OBJECT]);
    refused("greedy", &["rebind", "two", OBJECT]);
    // A binding that another client removed counts no more.
    done("modest", &["unbind", "plant/one"]);
    done("greedy", &["bind", "three", OBJECT]);
    refused("greedy", &["bind", "four", OBJECT]);
    // A name that another client takes over is that client's.
    done("modest", &["rebind", "three", OBJECT]);
    done("greedy", &["bind", "four", OBJECT]);
    refused("greedy", &["bind", "five", OBJECT]);
}

#[test]
fn proxies() {
    let args = ["event-channel", "--real-time", "off", "--ping", "0", "--max-peer-proxies", "2"];
    let shared = Shared::start(&args);
    let [greedy, modest] = ["greedy", "modest"].map(|name| shared.orb(name));
    let at = |orb: &Orb| -> admin::EventChannelRef { orb.resolve(&shared.service.url).unwrap() };
    let (channel, other) = (at(&greedy), at(&modest));
    let _consumer = consume(&greedy, &channel, 20);
    let supplier = supply(&channel);
    let consumers = channel.for_consumers().unwrap().unwrap();
    let refused = consumers.obtain_push_supplier().unwrap_err();
    assert_limit(&refused, "--max-peer-proxies", "\"greedy\" has 2 proxies");
    assert_eq!(shared.refused(), 1);
    let _its = consume(&modest, &other, 20);
    let _supplier = supply(&other);
    supplier.disconnect_push_consumer().unwrap();
    wait_until("the proxy is gone", || consumers.obtain_push_supplier().is_ok());
    [greedy, modest].iter().for_each(|orb| orb.shutdown(true).unwrap());
}

#[test]
fn nodes_and_areas() {
    let args = ["memory-coordinator", "--memory", "--max-peer-nodes", "1", "--max-peer-areas", "2"];
    let shared = Shared::start(&args);
    let [greedy, modest] = ["greedy", "modest"].map(|name| shared.orb(name));
    let at = |orb: &Orb| -> Glob_CommRef { orb.resolve(&shared.service.url).unwrap() };
    let (glob, other) = (at(&greedy), at(&modest));
    // Servers of which no other has the name are not called.
    let node = |orb: &Orb, name: &str| {
        let server: CRM_CommRef = orb.string_to_object(OBJECT).unwrap().unchecked_narrow();
        Node { name: name.into(), incarnation: 1, server: Some(server) }
    };
    let none: &[Area] = &[];
    let system = |text: &dyn std::fmt::Debug| format!("{text:?}");
    glob.register_node(&node(&greedy, "one"), none).unwrap();
    glob.register_node(&node(&greedy, "one"), none).unwrap();
    let refused = system(&glob.register_node(&node(&greedy, "two"), none).unwrap_err());
    assert!(refused.contains("--max-peer-nodes") && refused.contains("has 1 nodes"), "{refused}");
    other.register_node(&node(&modest, "two"), &[Area::new("two/a", 8, 1)][..]).unwrap();
    for name in ["a", "b", "a"] {
        glob.register_area("one", &Area::new(name, 8, 1)).unwrap();
    }
    let refused = system(&glob.register_area("one", &Area::new("c", 8, 1)).unwrap_err());
    assert!(refused.contains("--max-peer-areas") && refused.contains("has 2 areas"), "{refused}");
    other.register_area("two", &Area::new("two/b", 8, 1)).unwrap();
    // A node that registers with all of its areas, as after a restart, counts as before; with too
    // many of them nothing is registered.
    let held = |names: &[&str]| names.iter().map(|name| Area::new(*name, 8, 1)).collect::<Vec<_>>();
    glob.register_node(&node(&greedy, "one"), &held(&["a", "b"])[..]).unwrap();
    assert!(glob.register_node(&node(&greedy, "one"), &held(&["a", "b", "c"])[..]).is_err());
    assert_eq!(shared.refused(), 3);
    // What is unregistered makes room.
    glob.unregister_area("one", "a").unwrap();
    glob.register_area("one", &Area::new("c", 8, 1)).unwrap();
    glob.register_node(&node(&greedy, "one"), none).unwrap();
    for name in ["d", "e"] {
        glob.register_area("one", &Area::new(name, 8, 1)).unwrap();
    }
    glob.unregister_node("one", 1).unwrap();
    glob.register_node(&node(&greedy, "three"), &held(&["f", "g"])[..]).unwrap();
    [greedy, modest].iter().for_each(|orb| orb.shutdown(true).unwrap());
}

#[test]
fn joins() {
    let folder = TempFolder::new();
    let authority = Authority::at(&folder.file("ca")).unwrap();
    let channel = |id: &str, client: &str, more: &[&str]| {
        let log = folder.file(format!("log{id}"));
        let fixed = ["event-channel", "--real-time", "off", "--id", id, "--tick", "100", "--port", "0"];
        let tls = files(&authority, client);
        let mut command = isorb(&[&fixed[..], &["--tls", &tls], more].concat());
        Process::start(command.stderr(std::fs::File::create(log).unwrap()))
    };
    let said = |id: &str, what: &str| {
        std::fs::read_to_string(folder.file(format!("log{id}"))).unwrap().contains(what)
    };
    let mut hub = channel("1", "server", &["--max-peer-joins", "1"]);
    hub.expect_line("READY");
    let url = hub.expect_line("FEDERATION");
    let join = |id: &str, client: &str| channel(id, client, &["--join", &url]);
    let first = join("2", "greedy");
    wait_until("the first is linked", || said("2", "linked to channel 1"));
    let _second = join("3", "greedy");
    wait_until("the second learns why it is not", || said("3", "--max-peer-joins"));
    assert!(said("3", "has 1 links already") && !said("3", "linked to channel 1"));
    let _other = join("4", "modest");
    wait_until("another client is linked", || said("4", "linked to channel 1"));
    // A link that is gone makes room.
    drop(first);
    wait_until("the second is linked", || said("3", "linked to channel 1"));
}
