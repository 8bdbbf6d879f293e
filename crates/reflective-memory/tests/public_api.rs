//! The service uses nothing of the ORB that is not public: neither what its documentation hides,
//! nor what is there for generated code only.
//!
//! What is private cannot be used, says the compiler. What is public and hidden could be: its names
//! are read from the ORB's crates, and looked for here.

use std::fs;
use std::path::{Path, PathBuf};

/// The ORB and what it re-exports.
const CRATES: [&str; 6] = ["orb", "giop", "cdr", "any", "scope", "transport"];

/// For generated code; public because that is in other crates.
const FOR_GENERATED_CODE: [&str; 1] = ["generated"];

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            into.push(path);
        }
    }
}

fn texts(name: &str) -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
    let mut files = Vec::new();
    sources(&folder, &mut files);
    files.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// The names of public items that `#[doc(hidden)]` stands before.
fn hidden(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut lines = text.lines().map(str::trim);
    while let Some(line) = lines.next() {
        if line != "#[doc(hidden)]" {
            continue;
        }
        let item = lines.by_ref().find(|line| !line.starts_with("#[") && !line.starts_with("//"));
        let Some(item) = item.filter(|item| item.starts_with("pub ")) else { continue };
        let words: Vec<&str> = item.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        let kinds = ["fn", "mod", "use", "struct", "enum", "trait", "type", "const", "static"];
        let kind = words.iter().position(|word| kinds.contains(word) && *word != "const");
        let kind = kind.or_else(|| words.iter().position(|word| *word == "const"));
        // Of a path that is re-exported, the last name.
        let rest = kind.map_or(&[][..], |kind| &words[kind + 1..]);
        let name =
            if words.contains(&"use") { rest.iter().rev().find(|w| !w.is_empty()) } else { rest.first() };
        names.push((*name.unwrap_or_else(|| panic!("which item is this: {item}"))).to_owned());
    }
    names
}

/// Where a text uses one of these names as an item of a path, or as a method.
fn uses<'a>(text: &str, names: &'a [String]) -> Vec<&'a str> {
    let code: String = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| line.chars().filter(|c| !c.is_whitespace()))
        .collect();
    let is_used = |name: &str| {
        code.match_indices(name).any(|(at, _)| {
            let after = code[at + name.len()..].chars().next();
            let ends = after.is_none_or(|c| !c.is_alphanumeric() && c != '_');
            let of_orb = code[..at].ends_with("isorb::") || in_braces(&code[..at]);
            // What is called on `self` is the service's own.
            let method = code[..at].ends_with('.') && !code[..at].ends_with("self.");
            ends && (of_orb || method)
        })
    };
    names.iter().map(String::as_str).filter(|name| is_used(name)).collect()
}

/// Is this the middle of `use isorb::{…`?
fn in_braces(before: &str) -> bool {
    let Some(begin) = before.rfind("useisorb::{") else { return false };
    !before[begin..].contains(';') && before.ends_with(['{', ','])
}

fn not_for_us() -> Vec<String> {
    let mut names: Vec<String> =
        CRATES.iter().flat_map(|name| texts(name)).flat_map(|(_, text)| hidden(&text)).collect();
    names.extend(FOR_GENERATED_CODE.map(str::to_owned));
    names
}

#[test]
fn the_service_uses_nothing_of_the_orb_that_is_not_public() {
    let names = not_for_us();
    assert!(names.len() > FOR_GENERATED_CODE.len(), "the ORB hides something: {names:?}");
    let files = texts("reflective-memory");
    assert!(files.iter().any(|(_, text)| text.contains("use isorb::")), "it uses the ORB");
    for (path, text) in files {
        let used = uses(&text, &names);
        assert!(used.is_empty(), "{} uses {used:?}, which the ORB hides", path.display());
    }
}

#[test]
fn who_does_is_found() {
    let names = hidden(
        "#[doc(hidden)]\npub use zerocopy;\n #[doc(hidden)]\n #[inline]\n pub const fn inner(&self) {}\n#[doc(hidden)]\npub mod plumbing {\n#[doc(hidden)]\nfn private() {}",
    );
    assert_eq!(names, ["zerocopy", "inner", "plumbing"]);
    for bad in [
        "use isorb::zerocopy::FromBytes;",
        "fn f(orb: &Orb) { orb.inner(); }",
        "use isorb::{Orb,\n    plumbing::Pipe};",
        "let x = isorb :: plumbing :: new();",
    ] {
        assert_eq!(uses(bad, &names).len(), 1, "{bad}");
    }
    for good in [
        "use isorb::{Orb, Any};\nuse other::plumbing;",
        "// orb.inner()",
        "orb.inner_most()",
        "fn inner() {}",
        "self.inner()",
    ] {
        assert_eq!(uses(good, &names), [""; 0], "{good}");
    }
    // One that is there, and one that generated code uses.
    let names = not_for_us();
    assert_eq!(uses("use isorb::zerocopy::IntoBytes; isorb::generated::Call", &names).len(), 2);
}
