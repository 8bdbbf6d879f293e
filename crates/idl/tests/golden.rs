//! Golden files: good IDL against the dump of its model, bad IDL against its diagnostics.
//!
//! Each `.idl` file under `tests/golden` holds many cases. A line `//// name` begins a case; in it,
//! `//// file: path` begins a further file that the case can include. What a case must give stands
//! in the `.txt` file beside it. Set `ISORB_BLESS=1` to write what is given now, and read the
//! difference before committing it.

use isorb_idl::{MemoryLoader, Options, Severity, compile_with};
use std::fmt::Write;
use std::path::{Path, PathBuf};

struct Case {
    name: String,
    files: Vec<(String, String)>,
}

fn cases(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in text.split_inclusive('\n') {
        let mark = line.trim_end().strip_prefix("//// ");
        match (mark, cases.last_mut()) {
            (Some(mark), Some(case)) if mark.starts_with("file: ") => {
                case.files.push((mark["file: ".len()..].to_owned(), String::new()));
            }
            (Some(mark), _) => {
                let files = vec![("main.idl".to_owned(), String::new())];
                cases.push(Case { name: mark.to_owned(), files });
            }
            (None, Some(case)) => case.files.last_mut().expect("a case has a file").1.push_str(line),
            (None, None) => {}
        }
    }
    cases
}

/// Bad files are compiled strictly, so that each broken rule has its case among them.
fn options(strict: bool) -> Options {
    Options {
        include_dirs: vec![PathBuf::from("inc")],
        defines: vec![("FROM_COMMAND_LINE".to_owned(), "42".to_owned())],
        embedded: Some(|name| (name == "standard.idl").then_some("module Standard { typedef long T; };\n")),
        strict,
        ..Options::default()
    }
}

/// Compiles every case of a folder and compares; returns (case name, whether it had errors, its
/// rendering).
fn run(folder: &str) -> Vec<(String, bool, usize)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(folder);
    let bless = std::env::var_os("ISORB_BLESS").is_some();
    let mut results = Vec::new();
    let mut wrong = Vec::new();
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(&root).expect("the folder exists").map(|e| e.unwrap().path()).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "idl"));
    paths.sort();
    for path in paths {
        let mut given = String::new();
        for case in cases(&std::fs::read_to_string(&path).expect("the file is text")) {
            let loader =
                case.files.into_iter().fold(MemoryLoader::new(), |l, (name, text)| l.with(name, text));
            let outcome = compile_with(&options(folder == "bad"), &loader, Path::new("main.idl"));
            let errors = outcome.diagnostics.iter().filter(|d| d.severity == Severity::Error).count();
            let _ = writeln!(given, "//// {}\n{}", case.name, outcome.render(false));
            if let Some(spec) = outcome.spec {
                let _ = writeln!(given, "{}", spec.dump());
            }
            results.push((case.name, errors > 0, errors));
        }
        let golden = path.with_extension("txt");
        if bless {
            std::fs::write(&golden, given).expect("the golden file can be written");
        } else if std::fs::read_to_string(&golden).unwrap_or_default() != given {
            wrong.push((golden, given));
        }
    }
    if let Some((golden, given)) = wrong.first() {
        panic!("{} files differ; the first is {}, which should be:\n{given}", wrong.len(), golden.display());
    }
    results
}

#[test]
fn good_specifications_give_their_model() {
    for (name, failed, _) in run("good") {
        assert!(!failed, "`{name}` should compile");
    }
}

#[test]
fn bad_specifications_give_their_diagnostics() {
    let results = run("bad");
    for (name, failed, _) in &results {
        assert!(failed, "`{name}` should not compile");
    }
    assert!(results.len() >= 80, "only {} bad cases", results.len());
}

/// The cases are written so that one mistake gives one error; those with several say so in their
/// name.
#[test]
fn one_mistake_gives_one_error() {
    let mut chatty = run("bad");
    chatty.retain(|(name, _, errors)| *errors != 1 && !name.contains("several"));
    assert!(chatty.is_empty(), "{chatty:#?}");
}
