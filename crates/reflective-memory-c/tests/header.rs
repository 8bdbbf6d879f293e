//! The header is that of the library: functions with their arguments, numbers, layouts.

use isorb_crm::*;
use isorb_testkit::{TempFolder, compiles};
use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::Command;

const HEADER: &str = include_str!("../include/isorb_crm.h");
const SOURCES: [&str; 6] = [
    include_str!("../src/reader.rs"),
    include_str!("../src/result.rs"),
    include_str!("../src/session.rs"),
    include_str!("../src/sets.rs"),
    include_str!("../src/types.rs"),
    include_str!("../src/writer.rs"),
];

/// Without comments.
fn code(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The functions that the header declares, with the names of their arguments.
fn declared() -> BTreeMap<String, Vec<String>> {
    let text = code(HEADER);
    let of_statement = |statement: &str| {
        let (before, arguments) = statement.split_once('(')?;
        let last_word = |text: &str| {
            let word = text.trim().rsplit(|c: char| !c.is_alphanumeric() && c != '_').next();
            word.unwrap_or_default().to_owned()
        };
        let name = last_word(before);
        let arguments = arguments.trim_end().trim_end_matches(')');
        let names = arguments.split(',').map(last_word).filter(|name| !name.is_empty() && name != "void");
        name.starts_with("isorb_crm_").then(|| (name, names.collect()))
    };
    text.split(';').filter_map(of_statement).collect()
}

/// The functions that the library exports, by its sources.
fn defined() -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    for source in SOURCES.map(code) {
        for part in source.split("extern \"C\" fn ").skip(1) {
            let (name, rest) = part.split_once('(').unwrap();
            let (arguments, _) = rest.split_once(')').unwrap();
            let names = arguments.split(',').filter_map(|argument| argument.split_once(':'));
            found.insert(name.to_owned(), names.map(|(name, _)| name.trim().to_owned()).collect());
        }
    }
    found
}

#[test]
fn every_function_is_declared_with_its_arguments() {
    let defined = defined();
    assert!(defined.len() > 20 && defined.contains_key("isorb_crm_open"), "{defined:?}");
    assert_eq!(declared(), defined);
}

#[test]
fn every_number_is_defined() {
    let mut numbers: Vec<(String, String)> = Vec::new();
    for source in SOURCES.map(code) {
        for line in source.lines().filter_map(|line| line.trim().strip_prefix("pub const ISORB_CRM_")) {
            let (name, rest) = line.split_once(':').unwrap();
            let number = rest.split_once("= ").unwrap().1.trim_end_matches(';');
            numbers.push((format!("ISORB_CRM_{name}"), number.to_owned()));
        }
    }
    numbers.sort();
    let defined = HEADER.lines().filter_map(|line| line.strip_prefix("#define ISORB_CRM_")?.split_once(' '));
    let mut defined: Vec<(String, String)> = defined
        .map(|(name, number)| (format!("ISORB_CRM_{name}"), number.trim().to_owned()))
        .filter(|(name, _)| name != "ISORB_CRM_H")
        .collect();
    defined.sort();
    assert!(numbers.len() > 30, "{numbers:?}");
    assert_eq!(defined, numbers);
}

/// C's opinion of the layout of each structure.
macro_rules! layouts {
    ($($structure:ident { $($member:ident),* })*) => {
        [$(
            format!("_Static_assert(sizeof({0}) == {1}, \"{0}\");\n", stringify!($structure), size_of::<$structure>())
            $(+ &format!(
                "_Static_assert(offsetof({0}, {1}) == {2}, \"{0}.{1}\");\n",
                stringify!($structure), stringify!($member), offset_of!($structure, $member),
            ))*
        ),*].concat()
    };
}

#[test]
fn structures_lie_as_in_rust() {
    let asserts = layouts! {
        isorb_crm_session { handle }
        isorb_crm_writer { handle }
        isorb_crm_reader { handle }
        isorb_crm_area_set { handle }
        isorb_crm_strongest { handle }
        isorb_crm_candidate { name, strength, reserved }
        isorb_crm_type { kind, id, definition }
        isorb_crm_area { name, size, histories, values }
        isorb_crm_writer_qos { period_ns, size, reserved }
        isorb_crm_reader_qos { mode, path, period_ns, deadline_ns, histories, guaranteed, parity, reserved }
        isorb_crm_sample { len, number, source, writer, missed, age_ns, age_bound_ns }
        isorb_crm_lease { data, len, lease }
        isorb_crm_statistics {
            state, reserved, values, lost, skipped, recovered, ignored, stale, silent, worst_age_ns, age_bound_ns
        }
    };
    let structures = HEADER.matches("typedef struct").count();
    assert_eq!(asserts.matches("sizeof").count(), structures, "each structure of the header is compared");
    let folder = TempFolder::new();
    let source = folder.file("layouts.c");
    std::fs::write(&source, format!("#include \"isorb_crm.h\"\n{asserts}")).unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    compiles(Command::new("cc").args(["-std=c11", "-fsyntax-only", "-I"]).arg(include).arg(source));
}

#[test]
fn the_shared_library_exports_every_function() {
    let library = std::env::current_exe().unwrap().with_file_name("libisorb_crm.so");
    let output = match Command::new("nm").args(["-D", "--defined-only"]).arg(&library).output() {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: nm does not run ({error}); apt-get install binutils");
            return;
        }
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let exported = text.lines().filter_map(|line| line.split_whitespace().last());
    let mut exported: Vec<&str> = exported.filter(|name| name.starts_with("isorb_crm_")).collect();
    exported.sort_unstable();
    assert_eq!(exported, declared().keys().map(String::as_str).collect::<Vec<_>>());
}
