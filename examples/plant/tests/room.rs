//! The whole control room, as processes.

use isorb_testkit::{TempFolder, compiles};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the display in C++; none without a compiler.
fn display(folder: &TempFolder) -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Beside this test is the library, which a dependency made.
    let libraries = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let program = folder.file("display");
    let mut command = Command::new("c++");
    command.args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program);
    command.arg("-I").arg(here.join("../../crates/reflective-memory-c/include")).arg(here.join("display.cc"));
    command.arg("-L").arg(&libraries).arg("-lisorb_crm");
    command.arg(format!("-Wl,-rpath,{}", libraries.display()));
    compiles(&mut command).then_some(program)
}

#[test]
fn every_display_comes_through_a_restart() {
    let folder = TempFolder::new();
    let display = display(&folder);
    let mut room = Command::new(env!("CARGO_BIN_EXE_isorb-example-plant"));
    if let Some(display) = &display {
        room.arg("room").arg(display);
    }
    let output = room.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let displays = 10 + usize::from(display.is_some());
    assert_eq!(text.lines().filter(|line| line.contains(" images, ")).count(), displays, "{text}");
    assert_eq!(text.contains("plant/2 in C++: "), display.is_some(), "{text}");
}
