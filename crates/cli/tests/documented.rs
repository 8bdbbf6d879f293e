//! Follows events.md and scheduling.md of the documents as a reader does: writes their files and
//! runs their commands in order.
//!
//! Only the ports differ, and files that other programs would have written.

mod common;

use common::{ISORB, Service, ended};
use isorb_testkit::{TempFolder, document};
use std::path::Path;
use std::process::Command;

/// The blocks of a page in this language, in order.
fn blocks<'p>(page: &'p str, language: &str) -> Vec<&'p str> {
    let fence = format!("```{language}\n");
    page.split(&*fence).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// The commands of a page's shell blocks, without their comments.
fn commands(page: &str) -> Vec<String> {
    let lines = blocks(page, "sh").into_iter().flat_map(str::lines);
    let commands = lines.map(|line| line.split(" #").next().unwrap().trim());
    commands.filter(|line| line.starts_with("isorb ")).map(str::to_owned).collect()
}

/// Follows a page.
struct Reader<'f> {
    folder: &'f TempFolder,
    /// What was started, and stays.
    services: Vec<Service>,
    /// What the page says, and what stands for it here; what was started last comes first.
    instead: Vec<(String, String)>,
}

impl Reader<'_> {
    fn command(&self, line: &str) -> Command {
        let line = self.instead.iter().fold(line.to_owned(), |line, (said, here)| line.replace(said, here));
        let mut command = Command::new(ISORB);
        command.args(line.split_whitespace().skip(1)).current_dir(self.folder.path());
        command
    }

    /// Runs a command to its end, or starts what serves.
    fn follow(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if !["event-channel", "scheduler", "naming"].contains(&words[1]) {
            let (code, _, error) = ended(&mut self.command(line));
            assert_eq!(code, Some(0), "{line}: {error}");
            return;
        }
        let after = |option: &str| words.iter().position(|word| *word == option).map(|at| words[at + 1]);
        let mut free = line.to_owned();
        for option in ["--port", "--admin", "--admin-also"] {
            if let Some(port) = after(option) {
                free = free.replace(&format!("{option} {port}"), &format!("{option} 0"));
            }
        }
        let service = Service::of(&mut self.command(&free));
        if let Some(port) = after("--port") {
            let (_, address) = service.url.split_once('@').unwrap();
            let (address, _) = address.split_once('/').unwrap();
            self.instead.insert(0, (format!("127.0.0.1:{port}/"), format!("{address}/")));
        }
        if words[1] == "scheduler" {
            let here = service.url.clone();
            self.instead.insert(0, ("corbaloc::127.0.0.1:PORT/ScheduleService".into(), here));
        }
        self.services.push(service);
    }
}

fn write(folder: &Path, name: &str, content: &[u8]) {
    std::fs::write(folder.join(name), content).unwrap();
}

#[test]
fn the_page_on_scheduling_does_what_it_says() {
    let folder = TempFolder::new();
    let page = document("scheduling.md");
    let schedule = blocks(&page, "toml")[0];
    write(folder.path(), "flight.toml", schedule.as_bytes());
    let mut reader = Reader { folder: &folder, services: Vec::new(), instead: Vec::new() };
    // What the text says of its file.
    for line in [
        "isorb sched check flight.toml",
        "isorb sched check --policy edf flight.toml",
        "isorb sched check --margins flight.toml",
        "isorb sched plot flight.toml",
    ] {
        reader.follow(line);
    }
    assert!(folder.path().join("flight.html").exists());
    let dearer = schedule.replace("cost = \"20 ms\"", "cost = \"120 ms\"");
    assert_ne!(dearer, schedule);
    write(folder.path(), "dear.toml", dearer.as_bytes());
    assert_eq!(ended(&mut reader.command("isorb sched check dear.toml")).0, Some(2));
    let later = schedule.replace("deadline = \"150 ms\"", "deadline = \"80 ms\"");
    write(folder.path(), "late.toml", later.as_bytes());
    assert_eq!(ended(&mut reader.command("isorb sched check late.toml")).0, Some(1));

    let naming = Service::start(&["naming", "--port", "0", "--memory"]);
    reader.instead.push(("corbaloc::127.0.0.1/NameService".into(), naming.url.clone()));
    let commands = commands(&page);
    assert!(commands.len() >= 5, "{commands:?}");
    for line in &commands {
        // The file that a recorded run leaves is the one above.
        reader.follow(line);
    }
    assert_eq!(reader.services.len(), 4, "two schedulers and two channels");
}

#[test]
fn the_page_on_events_does_what_it_says() {
    let folder = TempFolder::new();
    let mut reader = Reader { folder: &folder, services: Vec::new(), instead: Vec::new() };
    let commands = commands(&document("events.md"));
    assert!(commands.len() >= 9, "{commands:?}");
    for line in &commands {
        reader.follow(line);
        if line.starts_with("isorb demo avionics") {
            let flight = folder.path().join("flight");
            assert!(flight.join("timeline.html").exists() && flight.join("perfetto.json").exists());
            // What a program of the reader's would have recorded.
            for (name, recorded) in [("cockpit.trace", "mission.trace"), ("tail.trace", "pod.trace")] {
                std::fs::copy(flight.join(recorded), folder.path().join(name)).unwrap();
            }
        }
    }
    for made in ["flight.html", "flight.json"] {
        assert!(folder.path().join(made).exists(), "{made}");
    }
    assert!(reader.services.len() >= 5);
}
