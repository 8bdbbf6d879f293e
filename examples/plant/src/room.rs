//! The whole control room: starts the processes, kills one plant, then the server of its node, and
//! waits for the displays.

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A child process; killed at the end.
struct Part(Child);

impl Part {
    /// Starts a process of this program.
    fn start(arguments: &[&str]) -> Result<(Part, String), Box<dyn Error>> {
        Part::start_program(&std::env::current_exe()?, arguments)
    }

    /// Starts a process and waits until it is ready. Returns the text of its READY line.
    fn start_program(program: &Path, arguments: &[&str]) -> Result<(Part, String), Box<dyn Error>> {
        let mut child = Command::new(program).args(arguments).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().ok_or("no output")?;
        let part = Part(child);
        let mut line = String::new();
        let mut output = BufReader::new(output);
        output.read_line(&mut line)?;
        let printed = line
            .trim()
            .strip_prefix("READY ")
            .ok_or_else(|| format!("{arguments:?} did not start"))?
            .to_string();
        // Passes its later output on.
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                println!("{line}");
            }
        });
        Ok((part, printed))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The folder of the servers' sockets, removed at the end.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs the room, with one more display if there is a program of one (`display.cc`).
pub fn run(cpp_display: Option<&str>) -> Result<(), Box<dyn Error>> {
    let folder = Folder(std::env::temp_dir().join(format!("isorb-plant-{}", std::process::id())));
    std::fs::create_dir_all(&folder.0)?;
    let socket = |name: &str| folder.0.join(name).display().to_string();
    let (plants_socket, room_socket) = (socket("plants"), socket("room"));

    let (_coordinator, url) = Part::start(&["coordinator"])?;
    let (plants_server, _) = Part::start(&["server", "plants", &plants_socket, &url])?;
    let (_room_server, _) = Part::start(&["server", "room", &room_socket, &url])?;
    let mut plants = Vec::new();
    for number in ["1", "2", "3"] {
        plants.push(Part::start(&["plant", number, "1", &plants_socket])?.0);
    }
    let mut displays = Vec::new();
    for display in 0..10 {
        // Plant 2 is started twice.
        let (number, runs) = [("1", "1"), ("2", "2"), ("3", "1")][display % 3];
        displays.push(Part::start(&["display", number, runs, &room_socket])?.0);
    }
    if let Some(program) = cpp_display {
        displays.push(Part::start_program(Path::new(program), &["2", "2", &room_socket])?.0);
    }
    std::thread::sleep(Duration::from_millis(500));
    println!("plant 2 is killed");
    drop(plants.remove(1));
    std::thread::sleep(Duration::from_millis(1000));
    println!("plant 2 is started again");
    plants.push(Part::start(&["plant", "2", "2", &plants_socket])?.0);

    std::thread::sleep(Duration::from_millis(500));
    println!("the plants' server is killed and started again");
    drop(plants_server);
    let (_plants_server, _) = Part::start(&["server", "plants", &plants_socket, &url])?;

    let mut failed = 0;
    for display in &mut displays {
        failed += u32::from(!display.0.wait()?.success());
    }
    // The threads above print the last lines.
    std::thread::sleep(Duration::from_millis(100));
    match failed {
        0 => Ok(()),
        failed => Err(format!("{failed} of {} displays failed", displays.len()).into()),
    }
}
