//! `isorb idl` as people use it.

mod common;

use common::ISORB;
use isorb_testkit::TempFolder;
use std::process::Command;

const LAMP: &str = "#pragma prefix \"omg.org\"
/// Lights.
module Home {
  enum Color { red, green };
  exception Broken { string why; };
  typedef sequence<octet> Data;
  union Wish switch (Color) { case red: long hue; default: Data raw; };
  /// A lamp.
  interface Lamp {
    /// Switches | it.
    boolean set(in boolean on, out Color now) raises (broken);
    readonly attribute string name;
  };
};
";

fn isorb(folder: &TempFolder, args: &[&str]) -> (bool, String, String) {
    let file = folder.file("lamp.idl");
    std::fs::write(&file, LAMP).unwrap();
    let output = Command::new(ISORB).arg("idl").args(args).arg(&file).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.into()).unwrap();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn an_interface_as_markdown() {
    let folder = TempFolder::new();
    let (good, page, _) = isorb(&folder, &["--markdown"]);
    assert!(good);
    for line in [
        "## module `Home`",
        "Lights.",
        "### interface `Home::Lamp`",
        "`IDL:omg.org/Home/Lamp:1.0`",
        "| `boolean set(in boolean on, out Home::Color now)` | `Home::Broken` | Switches \\| it. |",
        "| `readonly attribute string name` |  |  |",
        "| default | `raw` | `Home::Data` |  |",
        "| 1 | `green` |  |",
    ] {
        assert!(page.lines().any(|other| other == line), "no {line} in\n{page}");
    }
}

#[test]
fn an_interface_as_json() {
    let folder = TempFolder::new();
    let (good, text, _) = isorb(&folder, &["--json"]);
    assert!(good);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let contents = json["definitions"][0]["contents"].as_array().unwrap();
    let lamp = contents.iter().find(|each| each["name"] == "Lamp").unwrap();
    assert_eq!((&lamp["kind"], &lamp["doc"]), (&"interface".into(), &"A lamp.".into()));
    let set = &lamp["contents"][0];
    assert_eq!((&set["result"], &set["raises"][0]), (&"boolean".into(), &"Home::Broken".into()));
    assert_eq!(set["parameters"][1]["direction"], "out");
    assert_eq!(set["parameters"][1]["type"], "::Home::Color");
}

#[test]
fn strictness_is_chosen() {
    let folder = TempFolder::new();
    let (good, _, errors) = isorb(&folder, &["--check"]);
    assert!(good && errors.starts_with("warning[case]"), "{errors}");
    let (good, _, errors) = isorb(&folder, &["--check", "--strict"]);
    assert!(!good && errors.starts_with("error[case]"), "{errors}");
    assert_eq!(isorb(&folder, &["--check", "--strict", "--allow", "case"]), (true, "".into(), "".into()));
    let (good, _, errors) = isorb(&folder, &["--check", "--allow", "cases"]);
    assert!(!good && errors.contains("raised-twice"), "{errors}");
}

#[test]
fn settings_of_the_generated_rust_are_options() {
    let folder = TempFolder::new();
    let out = folder.path().to_str().unwrap();
    let rust = |more: &[&str]| {
        let (good, _, errors) = isorb(&folder, &[&["--rust", "-o", out], more].concat());
        assert!(good, "{errors}");
        std::fs::read_to_string(folder.file("lamp.rs")).unwrap()
    };
    let usual = rust(&[]);
    for absent in ["set_begin", "::Lent", "::mine"] {
        assert!(!usual.contains(absent), "{absent}");
    }
    assert!(usual.contains("AnyValue") && !rust(&["--no-any"]).contains("AnyValue"));
    assert!(rust(&["--asynchronous"]).contains("set_begin"));
    assert!(!rust(&["--extern-module", "Home=::mine::home"]).contains("trait Lamp"));
    let (good, _, errors) = isorb(&folder, &["--rust", "-o", out, "--in-place", "Home::Date"]);
    assert!(!good && errors.contains("Home::Date") && errors.contains("no such type"), "{errors}");
    let (good, _, errors) = isorb(&folder, &["--rust", "-o", out, "--default", "Home::Lamp::name=7"]);
    assert!(!good && errors.contains("not a struct"), "{errors}");
    let (good, _, errors) = isorb(&folder, &["--rust", "--default", "Home::Lamp::name"]);
    assert!(!good && errors.contains("'='"), "{errors}");
    let (good, _, errors) = isorb(&folder, &["--check", "--in-place", "Home::Data"]);
    assert!(!good && errors.contains("--check") && errors.contains("--in-place"), "{errors}");
}
