//! What held, as a table for people and for the page on reliability.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;

use super::Tried;
use super::plan::{Kind, Made};
use super::trial::Outcome;

/// Lines between which the page has the table.
const BEGIN: &str = "<!-- isorb-bench campaign: begin -->";
const END: &str = "<!-- isorb-bench campaign: end -->";

/// What was tried in a row, and how often it held.
#[derive(Default)]
struct Row {
    errors: Vec<&'static str>,
    all: u32,
    held: u32,
}

/// The rows: service, system call and kind of fault, with the errors, the tried and the held ones.
pub fn table(tried: &[Tried]) -> String {
    let mut rows: BTreeMap<(&str, &str, Kind), Row> = BTreeMap::new();
    for one in tried.iter().filter(|one| one.outcome != Outcome::NotReached) {
        let key = (one.subject.name(), one.fault.call, one.fault.made.kind());
        let Row { errors, all, held } = rows.entry(key).or_default();
        if let Made::Once(error, _) | Made::Lasts(error) = one.fault.made
            && !errors.contains(&error)
        {
            errors.push(error);
        }
        *all += 1;
        *held += u32::from(one.outcome == Outcome::Held);
    }
    let mut text =
        String::from("| service | system call or limit | fault | tried | held |\n|---|---|---|---|---|\n");
    for ((subject, call, kind), Row { errors, all, held }) in rows {
        let fault = match kind {
            Kind::Once => format!("fails once: {}", errors.join(", ")),
            Kind::Lasts => format!("fails for a while: {}", errors.join(", ")),
            Kind::Killed => "`kill -9` in front of it".to_owned(),
            Kind::Limited => "no more for a while".to_owned(),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "| {subject} | `{call}` | {fault} | {all} | {held} |");
    }
    text
}

/// Puts a text between the marks of a page.
///
/// # Errors
/// The page cannot be read or written, or has no marks.
pub fn into_page(page: &Path, begin: &str, end: &str, text: &str) -> io::Result<()> {
    let whole = fs::read_to_string(page)?;
    let marks = whole.find(begin).zip(whole.find(end)).filter(|(from, to)| from < to);
    let Some((from, to)) = marks else {
        let missing = format!("{}: the lines {begin} and {end} are missing", page.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, missing));
    };
    let (head, tail) = (&whole[..from + begin.len()], &whole[to..]);
    fs::write(page, format!("{head}\n\n{}\n\n{tail}", text.trim()))
}

/// Puts the table of a campaign into a page.
///
/// # Errors
/// As [`into_page`].
pub fn publish(page: &Path, text: &str) -> io::Result<()> {
    into_page(page, BEGIN, END, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::campaign::plan::{Fault, Serves};
    use crate::faults::limits::Limit;
    use crate::faults::subjects::Subject;

    fn tried(call: &'static str, made: Made, outcome: Outcome) -> Tried {
        let fault = Fault { call, serves: Serves::Store, made };
        Tried { subject: Subject::Naming, fault, outcome }
    }

    #[test]
    fn a_row_counts_what_was_reached_and_what_held() {
        let all = [
            tried("pwrite64", Made::Once("ENOSPC", 1), Outcome::Held),
            tried("pwrite64", Made::Once("EIO", 2), Outcome::Broken("why".into())),
            tried("pwrite64", Made::Once("ENOSPC", 9), Outcome::NotReached),
            tried("pwrite64", Made::Lasts("ENOSPC"), Outcome::Held),
            tried("fsync", Made::Killed(1), Outcome::Held),
            tried("RLIMIT_FSIZE", Made::Limited(Limit::FileSize), Outcome::Held),
        ];
        let rows: Vec<String> = table(&all).lines().skip(2).map(str::to_owned).collect();
        assert_eq!(
            rows,
            [
                "| naming | `RLIMIT_FSIZE` | no more for a while | 1 | 1 |",
                "| naming | `fsync` | `kill -9` in front of it | 1 | 1 |",
                "| naming | `pwrite64` | fails once: ENOSPC, EIO | 2 | 1 |",
                "| naming | `pwrite64` | fails for a while: ENOSPC | 1 | 1 |",
            ]
        );
    }

    #[test]
    fn the_page_keeps_what_stands_around_the_marks() {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("page.md");
        fs::write(&page, format!("# One\n{BEGIN}\nold\n{END}\nlast\n")).unwrap();
        publish(&page, "new\n").unwrap();
        publish(&page, "newer").unwrap();
        assert_eq!(fs::read_to_string(&page).unwrap(), format!("# One\n{BEGIN}\n\nnewer\n\n{END}\nlast\n"));
        fs::write(&page, "no marks").unwrap();
        assert!(publish(&page, "new").unwrap_err().to_string().contains("are missing"));
    }
}
