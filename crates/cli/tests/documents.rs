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
            let link = format!("{}: {target}", document.display());
            assert!(repository().join(&file).exists(), "{link}: there is no such file");
            if let Some(section) = section {
                let there = text(&file);
                let mut headings = there.lines().filter(|line| line.starts_with('#'));
                assert!(headings.any(|heading| anchor(heading) == section), "{link}: no such section");
            }
        }
    }
    assert!(links > 40, "{links} links were looked at");
}

/// Folders at the top, from which documents name paths.
const FOLDERS: [&str; 9] =
    ["crates/", "docs/", "engines/", "examples/", "fuzz/", "idl/", "interop/", "packaging/", "tools/"];

#[test]
fn every_path_in_the_documents_exists() {
    let mut paths = 0;
    for document in documents() {
        let content = text(&document);
        let words = content.split('`').skip(1).step_by(2).filter(|word| !word.contains(char::is_whitespace));
        // The change log tells of files as they were.
        let words = words.filter(|_| !document.ends_with("CHANGELOG.md"));
        for path in words.filter(|word| FOLDERS.iter().any(|folder| word.starts_with(folder))) {
            paths += 1;
            // A page in a folder may name paths from that folder on.
            let mut folders = [Path::new(""), document.parent().unwrap()].into_iter();
            let found = folders.any(|folder| repository().join(folder).join(path).exists());
            assert!(found, "{}: there is no {path}", document.display());
        }
    }
    assert!(paths > 40, "{paths} paths were looked at");
}

/// All Rust of the crates.
fn sources(folder: &Path, into: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push_str(&text(&path));
        }
    }
}

#[test]
fn what_the_migration_guides_offer_exists() {
    let mut rust = String::new();
    for crates in std::fs::read_dir(repository().join("crates")).unwrap() {
        sources(&crates.unwrap().path().join("src"), &mut rust);
    }
    let words = |text: &str| -> HashSet<String> {
        text.split(|c: char| !(c.is_alphanumeric() || c == '_')).map(str::to_owned).collect()
    };
    let (known, arguments) = (words(&rust), words(&text("docs/reference/configuration.md")));
    let missing = |line: &str| -> Vec<String> {
        // The last column has what isorb offers.
        let offered = code(line.trim_end_matches('|').rsplit('|').next().unwrap_or_default());
        let of_code = |word: &&String| word.contains('_') && !known.contains(*word);
        let of_orb = |word: &&String| word.starts_with("ORB") && !arguments.contains(*word);
        let names = words(&offered);
        names.iter().filter(|word| of_code(word) || of_orb(word)).cloned().collect()
    };
    let mut lines = 0;
    for guide in ["docs/guides/from-tao.md", "docs/guides/from-omniorb.md"] {
        for line in text(guide).lines().filter(|line| line.starts_with('|')) {
            lines += 1;
            let missing = missing(line);
            assert!(missing.is_empty(), "{guide}: {missing:?} in {line}");
        }
    }
    assert!(lines > 100, "{lines} lines");
    let faq = text("docs/guides/faq.md");
    // A row may have several columns with code; what is asked is never the last.
    for line in faq.lines() {
        let missing = missing(&line.replace('|', " "));
        assert!(missing.is_empty(), "docs/guides/faq.md: {missing:?} in {line}");
    }
    // The control.
    assert_eq!(missing("| `x` | `no_such_key`, `-ORBNothing` |").len(), 2);
}

#[test]
fn the_index_names_every_page() {
    let index = text("docs/README.md");
    let pages =
        documents().into_iter().filter(|page| page.starts_with("docs") && !page.ends_with("README.md"));
    let pages: Vec<_> = pages.collect();
    assert!(pages.len() > 40, "{pages:?}");
    let is_missing = |page: &&std::path::PathBuf| {
        !index.contains(&format!("({})", page.strip_prefix("docs").unwrap().display()))
    };
    let missing: Vec<_> = pages.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "docs/README.md does not name {missing:?}");
}

/// The last cell of each row of a page's tables.
fn last_cells(page: &str) -> Vec<String> {
    let page = text(page);
    let rows = page.lines().filter(|line| line.starts_with('|'));
    rows.filter_map(|row| Some(row.trim_end_matches('|').rsplit_once('|')?.1.to_owned())).collect()
}

fn marked(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[test]
fn every_experiment_of_a_paper_is_described() {
    let described = text("docs/reference/experiments.md");
    let described: HashSet<&str> = marked(&described).collect();
    let cells = last_cells("docs/papers.md");
    let named: Vec<&str> = cells.iter().flat_map(|cell| marked(cell)).collect();
    assert!(named.len() > 20, "{named:?}");
    let unknown: Vec<_> = named.iter().filter(|name| !described.contains(**name)).collect();
    assert!(unknown.is_empty(), "docs/papers.md names experiments that are not described: {unknown:?}");
}
