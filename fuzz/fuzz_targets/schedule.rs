//! Schedule files and descriptions of federations, as the tool reads them: any text is read, or
//! refused at a line that it has. No analysis is made: its time is that of the numbers.
//!
//! The text before the first octet 0 is the file; what follows is the schedule file that all
//! channels of a federation name.
#![no_main]

use isorb_sched::federation::FederationFile;
use isorb_sched::file::{FileError, ScheduleFile};
use libfuzzer_sys::fuzz_target;

fn check_line(error: &FileError, text: &str) {
    let lines = text.bytes().filter(|octet| *octet == b'\n').count() + 1;
    assert!((1..=lines).contains(&error.line), "{error}");
}

fuzz_target!(|input: &[u8]| {
    let Ok(input) = std::str::from_utf8(input) else { return };
    let (text, schedule) = input.split_once('\0').unwrap_or((input, input));
    match ScheduleFile::parse("schedule.toml", text) {
        Ok(read) => read.warnings.iter().for_each(|warning| check_line(warning, text)),
        Err(error) => check_line(&error, text),
    }
    let named = |_: &str| Ok(schedule.to_owned());
    match FederationFile::parse("federation.toml", text, named) {
        Ok(read) => read.warnings.iter().for_each(|warning| check_line(warning, schedule)),
        // The file is what the description calls it, so that it may have any name.
        Err(error) => {
            let text = error.to_string();
            assert!(text.split(':').any(|part| part.parse::<usize>().is_ok()), "{text}");
        }
    }
});
