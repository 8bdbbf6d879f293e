//! `isorb call` as a user runs it, against a naming service.

mod common;

use common::{Ended, Service, run};
use isorb_testkit::{Process, TempFolder, wait_until};
use serde_json::Value;
use std::net::{TcpListener, TcpStream};
use std::process::Command;

const OBJECT: &str = "corbaloc::1.2@localhost:99/key";

struct Naming {
    service: Service,
    folder: TempFolder,
}

impl Naming {
    fn start() -> Naming {
        let folder = TempFolder::new();
        std::fs::write(folder.file("n.idl"), "#include <CosNaming.idl>\n").unwrap();
        Naming { service: Service::start(&["naming", "--port", "0", "--memory"]), folder }
    }

    fn call(&self, url: &str, arguments: &[&str]) -> Ended {
        run(&[&["call", "--idl", &self.folder.text("n.idl"), url], arguments].concat())
    }

    /// The JSON of the results; null if there are none.
    fn good(&self, arguments: &[&str]) -> Value {
        let (code, output, error) = self.call(&self.service.url, arguments);
        assert_eq!((code, &*error), (Some(0), ""), "{arguments:?}: {output}");
        if output.is_empty() { Value::Null } else { serde_json::from_str(&output).unwrap() }
    }

    fn refused(&self, arguments: &[&str], words: &[&str]) {
        let (code, output, error) = self.call(&self.service.url, arguments);
        assert_eq!((code, &*output), (Some(1), ""), "{arguments:?}");
        assert!(words.iter().all(|word| error.contains(word)), "{arguments:?}: {error}");
    }
}

#[test]
fn results_and_references_are_json() {
    let naming = Naming::start();
    let lab = r#"[{"id":"lab","kind":""}]"#;
    let context = naming.good(&["CosNaming::NamingContext::bind_new_context", lab]);
    assert!(context.as_str().unwrap().starts_with("IOR:"));
    let probe = r#"[{"id":"lab","kind":""},{"id":"t1","kind":"probe"}]"#;
    let object = format!("\"{OBJECT}\"");
    assert_eq!(naming.good(&["CosNaming::NamingContext::bind", probe, &object]), Value::Null);
    // The reference says which interface it is of, so the name of the operation is enough.
    let (code, output, error) = naming.call(context.as_str().unwrap(), &["list", "10"]);
    assert_eq!((code, &*error), (Some(0), ""));
    let listed: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(listed["bl"][0]["binding_name"][0]["kind"], "probe");
    assert_eq!(listed["bl"][0]["binding_type"], "nobject");
    assert_eq!(listed["bi"], Value::Null);
    let found = naming.good(&["CosNaming::NamingContext::resolve", probe]);
    assert!(found.as_str().unwrap().starts_with("IOR:"));
    assert_eq!(naming.good(&["CosNaming::NamingContextExt::to_string", lab]), "lab");
}

#[test]
fn user_exceptions_are_json_with_an_exit_code() {
    let naming = Naming::start();
    let arguments = ["CosNaming::NamingContext::resolve", r#"[{"id":"x","kind":""}]"#];
    let (code, output, _) = naming.call(&naming.service.url, &arguments);
    assert_eq!(code, Some(3));
    let raised: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(raised["exception"], "IDL:omg.org/CosNaming/NamingContext/NotFound:1.0");
    assert_eq!(raised["members"]["why"], "missing_node");
    assert_eq!(raised["members"]["rest_of_name"][0]["id"], "x");
}

#[test]
fn errors_name_the_argument() {
    let naming = Naming::start();
    naming.refused(&["resolve_str", "7"], &["argument sn", "resolve_str", "7"]);
    naming.refused(&["resolve_str", "\"a\"", "\"b\""], &["takes 1 arguments, 2 are given", "sn ("]);
    naming.refused(&["CosNaming::NamingContext::resolve", "[{\"id\":\"x\"}]"], &["argument n", "kind"]);
    naming.refused(&["CosNaming::NamingContext::bind", "[]", "7"], &["argument obj", "null, or a text"]);
    naming.refused(&["nonsense"], &["no operation nonsense"]);
    naming.refused(&["destroy"], &["several operations", "CosNaming::BindingIterator::destroy"]);
    let (code, _, error) = naming.call("corbaloc::127.0.0.1:1/x", &["resolve_str", "\"a\""]);
    assert_eq!(code, Some(1));
    assert!(error.contains("resolve_str") && error.contains("127.0.0.1:1"), "{error}");
    let (code, _, error) = run(&["call", "--idl", "/nowhere.idl", OBJECT, "x"]);
    assert!(code == Some(2) && error.contains("/nowhere.idl"), "{error}");
}

/// omniNames is a server that was compiled by another ORB.
#[test]
fn a_server_of_omniorb_is_called() {
    let folder = TempFolder::new();
    std::fs::write(folder.file("n.idl"), "#include <CosNaming.idl>\n").unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut omni = Command::new("omniNames");
    omni.args(["-start", &port.to_string(), "-logdir", &folder.text("")]);
    omni.args(["-ORBendPoint", &format!("giop:tcp:127.0.0.1:{port}")]);
    if Command::new("omniNames").arg("-help").output().is_err() {
        eprintln!("skipped: omniNames is not installed (apt-get install omniorb-nameserver)");
        return;
    }
    let _omni = Process::unread(&mut omni);
    wait_until("omniNames listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    let url = format!("corbaloc::1.2@127.0.0.1:{port}/NameService");
    let (idl, object) = (folder.text("n.idl"), format!("\"{OBJECT}\""));
    let call = |arguments: &[&str]| run(&[&["call", "--idl", &idl, &url], arguments].concat());
    let name = r#"[{"id":"t1","kind":"probe"}]"#;
    let (code, _, error) = call(&["CosNaming::NamingContext::bind", name, &object]);
    assert_eq!((code, &*error), (Some(0), ""));
    let (_, output, _) = call(&["CosNaming::NamingContext::list", "10"]);
    let listed: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(listed["bl"][0]["binding_name"][0]["kind"], "probe");
    assert_eq!(listed["bl"][0]["binding_type"], "nobject");
    let (code, output, _) = call(&["CosNaming::NamingContext::bind", name, &object]);
    assert_eq!(code, Some(3));
    let raised: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(raised["exception"], "IDL:omg.org/CosNaming/NamingContext/AlreadyBound:1.0");
}
