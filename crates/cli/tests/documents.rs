//! The documents name every command and key of the program, and their links lead somewhere.

use isorb_testkit::{documents, repository};
use std::collections::HashSet;
use std::path::Path;

fn text(path: impl AsRef<Path>) -> String {
    let path = repository().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The text between backquotes and in fenced blocks.
fn code(document: &str) -> String {
    let mut fenced = false;
    let mut found = String::new();
    for line in document.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if fenced {
            found += line;
        } else {
            found.extend(line.split('`').skip(1).step_by(2).flat_map(|code| [code, " "]));
        }
        found.push('\n');
    }
    found
}

#[test]
fn every_command_of_the_tool_stands_in_the_readme() {
    let help = std::process::Command::new(env!("CARGO_BIN_EXE_isorb")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let commands = help.split("Commands:").nth(1).unwrap().split("\n\n").next().unwrap();
    let names: Vec<&str> = commands.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.contains(&"event-channel") && names.contains(&"demo"), "{names:?}");
    let readme = code(&text("README.md"));
    let words: HashSet<&str> = readme.split(|c: char| !(c.is_alphanumeric() || c == '-')).collect();
    let missing: Vec<&&str> =
        names.iter().filter(|name| **name != "help" && !words.contains(**name)).collect();
    assert!(missing.is_empty(), "README.md does not name {missing:?}");
}

/// The anchor that GitHub makes from a heading.
fn anchor(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    heading
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || "-_".contains(c) => Some(c),
            _ => None,
        })
        .collect()
}

#[test]
fn every_link_between_the_documents_leads_somewhere() {
    let mut links = 0;
    for document in documents() {
        let content = text(&document);
        let targets = content.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.contains("://") && !target.contains(' ')) {
            links += 1;
            let (path, section) = target.split_once('#').map_or((target, None), |(p, s)| (p, Some(s)));
            let file = match path {
                "" => document.clone(),
                path => document.parent().unwrap().join(path),
            };
            let told = format!("{}: {target}", document.display());
            assert!(repository().join(&file).exists(), "{told}: there is no such file");
            if let Some(section) = section {
                let there = text(&file);
                let mut headings = there.lines().filter(|line| line.starts_with('#'));
                assert!(headings.any(|heading| anchor(heading) == section), "{told}: no such section");
            }
        }
    }
    assert!(links > 40, "{links} links were looked at");
}

#[test]
fn every_path_in_the_documents_exists() {
    let mut paths = 0;
    for document in documents() {
        let content = text(&document);
        let words = content.split('`').skip(1).step_by(2).filter(|word| !word.contains(char::is_whitespace));
        for path in words.filter(|word| word.starts_with("crates/") || word.starts_with("examples/")) {
            paths += 1;
            assert!(repository().join(path).exists(), "{}: there is no {path}", document.display());
        }
    }
    assert!(paths > 40, "{paths} paths were looked at");
}
