//! `isorb naming` and `isorb name` as a user runs them.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const ISORB: &str = env!("CARGO_BIN_EXE_isorb");
const OBJECT: &str = "corbaloc::1.2@localhost:99/key";

/// A naming service in a process; killed at the end as `kill -9` does it.
struct Naming {
    child: Child,
    url: String,
}

impl Naming {
    fn start(args: &[&str]) -> Naming {
        let mut child = Command::new(ISORB)
            .args(["naming", "--port", "0"])
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        let url = ready.trim().strip_prefix("READY ").expect("it says READY").to_string();
        Naming { child, url }
    }

    /// Runs `isorb name`: its exit code, standard output, standard error.
    fn name(&self, args: &[&str]) -> (i32, String, String) {
        run(&[&["name", "--ns", &self.url], args].concat())
    }

    fn good(&self, args: &[&str]) -> String {
        let (code, output, error) = self.name(args);
        assert_eq!((code, &*error), (0, ""), "{args:?}");
        output
    }
}

impl Drop for Naming {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(args: &[&str]) -> (i32, String, String) {
    let output = Command::new(ISORB).args(args).output().unwrap();
    let text = |octets| String::from_utf8(octets).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("isorb-cli-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
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
        assert_eq!((code, &*output), (1, ""), "{args:?}");
        assert!(error.contains(sentence), "{args:?}: {error}");
    };
    refused(&["bind", "lab/t1.probe", OBJECT], "bound already; rebind replaces it");
    refused(&["resolve", "lab/x/y"], "x is not bound");
    refused(&["resolve", "lab/t1.probe/y"], "t1.probe is an object");
    refused(&["rebind", "lab/a", OBJECT], "a is a naming context");
    refused(&["resolve", "a..b"], "column");
    refused(&["bind", "x", "nonsense:"], "nonsense");
    let (code, _, error) = run(&["name", "--ns", "127.0.0.1:1", "ls"]);
    assert_eq!(code, 1);
    assert!(error.contains("127.0.0.1:1") && error.contains("is it running?"), "{error}");
    assert_eq!(run(&["name"]).0, 2);
}

#[test]
fn many_bindings_are_listed_whole() {
    let naming = Naming::start(&["--memory"]);
    let orb = isorb::Orb::with_config(isorb::Config::default());
    let root: isorb::cos_naming::NamingContextRef = orb.resolve(&naming.url).unwrap();
    let object = orb.string_to_object(OBJECT).unwrap();
    for i in 0..450 {
        let step = isorb::cos_naming::NameComponent { id: format!("n{i:03}"), kind: String::new() };
        root.bind(&vec![step], &object).unwrap();
    }
    let listed = naming.good(&["ls"]);
    let expected: String = (0..450).map(|i| format!("n{i:03}\n")).collect();
    assert_eq!(listed, expected);
}

#[test]
fn names_outlive_the_process() {
    let folder = Folder::new("outlive");
    let store = folder.file("names");
    let reference = folder.file("ior");
    {
        let naming = Naming::start(&["--store", &store, "--ior-file", &reference]);
        naming.good(&["new-context", "lab"]);
        naming.good(&["bind", "lab/t1", OBJECT]);
        let second = run(&["naming", "--port", "0", "--store", &store]);
        assert!(second.0 == 1 && second.2.contains("another process has it open"), "{second:?}");
    }
    assert!(std::fs::read_to_string(&reference).unwrap().starts_with("IOR:"));
    let naming = Naming::start(&["--store", &store]);
    assert_eq!(naming.good(&["tree"]), "/\n└─ lab/\n   └─ t1\n");
}

#[test]
fn stores_that_are_none() {
    let folder = Folder::new("none");
    let file = folder.file("text");
    std::fs::write(Path::new(&file), "not a database\n").unwrap();
    let (code, output, error) = run(&["naming", "--port", "0", "--store", &file]);
    assert_eq!((code, &*output), (1, ""));
    assert!(error.contains(&file) && error.contains("no naming store"), "{error}");
}
