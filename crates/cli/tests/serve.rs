//! `isorb serve` as a user runs it, called by `isorb call` and by a client of omniORB.

mod common;

use common::{Ended, Service, ended, isorb, run};
use isorb_testkit::{TempFolder, document};
use std::process::Command;
use std::time::{Duration, Instant};

const LAMP: &str = r#"
module Lab {
  exception Refused { string why; };
  struct Track { string name; long speed; };
  typedef sequence<Track> Tracks;
  typedef fixed<5,2> Money;
  interface Thing { readonly attribute string label; };
  interface Lamp : Thing {
    attribute long level;
    long paint(in Tracks seen, out string text, inout double x) raises (Refused);
    Lamp twin();
    Money price();
    oneway void blink(in long times);
    void slow();
  };
};
"#;

const RULES: &str = r#"
interface = "Lab::Lamp"

[[rule]]
operation = "paint"
when = { seen = [{ name = "bad" }] }
exception = "Refused"
members = { why = "bad" }

[[rule]]
operation = "paint"
when = { x = 2 }
times = 2
system_exception = "TRANSIENT"
minor = 7

[[rule]]
operation = "paint"
result = 5
out = { text = "hello", x = 1.5 }

[[rule]]
operation = "_get_label"
result = "lamp"

[[rule]]
operation = "_set_level"
when = { value = 3 }

[[rule]]
operation = "twin"
result = ""

[[rule]]
operation = "price"
result = "12.50"

[[rule]]
operation = "slow"
delay_ms = 300
"#;

struct Lamp {
    folder: TempFolder,
    service: Service,
}

fn folder(rules: &str) -> TempFolder {
    let folder = TempFolder::new();
    std::fs::write(folder.file("lamp.idl"), LAMP).unwrap();
    std::fs::write(folder.file("rules.toml"), rules).unwrap();
    folder
}

impl Lamp {
    fn start() -> Lamp {
        let folder = folder(RULES);
        let (idl, rules) = (folder.text("lamp.idl"), folder.text("rules.toml"));
        let service = Service::start(&["serve", "--idl", &idl, "--script", &rules]);
        Lamp { folder, service }
    }

    fn call(&self, arguments: &[&str]) -> Ended {
        let idl = self.folder.text("lamp.idl");
        run(&[&["call", "--idl", &idl, &self.service.url], arguments].concat())
    }

    fn answers(&self, arguments: &[&str], code: i32, output: &str) {
        let (is, text, error) = self.call(arguments);
        assert_eq!((is, text.trim_end()), (Some(code), output), "{arguments:?}: {error}");
    }
}

#[test]
fn the_first_rule_that_applies_answers() {
    let lamp = Lamp::start();
    let seen = r#"[{"name":"t1","speed":4}]"#;
    lamp.answers(&["paint", seen, "0"], 0, r#"{"result":5,"text":"hello","x":1.5}"#);
    let bad = r#"[{"name":"bad","speed":9}]"#;
    let raised = r#"{"exception":"IDL:Lab/Refused:1.0","members":{"why":"bad"}}"#;
    lamp.answers(&["paint", bad, "2"], 3, raised);
    lamp.answers(&["Lab::Thing::_get_label"], 0, "\"lamp\"");
    lamp.answers(&["_set_level", "3"], 0, "");
    lamp.answers(&["twin"], 0, "null");
    lamp.answers(&["price"], 0, "\"12.50\"");
}

#[test]
fn a_rule_applies_as_often_as_it_says() {
    let lamp = Lamp::start();
    for _ in 0..2 {
        let (code, _, error) = lamp.call(&["paint", "[]", "2"]);
        assert_eq!(code, Some(1));
        assert!(error.contains("TRANSIENT"), "{error}");
    }
    lamp.answers(&["paint", "[]", "2"], 0, r#"{"result":5,"text":"hello","x":1.5}"#);
}

#[test]
fn a_request_without_a_rule_is_refused() {
    let lamp = Lamp::start();
    for arguments in [&["_get_level"][..], &["_set_level", "4"]] {
        let (code, output, error) = lamp.call(arguments);
        assert_eq!((code, &*output), (Some(1), ""));
        assert!(error.contains("NO_IMPLEMENT"), "{error}");
    }
    lamp.answers(&["blink", "3"], 0, "");
}

#[test]
fn an_answer_is_delayed() {
    let lamp = Lamp::start();
    let begun = Instant::now();
    lamp.answers(&["slow"], 0, "");
    assert!(begun.elapsed() >= Duration::from_millis(300));
}

#[test]
fn errors_name_the_line_and_what_would_be_right() {
    // The interface is line 1, the rule begins on line 2, its operation is on line 3.
    for (rule, words) in [
        ("operation = \"pain\"", &[":3:", "no operation pain", "paint"][..]),
        ("operation = \"twin\"\nresult = 7", &[":4:", "result", "a text with its URL"]),
        ("operation = \"paint\"\nresult = 7", &[":2:", "string", "out = { text"]),
        ("operation = \"slow\"\nresult = 7", &[":4:", "slow has no result"]),
        ("operation = \"slow\"\nwhen = { x = 1 }", &[":4:", "no argument x"]),
        ("operation = \"slow\"\nout = { x = 1 }", &[":4:", "no parameter x"]),
        ("operation = \"slow\"\nexception = \"Refused\"", &[":4:", "raises no exceptions"]),
        ("operation = \"paint\"\nexception = \"X\"", &[":4:", "IDL:Lab/Refused:1.0"]),
        ("operation = \"paint\"\nexception = \"Refused\"", &[":4:", "why is missing"]),
        ("operation = \"slow\"\nsystem_exception = \"X\"", &[":4:", "TRANSIENT"]),
        ("operation = \"price\"\nresult = \"1.255\"", &[":4:", "fixed<5, 2>"]),
        ("operation = \"slow\"\ndelay_ms = 99999999", &[":4:", "at most 3600000"]),
        (
            "operation = \"price\"\nresult = \"1\"\nsystem_exception = \"UNKNOWN\"",
            &[":2:", "a rule has a result"],
        ),
        ("operation = \"slow\"\nnonsense = 1", &[":4:", "nonsense"]),
        ("operation = ", &[":3:"]),
    ] {
        let folder = folder(&format!("interface = \"Lab::Lamp\"\n[[rule]]\n{rule}\n"));
        refused(&folder, rule, words);
    }
    refused(&folder(""), "nothing", &[":1:", "there is no rule"]);
    let some = "[[rule]]\noperation = \"slow\"\n";
    refused(&folder(some), "several interfaces", &["interface = \"Lab::Thing\"", "Lab::Lamp"]);
    refused(&folder(&format!("interface = \"Lab::X\"\n{some}")), "another", &["no interface Lab::X"]);
}

fn refused(folder: &TempFolder, rule: &str, words: &[&str]) {
    let args = ["serve", "--idl", &folder.text("lamp.idl"), "--script", &folder.text("rules.toml")];
    let (code, output, error) = run(&args);
    assert_eq!((code, &*output), (Some(1), ""), "{rule}: {error}");
    assert!(words.iter().all(|word| error.contains(word)), "{rule}: {error}");
}

/// `nameclt` of omniORB is a client of a naming service that consists of two rules.
#[test]
fn a_client_of_omniorb_gets_the_answers() {
    if Command::new("nameclt").output().is_err() {
        eprintln!("skipped: there is no nameclt (Debian package omniorb)");
        return;
    }
    const IOR: &str = "corbaloc:iiop:1.2@192.0.2.7:99/lamp";
    let folder = TempFolder::new();
    std::fs::write(folder.file("n.idl"), "#include <CosNaming.idl>\n").unwrap();
    let rules = format!(
        r#"
interface = "CosNaming::NamingContext"
[[rule]]
operation = "resolve"
when = {{ n = [{{ id = "lamp" }}] }}
result = "{IOR}"
[[rule]]
operation = "resolve"
exception = "NotFound"
members = {{ why = "missing_node", rest_of_name = [{{ id = "x", kind = "" }}] }}
"#
    );
    std::fs::write(folder.file("rules.toml"), rules).unwrap();
    let args = ["serve", "--idl", &folder.text("n.idl"), "--script", &folder.text("rules.toml")];
    let service = Service::start(&args);
    let nameclt = |args: &[&str]| {
        let init = format!("NameService={}", service.url);
        let output = Command::new("nameclt").args(["-ORBInitRef", &init]).args(args).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    };
    let (good, text) = nameclt(&["resolve", "lamp"]);
    assert!(good && text.starts_with("IOR:"), "{text}");
    let (good, text) = nameclt(&["resolve", "other"]);
    assert!(!good && text.contains("NotFound"), "{text}");
}

/// The block of the guide in this language with this number.
fn block<'p>(page: &'p str, language: &str, number: usize) -> &'p str {
    let fence = format!("```{language}\n");
    page.split(&*fence).nth(1 + number).expect("a block").split("```").next().unwrap()
}

#[test]
fn the_guide_does_what_it_says() {
    let page = document("guides/stub-server.md");
    let folder = TempFolder::new();
    std::fs::write(folder.file("lamp.idl"), block(&page, "idl", 0)).unwrap();
    std::fs::write(folder.file("rules.toml"), block(&page, "toml", 0)).unwrap();
    let words = |line: &str| -> Vec<String> {
        let words = line.split_whitespace().skip(1).map(|word| word.trim_matches('\'').to_owned());
        words.map(|word| word.replace("$PWD", &folder.path().display().to_string())).collect()
    };
    let mut serve = isorb(&[]);
    serve.args(words(block(&page, "sh", 0).trim())).current_dir(folder.path());
    let _service = Service::of(&mut serve);
    let mut output = String::new();
    for line in block(&page, "sh", 1).lines() {
        let mut call = isorb(&[]);
        call.args(words(line)).current_dir(folder.path());
        let (code, text, error) = ended(call);
        assert_eq!(code, Some(0), "{line}: {error}");
        output += &text;
    }
    assert_eq!(output, block(&page, "text", 0));
    // The error at the end of the page.
    let wrong = block(&page, "toml", 0).replacen("\"set\"", "\"sett\"", 1);
    std::fs::write(folder.file("rules.toml"), wrong).unwrap();
    let mut serve = isorb(&["serve", "--idl", "lamp.idl", "--script", "rules.toml"]);
    let (_, _, error) = ended(serve.current_dir(folder.path()));
    assert_eq!(error.trim_end(), format!("isorb: {}", block(&page, "text", 1).trim_end()));
}
