//! The documents name every command and key of the program, and their links lead somewhere.

use isorb_testkit::{documents, repository};
use std::collections::{HashMap, HashSet};
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

/// Crates with unsafe code, which ARCHITECTURE.md names under its rules.
const UNSAFE: [&str; 5] = ["memory-area", "reflective-memory-c", "rt", "scope", "transport"];

#[test]
fn all_other_crates_forbid_unsafe_code() {
    let mut without: Vec<String> = Vec::new();
    for folder in std::fs::read_dir(repository().join("crates")).unwrap().map(|entry| entry.unwrap().path()) {
        let roots = ["src/lib.rs", "src/main.rs"].map(|root| folder.join(root));
        let forbids = |root: &std::path::PathBuf| text(root).contains("#![forbid(unsafe_code)]\n");
        if !roots.iter().filter(|root| root.exists()).all(forbids) {
            without.push(folder.file_name().unwrap().to_str().unwrap().to_owned());
        }
    }
    without.sort();
    assert_eq!(without, UNSAFE);
    let rules = text("ARCHITECTURE.md");
    let rules = rules.split("## Rules that hold everywhere").nth(1).unwrap();
    assert!(UNSAFE.iter().all(|name| rules.contains(&format!("`isorb-{name}`"))), "{rules}");
}

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

/// The lines of fenced blocks, and the texts between backquotes.
fn commands(document: &str) -> Vec<&str> {
    let mut fenced = false;
    let mut found = Vec::new();
    for line in document.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if fenced {
            found.push(line);
        } else {
            found.extend(line.split('`').skip(1).step_by(2));
        }
    }
    found
}

/// The choices of the options that have some, of all commands.
fn choices() -> HashMap<String, HashSet<String>> {
    let tree = std::process::Command::new(env!("CARGO_BIN_EXE_isorb")).arg("command-tree").output().unwrap();
    let mut choices: HashMap<String, HashSet<String>> = HashMap::new();
    for command in String::from_utf8(tree.stdout).unwrap().lines() {
        let command: serde_json::Value = serde_json::from_str(command).unwrap();
        for argument in command["arguments"].as_array().unwrap() {
            let (Some(option), Some(values)) = (argument["long"].as_str(), argument["choices"].as_array())
            else {
                continue;
            };
            let values = values.iter().filter_map(|value| value.as_str()).map(str::to_owned);
            choices.entry(option.to_owned()).or_default().extend(values);
        }
    }
    choices
}

/// How many choices a command makes, and those that no command of the tool offers.
fn wrong_choices(command: &str, choices: &HashMap<String, HashSet<String>>) -> (usize, Vec<String>) {
    let mut looked_at = 0;
    let mut wrong = Vec::new();
    for (_, rest) in command.match_indices("--").map(|(at, dashes)| command.split_at(at + dashes.len())) {
        let name = |text: &str| -> String {
            text.chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect()
        };
        let option = name(rest);
        let Some(offered) = choices.get(&option).filter(|offered| !offered.is_empty()) else { continue };
        let value = rest[option.len()..].trim_start_matches(['=', ' ']);
        let chosen = name(value);
        if rest.len() - option.len() > value.len() && !chosen.is_empty() && !chosen.starts_with('-') {
            looked_at += 1;
            if !offered.contains(&chosen) {
                wrong.push(format!("--{option} {chosen}"));
            }
        }
    }
    (looked_at, wrong)
}

#[test]
fn the_choices_in_the_documents_are_those_of_the_commands() {
    let choices = choices();
    assert!(choices["dispatching"].contains("threads"), "{choices:?}");
    let mut looked_at = 0;
    for document in documents().iter().filter(|document| !document.ends_with("CHANGELOG.md")) {
        for command in commands(&text(document)) {
            let (found, wrong) = wrong_choices(command, &choices);
            looked_at += found;
            assert!(wrong.is_empty(), "{}: {wrong:?} in {command}", document.display());
        }
    }
    assert!(looked_at > 10, "{looked_at} choices were looked at");
    // The control.
    let pages = "isorb event-channel --dispatching direct --full=block";
    assert_eq!(wrong_choices(pages, &choices), (2, vec!["--dispatching direct".into()]));
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
