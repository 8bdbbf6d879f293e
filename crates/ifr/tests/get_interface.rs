//! `_get_interface`: a server that knows a repository, and a client that knows neither IDL nor
//! repository.

use isorb::{
    Any, Config, DynamicInterface, DynamicOperation, DynamicReply, DynamicRequest, DynamicServant, Kind,
    Object, Orb, Reference, Result, Upcall, minor,
};
use isorb_ifr::corba::{ExtInterfaceDefRef, InterfaceDefRef, RepositoryRef};
use isorb_ifr::{Contents, Contract, InterfaceCache, RepositoryService, TypeCodes, operations};
use isorb_testkit::RunningOrb;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

struct Device;

impl DynamicServant for Device {
    fn invoke(&self, _: Upcall<'_>, operation: &DynamicOperation, _: Vec<Any>) -> Result<DynamicReply> {
        match operation.name() {
            "_get_name" => Ok(DynamicReply::Results(vec![Any::new(&"boiler".to_owned())?])),
            "stop" => Ok(DynamicReply::Results(Vec::new())),
            _ => Err(Kind::NoImplement.into()),
        }
    }
}

fn plant() -> Contents {
    let file = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plant.idl"));
    Contents::compile(&[file], &[]).expect("the IDL is correct")
}

/// An object of an interface in plant.idl, or of another one.
fn device(orb: &Orb, name: &str, id: Option<&str>) -> Object {
    let contents = plant();
    let spec = contents.spec();
    let definition = spec.find(name).unwrap();
    let operations = operations(&mut TypeCodes::new(spec), definition).unwrap();
    let id = id.unwrap_or(&spec[definition].repository_id);
    let interface = Arc::new(DynamicInterface::new(id, &[], operations).unwrap());
    let poa = orb.root_poa().unwrap();
    let active = poa.activate_object(interface.servant(Arc::new(Device))).unwrap();
    poa.id_to_reference(&active).unwrap()
}

fn far(client: &Orb, object: &Object) -> Object {
    client.string_to_object(&object.to_string()).unwrap()
}

fn knowing(url: &str) -> RunningOrb {
    let init_refs = [("InterfaceRepository".to_owned(), url.to_owned())].into_iter().collect();
    RunningOrb::with_config(Config { init_refs, ..Config::default() })
}

#[test]
fn an_object_is_called_by_its_reference_alone() {
    let (library, client) = (RunningOrb::new(), RunningOrb::new());
    let service = RepositoryService::start(&library, Arc::new(plant())).unwrap();
    let server = knowing(&service.object().to_string());
    let object = far(&client, &device(&server, "Plant::Device", None));
    for _ in 0..2 {
        let definition = object.get_interface().unwrap().expect("it is not nil");
        let definition: InterfaceDefRef = definition.narrow().unwrap().unwrap();
        assert_eq!(definition.id().unwrap(), "IDL:Plant/Device:1.0");
    }
    assert_eq!(object.repository_id().unwrap(), "IDL:Plant/Device:1.0");

    let interfaces = InterfaceCache::new(None).with_limit(1);
    let contract = interfaces.of_object(&object).unwrap();
    assert_eq!(contract.names().collect::<Vec<_>>(), ["stop", "_get_name"]);
    let name = contract.operation("_get_name").unwrap();
    let reply = DynamicRequest::new(&object, &name).invoke().unwrap();
    assert_eq!(reply, DynamicReply::Results(vec![Any::new(&"boiler".to_owned()).unwrap()]));
    let unknown = contract.operation("start").unwrap_err();
    assert_eq!(unknown.kind, Kind::BadOperation);
    assert!(unknown.to_string().contains("stop, _get_name"), "{unknown}");
    // From the cache: the same contract, also for a repository that is gone by now.
    library.orb().shutdown(true).unwrap();
    assert!(Arc::ptr_eq(&contract, &interfaces.of_object(&object).unwrap()));
}

#[test]
fn a_repository_of_the_client_is_enough() {
    let (library, server, client) = (RunningOrb::new(), RunningOrb::new(), RunningOrb::new());
    let service = RepositoryService::start(&library, Arc::new(plant())).unwrap();
    let repository = RepositoryRef::from_object(far(&client, service.object()));
    let interfaces = InterfaceCache::new(Some(repository));
    let near = device(&server, "Plant::Valve", None);
    let valve = interfaces.of_object(&far(&client, &near)).unwrap();
    let position = valve.operation("_set_place").unwrap();
    assert_eq!(position.exceptions().len(), 2, "attributes come with their exceptions");
    assert_eq!(valve.operation("move").unwrap().results().count(), 3);
    // A URL names no interface.
    server.register_corbaloc_key("valve", &near);
    let (host, port) = server.endpoint_addresses().remove(0);
    let bare = client.string_to_object(&format!("corbaloc::1.2@{host}:{port}/valve")).unwrap();
    assert_eq!(bare.type_id(), "");
    assert_eq!(interfaces.of_object(&bare).unwrap().name(), "Valve");
    assert_eq!(interfaces.of_id("IDL:Plant/Device:1.0").unwrap().name(), "Device");
    let missing = interfaces.of_id("IDL:Plant/Point:2.0").unwrap_err();
    assert_eq!((missing.kind, missing.minor), (Kind::IntfRepos, minor::INTF_REPOS_NO_ENTRY));
    let point = repository_definition(&client, service.object(), "IDL:Plant/Point:1.0");
    let refused = Contract::of_definition(&point).unwrap_err();
    assert!(refused.kind == Kind::BadParam && refused.to_string().contains("StructDef"), "{refused}");
}

fn repository_definition(client: &Orb, repository: &Object, id: &str) -> Object {
    let repository = RepositoryRef::from_object(far(client, repository));
    repository.lookup_id(id).unwrap().unwrap().object().clone()
}

#[test]
fn what_is_missing_is_said() {
    let client = RunningOrb::new();
    let alone = RunningOrb::new();
    let object = far(&client, &device(&alone, "Plant::Device", None));
    let refused = object.get_interface().unwrap_err();
    assert_eq!((refused.kind, refused.minor), (Kind::IntfRepos, minor::INTF_REPOS_UNAVAILABLE));
    assert!(refused.to_string().contains("-ORBInitRef InterfaceRepository"), "{refused}");

    let library = RunningOrb::new();
    let service = RepositoryService::start(&library, Arc::new(plant())).unwrap();
    let server = knowing(&service.object().to_string());
    let object = far(&client, &device(&server, "Plant::Device", Some("IDL:Other/Thing:1.0")));
    let refused = object.get_interface().unwrap_err();
    assert_eq!((refused.kind, refused.minor), (Kind::IntfRepos, minor::INTF_REPOS_NO_ENTRY));
    assert!(refused.to_string().contains("IDL:Other/Thing:1.0"), "{refused}");

    // No process listens at the port.
    let server = knowing("corbaloc::1.2@127.0.0.1:1/InterfaceRepository");
    let object = far(&client, &device(&server, "Plant::Device", None));
    let first = object.get_interface().unwrap_err();
    assert_eq!((first.kind, first.minor), (Kind::IntfRepos, minor::INTF_REPOS_UNAVAILABLE));
    assert!(first.to_string().contains("127.0.0.1:1"), "{first}");
}

/// A repository that accepts connections and never answers: clients of the server get an answer,
/// and only one of them in ten seconds has to wait for it.
#[test]
fn a_repository_that_hangs_does_not_hold_the_server() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let server = knowing(&format!("corbaloc::1.2@127.0.0.1:{port}/InterfaceRepository"));
    let client = RunningOrb::new();
    let object = far(&client, &device(&server, "Plant::Device", None));
    let began = Instant::now();
    let first = object.get_interface().unwrap_err();
    assert_eq!(first.kind, Kind::IntfRepos, "{first}");
    assert!(began.elapsed().as_millis() >= 800, "it was given its time");
    // Tries that come too late say nothing.
    isorb_testkit::retry("the next client is refused at once", || {
        let refused = object.get_interface().unwrap_err().to_string();
        refused.contains("less than 10 s ago").then_some(()).ok_or(refused)
    });
    // The server answers everything else.
    assert!(!object.non_existent().unwrap());
    let name = ExtInterfaceDefRef::from_object(object.clone());
    assert_eq!(name.name().unwrap(), "boiler", "an operation of this name exists");
}

/// The thread of a lane serves other clients while a repository does not answer.
#[test]
fn a_lane_of_one_thread_serves_while_the_repository_is_asked() {
    isorb_testkit::retry("the repository ends the wait, not the time-out", || {
        let repository = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = repository.local_addr().unwrap().port();
        let url = format!("corbaloc::1.2@127.0.0.1:{port}/InterfaceRepository");
        let init_refs = [("InterfaceRepository".to_owned(), url)].into_iter().collect();
        let endpoints = vec!["127.0.0.1:0;lane=1".to_owned()];
        let server = RunningOrb::with_config(Config { init_refs, endpoints, ..Config::default() });
        let (client, other) = (RunningOrb::new(), RunningOrb::new());
        let near = device(&server, "Plant::Device", None);
        let (object, same) = (far(&client, &near), far(&other, &near));
        let asking = std::thread::spawn(move || object.get_interface().unwrap_err());
        let call = repository.accept().unwrap();
        assert!(!same.non_existent().unwrap());
        // A thread that had waited for the repository would have reached its time-out by now.
        drop((call, repository));
        let refused = asking.join().unwrap();
        assert_eq!(refused.kind, Kind::IntfRepos, "{refused}");
        (!refused.to_string().contains("TIMEOUT")).then_some(()).ok_or(refused.to_string())
    });
}
