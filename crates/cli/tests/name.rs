//! `isorb naming` and `isorb name` as a user runs them.

mod common;

use common::{Service, run};
use isorb_testkit::TempFolder;

const OBJECT: &str = "corbaloc::1.2@localhost:99/key";

/// A naming service in a process.
struct Naming(Service);

impl Naming {
    fn start(args: &[&str]) -> Naming {
        Naming(Service::start(&[&["naming", "--port", "0"], args].concat()))
    }

    /// Runs `isorb name`: its exit code, standard output, standard error.
    fn name(&self, args: &[&str]) -> common::Ended {
        run(&[&["name", "--ns", &self.0.url], args].concat())
    }

    fn good(&self, args: &[&str]) -> String {
        let (code, output, error) = self.name(args);
        assert_eq!((code, &*error), (Some(0), ""), "{args:?}");
        output
    }
}

#[test]
fn names_from_the_command_line() {
    let naming = Naming::start(&["--memory"]);
    naming.good(&["new-context", "-p", "lab/a"]);
    naming.good(&["bind", "lab/t1.probe", OBJECT]);
    naming.good(&["bind", "top", OBJECT]);
    assert_eq!(naming.good(&["ls"]), "lab/\ntop\n");
    assert_eq!(naming.good(&["ls", "lab"]), "a/\nt1.probe\n");
    assert!(naming.good(&["ls", "-l", "lab"]).contains("at localhost:99"));
    assert_eq!(naming.good(&["tree"]), "/\n├─ lab/\n│  ├─ a/\n│  └─ t1.probe\n└─ top\n");
    let found = naming.good(&["resolve", "lab/t1.probe"]);
    assert!(found.starts_with("IOR:"));
    naming.good(&["rebind", "top", found.trim()]);
    naming.good(&["unbind", "top"]);

    let refused = |args: &[&str], sentence: &str| {
        let (code, output, error) = naming.name(args);
        assert_eq!((code, &*output), (Some(1), ""), "{args:?}");
        assert!(error.contains(sentence), "{args:?}: {error}");
    };
    refused(&["bind", "lab/t1.probe", OBJECT], "already bound; rebind replaces the binding");
    refused(&["resolve", "lab/x/y"], "x is not bound");
    refused(&["resolve", "lab/t1.probe/y"], "t1.probe is an object");
    refused(&["rebind", "lab/a", OBJECT], "a is a naming context");
    refused(&["resolve", "a..b"], "column");
    let (code, _, error) = naming.name(&["bind", "x", "nonsense:"]);
    assert!(code == Some(2) && error.contains("'nonsense:' for '<OBJECT>'"), "{error}");
    let (code, _, error) = run(&["name", "--ns", "127.0.0.1:1", "ls"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("127.0.0.1:1") && error.contains("check that it runs"), "{error}");
    assert_eq!(run(&["name"]).0, Some(2));
}

#[test]
fn many_bindings_are_listed_whole() {
    let naming = Naming::start(&["--memory"]);
    let orb = isorb::Orb::with_config(isorb::Config::default()).unwrap();
    let root: isorb_naming::cos_naming::NamingContextRef = orb.resolve(&naming.0.url).unwrap();
    let object = orb.string_to_object(OBJECT).unwrap();
    for i in 0..450 {
        let step = isorb_naming::cos_naming::NameComponent { id: format!("n{i:03}"), kind: String::new() };
        root.bind(&vec![step], &object).unwrap();
    }
    let listed = naming.good(&["ls"]);
    let expected: String = (0..450).map(|i| format!("n{i:03}\n")).collect();
    assert_eq!(listed, expected);
}

#[test]
fn names_outlive_the_process() {
    let folder = TempFolder::new();
    let store = folder.text("names");
    let reference = folder.text("ior");
    {
        let naming = Naming::start(&["--store", &store, "--ior-file", &reference]);
        naming.good(&["new-context", "lab"]);
        naming.good(&["bind", "lab/t1", OBJECT]);
        let second = run(&["naming", "--port", "0", "--store", &store]);
        assert!(second.0 == Some(1) && second.2.contains("another process has it open"), "{second:?}");
    }
    assert!(std::fs::read_to_string(&reference).unwrap().starts_with("IOR:"));
    let naming = Naming::start(&["--store", &store]);
    assert_eq!(naming.good(&["tree"]), "/\n└─ lab/\n   └─ t1\n");
}

#[test]
fn stores_that_are_none() {
    let folder = TempFolder::new();
    let file = folder.text("text");
    std::fs::write(&file, "not a database\n").unwrap();
    let (code, output, error) = run(&["naming", "--port", "0", "--store", &file]);
    assert_eq!((code, &*output), (Some(1), ""));
    assert!(error.contains(&file) && error.contains("no database"), "{error}");
}
