//! The pages on events and scheduling, followed by hand: their files are written and their commands
//! run in order, in a folder of their own.
//!
//! Only ports, and the files that other programs would leave behind, differ.

mod common;

use common::{ISORB, Service, ended};
use isorb_testkit::{Process, TempFolder, document, wait_until};
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
    /// Writers that go on.
    writers: Vec<Process>,
}

impl Reader<'_> {
    fn command(&self, line: &str) -> Command {
        let line =
            self.instead.iter().fold(line.to_owned(), |line, (message, here)| line.replace(message, here));
        let mut command = Command::new(ISORB);
        let words = line.split_whitespace().skip(1).map(|word| word.trim_matches('\''));
        command.args(words).current_dir(self.folder.path());
        command
    }

    /// Runs a command to its end, or starts what serves.
    fn follow(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.contains(&"--period") {
            self.writers.push(Process::unread(&mut self.command(line)));
            // A reader is slower than a test: the writer has written when the next command runs.
            let dump = format!("isorb memory {} {} dump {}", words[2], words[3], words[5]);
            wait_until("the writer writes", || ended(&mut self.command(&dump)).0 == Some(0));
            return;
        }
        let services = ["event-channel", "scheduler", "naming", "memory-coordinator", "memory-server"];
        if !services.contains(&words[1]) {
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
        if let Some(named) = after("--processors") {
            // This machine may have others.
            let usable = isorb_rt::sched::current_cpus().unwrap();
            let usable: Vec<String> = usable.iter().map(|processor| processor.to_string()).collect();
            free = free.replace(named, &usable.join(","));
        }
        if words[1] == "memory-coordinator" {
            free += " --port 0";
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
        if words[1] == "memory-coordinator" {
            let here = service.url.clone();
            self.instead.insert(0, ("corbaloc::1.2@127.0.0.1:2810/ReflectiveMemory".into(), here));
        }
        self.services.push(service);
    }
}

fn write(folder: &Path, name: &str, content: &[u8]) {
    std::fs::write(folder.join(name), content).unwrap();
}

/// Follows all commands of a page, of which there must be `least` or more.
fn follow(reader: &mut Reader<'_>, page: &str, least: usize) {
    let commands = commands(page);
    assert!(commands.len() >= least, "{commands:?}");
    for line in &commands {
        reader.follow(line);
    }
}

fn reader(folder: &TempFolder) -> Reader<'_> {
    Reader { folder, services: Vec::new(), instead: Vec::new(), writers: Vec::new() }
}

#[test]
fn the_tutorial_on_scheduling_does_what_it_says() {
    let page = document("tutorials/scheduling.md");
    let folder = TempFolder::new();
    let schedule = blocks(&page, "toml")[0];
    write(folder.path(), "flight.toml", schedule.as_bytes());
    let mut reader = reader(&folder);
    follow(&mut reader, &page, 4);
    assert!(folder.path().join("flight.html").exists());
    let dearer = schedule.replace("cost = \"20 ms\"", "cost = \"120 ms\"");
    assert_ne!(dearer, schedule);
    write(folder.path(), "dear.toml", dearer.as_bytes());
    assert_eq!(ended(&mut reader.command("isorb sched check dear.toml")).0, Some(2));
    let late = schedule.replace("deadline = \"150 ms\"", "deadline = \"20 ms\"");
    assert_ne!(late, schedule);
    write(folder.path(), "late.toml", late.as_bytes());
    assert_eq!(ended(&mut reader.command("isorb sched check late.toml")).0, Some(1));
}

#[test]
fn the_guide_to_the_scheduling_service_does_what_it_says() {
    let folder = TempFolder::new();
    write(folder.path(), "flight.toml", blocks(&document("reference/scheduling.md"), "toml")[0].as_bytes());
    let naming = Service::start(&["naming", "--port", "0", "--memory"]);
    let mut reader = reader(&folder);
    reader.instead.push(("corbaloc::127.0.0.1/NameService".into(), naming.url.clone()));
    // The file that a recorded run leaves is the one above.
    follow(&mut reader, &document("guides/scheduling-service.md"), 5);
    assert_eq!(reader.services.len(), 5, "two schedulers and three channels");
}

#[test]
fn the_tour_of_the_mission_computer_does_what_it_says() {
    let folder = TempFolder::new();
    let mut reader = reader(&folder);
    follow(&mut reader, &document("tutorials/mission-computer.md"), 2);
    for made in ["flight/timeline.html", "flight/perfetto.json", "flight.html", "flight.json"] {
        assert!(folder.path().join(made).exists(), "{made}");
    }
}

#[test]
fn the_pages_on_event_channels_do_what_they_say() {
    let folder = TempFolder::new();
    write(folder.path(), "flight.toml", blocks(&document("reference/scheduling.md"), "toml")[0].as_bytes());
    let mut reader = reader(&folder);
    follow(&mut reader, &document("tutorials/events.md"), 8);
    let recorded = std::fs::read(folder.path().join("flight.events")).unwrap();
    let mut recorded = isorb_event_file::Reader::new(&recorded[..]).unwrap();
    let mut events = 0;
    while let Some(record) = recorded.next().unwrap() {
        events += usize::from(matches!(record, isorb_event_file::Record::Event(_)));
    }
    assert_eq!(events, 3, "as the page says");
    let kept = ended(&mut reader.command("isorb event ls corbaloc::127.0.0.1:4201/EventService")).1;
    assert!(
        kept.split_whitespace().collect::<Vec<_>>().windows(3).any(|row| row == ["16", "1", "6"]),
        "{kept}"
    );
    follow(&mut reader, &document("guides/event-channel.md"), 6);
    follow(&mut reader, &document("guides/federation.md"), 2);
    follow(&mut reader, &document("guides/admission.md"), 1);
    assert!(folder.path().join("flight.html").exists());
    assert!(reader.services.len() >= 7);
}

#[test]
fn the_guide_to_naming_does_what_it_says() {
    let folder = TempFolder::new();
    let mut reader = reader(&folder);
    follow(&mut reader, &document("guides/naming.md"), 1);
    assert!(folder.path().join("naming.redb").exists());
}

#[test]
fn the_tutorial_on_reflective_memory_does_what_it_says() {
    let page = document("tutorials/reflective-memory.md");
    let folder = TempFolder::new();
    write(folder.path(), "plant.idl", blocks(&page, "idl")[0].as_bytes());
    let mut reader = reader(&folder);
    follow(&mut reader, &page, 11);
    assert_eq!((reader.services.len(), reader.writers.len()), (3, 1));
}

#[test]
fn the_tutorial_on_dynamic_calls_does_what_it_says() {
    let page = document("tutorials/dynamic-calls.md");
    let folder = TempFolder::new();
    write(folder.path(), "names.idl", blocks(&page, "idl")[0].as_bytes());
    let mut reader = reader(&folder);
    follow(&mut reader, &page, 5);
    let list = commands(&page).pop().unwrap();
    assert_eq!(ended(&mut reader.command(&list)).1, blocks(&page, "text")[0]);
}
