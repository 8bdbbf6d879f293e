//! Programs in C and C++ that tests build.

use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a compiler. False, with a sentence that the test is skipped, where it is not installed.
///
/// # Panics
/// Where the compiler refuses its input, with its output.
#[track_caller]
pub fn compiles(command: &mut Command) -> bool {
    let compiler = command.get_program().to_string_lossy().into_owned();
    match command.output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{command:?}: {}\n{text}", output.status);
            true
        }
        Err(error) => {
            println!("skipped: {compiler} does not run ({error}); apt-get install gcc g++");
            false
        }
    }
}

/// Whether programs can be built with omniORB. Where they cannot, a sentence says that the test is
/// skipped.
pub fn has_omniorb() -> bool {
    let has_headers = Path::new("/usr/include/omniORB4/CORBA.h").exists();
    let answers = Command::new("omniidl").arg("-V").stdin(Stdio::null()).output();
    let is_there = has_headers && answers.is_ok_and(|output| output.status.success());
    if !is_there {
        println!("skipped: omniORB is not installed (apt-get install omniidl omniorb-idl libomniorb4-dev)");
    }
    is_there
}

/// Translates IDL files for omniORB's C++ into `folder`, with further options of `omniidl`. False,
/// with a sentence that the test is skipped, where omniORB is not installed.
///
/// # Panics
/// Where `omniidl` refuses a file, with its output.
#[track_caller]
pub fn omniorb_stubs(folder: &Path, options: &[&str], files: &[&Path]) -> bool {
    if !has_omniorb() {
        return false;
    }
    for file in files {
        let mut command = Command::new("omniidl");
        command.arg("-bcxx").args(options).arg("-C").arg(folder).arg(file);
        assert!(compiles(&mut command), "it ran a moment ago");
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_that_is_missing_is_no_failure() {
        assert!(!compiles(&mut Command::new("no-such-compiler")));
        assert!(compiles(&mut Command::new("true")));
        assert!(std::panic::catch_unwind(|| compiles(&mut Command::new("false"))).is_err());
    }
}
