//! omniORB's `nameclt` (Debian package omniorb) as a client of this service, and this ORB as a
//! client of omniNames.
//!
//! Skipped with a message where the programs are not installed.

mod common;

use common::{Served, client, name, object};
use isorb_naming::cos_naming::{BindingType, NamingContextExtRef, NamingContextRef};
use isorb_naming::{Limits, MemoryStore};
use isorb_testkit::TempFolder;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn installed(program: &str) -> bool {
    let found =
        Command::new(program).arg("-help").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        eprintln!("skipped: {program} is not installed (apt-get install omniorb omniorb-nameserver)");
    }
    found
}

/// The output of `nameclt`, and whether it succeeded.
fn nameclt(url: &str, args: &[&str]) -> (bool, String) {
    let output = Command::new("nameclt")
        .args(["-ORBInitRef", &format!("NameService={url}"), "-advanced"])
        .args(args)
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

#[test]
fn nameclt_lists_binds_resolves_and_unbinds() {
    if !installed("nameclt") {
        return;
    }
    // A small batch, so that it has to use iterators.
    let limits = Limits { batch: 3, ..Limits::default() };
    let served = Served::start(Arc::new(MemoryStore::new()), limits, 0);
    let url = format!("corbaloc::127.0.0.1:{}/NameService", served.port);
    let good = |args: &[&str]| {
        let (good, text) = nameclt(&url, args);
        assert!(good, "nameclt {args:?}: {text}");
        text
    };
    let one = object(&client(), 1);
    good(&["bind_new_context", "lab"]);
    good(&["bind", "lab/t1.probe", &one.to_string()]);
    assert_eq!(good(&["resolve", "lab/t1.probe"]).trim(), one.to_string());
    for i in 0..10 {
        good(&["bind", &format!("lab/n{i}"), &one.to_string()]);
    }
    let listed = good(&["list", "lab"]);
    for entry in (0..10).map(|i| format!("n{i}")).chain(["t1.probe".into()]) {
        assert!(listed.lines().any(|line| line.trim() == entry), "no {entry} in:\n{listed}");
    }
    assert!(good(&["list"]).contains("lab"));
    let root = served.far();
    assert_eq!(root.resolve(&name("lab/t1.probe")).unwrap().unwrap().ior(), one.ior());
    let two = object(&client(), 2);
    good(&["rebind", "lab/t1.probe", &two.to_string()]);
    assert_eq!(root.resolve(&name("lab/t1.probe")).unwrap().unwrap().ior(), two.ior());
    // Exceptions have their types.
    let (content, text) = nameclt(&url, &["bind", "lab/t1.probe", &one.to_string()]);
    assert!(!content && text.contains("AlreadyBound"), "{text}");
    let (content, text) = nameclt(&url, &["resolve", "lab/none"]);
    assert!(!content && text.contains("NotFound"), "{text}");
    let (content, text) = nameclt(&url, &["remove_context", "lab"]);
    assert!(!content && text.contains("NotEmpty"), "{text}");
    for entry in (0..10).map(|i| format!("n{i}")).chain(["t1.probe".into()]) {
        good(&["unbind", &format!("lab/{entry}")]);
    }
    good(&["remove_context", "lab"]);
    assert!(root.list(10).unwrap().0.is_empty());
    // A context of this service, called by nameclt through its reference.
    let context = good(&["new_context"]);
    let context: NamingContextRef = client().resolve(context.trim()).unwrap();
    context.bind(&name("x"), &one).unwrap();
    good(&["bind_context", "again", &isorb::Reference::object(&context).to_string()]);
    assert_eq!(good(&["resolve", "again/x"]).trim(), one.to_string());
}

struct OmniNames {
    child: Child,
    _folder: TempFolder,
    url: String,
}

impl OmniNames {
    fn start() -> OmniNames {
        let folder = TempFolder::new();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new("omniNames")
            .args(["-start", &port.to_string(), "-logdir"])
            .arg(folder.file(""))
            .args(["-ORBendPoint", &format!("giop:tcp:127.0.0.1:{port}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let url = format!("corbaloc::1.2@127.0.0.1:{port}/NameService");
        let began = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(began.elapsed() < Duration::from_secs(30), "omniNames does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        OmniNames { child, _folder: folder, url }
    }
}

impl Drop for OmniNames {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn names_go_on_in_omni_names_and_back() {
    if !installed("omniNames") {
        return;
    }
    let omni = OmniNames::start();
    let follow = Limits { follow: true, ..Limits::default() };
    let served = Served::start(Arc::new(MemoryStore::new()), follow, 0);
    let near = served.far();
    let far: NamingContextExtRef = client().resolve(&omni.url).unwrap();
    let one = object(&client(), 1);
    near.bind_context(&name("omni"), &far).unwrap();
    near.bind_new_context(&name("omni/a")).unwrap();
    near.bind(&name("omni/a/x"), &one).unwrap();
    assert_eq!(far.resolve(&name("a/x")).unwrap().unwrap().ior(), one.ior());
    assert_eq!(near.resolve_str("omni/a/x").unwrap().unwrap().ior(), one.ior());
    far.bind_context(&name("isorb"), &near).unwrap();
    near.bind(&name("y"), &one).unwrap();
    // From here to omniNames and back.
    assert_eq!(near.resolve(&name("omni/isorb/y")).unwrap().unwrap().ior(), one.ior());
    let (list, _) = far.list(100).unwrap();
    assert!(list.iter().any(|binding| binding.binding_type == BindingType::Ncontext));
    near.unbind(&name("omni/a/x")).unwrap();
    assert!(far.resolve(&name("a/x")).is_err());
}
