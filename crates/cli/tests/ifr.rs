//! `isorb ifr` as a user runs it, and `isorb call` without IDL files.

mod common;

use common::{Service, run};
use isorb_testkit::TempFolder;
use serde_json::Value;

const IDL: &str = r"
    module Plant {
      exception Jammed { long at; };
      struct Reading { double value; string unit; };
      interface Valve {
        readonly attribute string name;
        Reading sample(in long channel, out string remark) raises (Jammed);
      };
    };
";

const RULES: &str = r#"
    [[rule]]
    operation = "sample"
    when = { channel = 3 }
    exception = "Jammed"
    members = { at = 7 }

    [[rule]]
    operation = "sample"
    result = { value = 1.5, unit = "bar" }
    out = { remark = "good" }

    [[rule]]
    operation = "_get_name"
    result = "V1"
"#;

struct Plant {
    _repository: Service,
    valve: Service,
    folder: TempFolder,
    url: String,
}

impl Plant {
    /// A repository, and a server that is told of it if `knows`.
    fn start(knows: bool) -> Plant {
        let folder = TempFolder::new();
        std::fs::write(folder.file("plant.idl"), IDL).unwrap();
        std::fs::write(folder.file("rules.toml"), RULES).unwrap();
        let idl = folder.text("plant.idl");
        let repository = Service::start(&["ifr", "--port", "0", "--idl", &idl]);
        let url = repository.url.clone();
        let reference = format!("InterfaceRepository={url}");
        let rules = folder.text("rules.toml");
        let mut arguments = vec!["serve", "--idl", &idl, "--script", &rules];
        if knows {
            arguments.extend(["-ORBInitRef", &reference]);
        }
        let valve = Service::start(&arguments);
        Plant { _repository: repository, valve, folder, url }
    }
}

#[test]
fn a_reference_is_enough_to_call() {
    let plant = Plant::start(true);
    let (code, output, error) = run(&["call", &plant.valve.url, "sample", "1"]);
    assert_eq!((code, &*error), (Some(0), ""));
    let sampled: Value = serde_json::from_str(&output).unwrap();
    assert_eq!((&sampled["result"]["unit"], &sampled["remark"]), (&"bar".into(), &"good".into()));
    let (code, output, _) = run(&["call", &plant.valve.url, "Plant::Valve::_get_name"]);
    assert_eq!((code, output.trim()), (Some(0), "\"V1\""));
    let (code, output, _) = run(&["call", &plant.valve.url, "sample", "3"]);
    assert_eq!(code, Some(3), "a user exception");
    assert!(output.contains("IDL:Plant/Jammed:1.0") && output.contains("7"), "{output}");
    let (code, _, error) = run(&["call", &plant.valve.url, "close"]);
    assert!(
        code == Some(1) && error.contains("Valve has no operation close; it has sample, _get_name"),
        "{error}"
    );
}

#[test]
fn a_repository_of_the_caller_serves_as_well() {
    let plant = Plant::start(false);
    let (code, output, error) = run(&["call", "--ifr", &plant.url, &plant.valve.url, "_get_name"]);
    assert_eq!((code, output.trim(), &*error), (Some(0), "\"V1\"", ""));
    let (code, _, error) = run(&["call", &plant.valve.url, "_get_name"]);
    assert!(code == Some(1) && error.contains("--ifr URL") && error.contains("-ORBInitRef"), "{error}");
    // The repository itself is an object like any other.
    let id = "\"IDL:Plant/Valve:1.0\"";
    std::fs::write(plant.folder.file("ifr.idl"), "#include <InterfaceRepository.idl>\n").unwrap();
    let idl = plant.folder.text("ifr.idl");
    let (code, output, error) = run(&["call", "--idl", &idl, &plant.url, "CORBA::Repository::lookup_id", id]);
    assert!(code == Some(0) && output.contains("IOR:"), "{error}");
}

#[test]
fn errors_in_idl_end_the_service_with_their_lines() {
    let folder = TempFolder::new();
    std::fs::write(folder.file("bad.idl"), "struct S {\n  Missing m;\n};\n").unwrap();
    let (code, output, error) = run(&["ifr", "--port", "0", "--idl", &folder.text("bad.idl")]);
    assert_eq!((code, &*output), (Some(1), ""));
    assert!(error.contains("bad.idl:2"), "{error}");
    let (code, _, error) = run(&["ifr"]);
    assert!(code == Some(2) && error.contains("--idl"), "{error}");
}
