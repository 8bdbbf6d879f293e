//! Programs in C and C++ that tests build.

use std::process::Command;

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
