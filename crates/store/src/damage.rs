//! Files of which octets were changed: an error or the records, in little memory.

use crate::open::{check, guard};
use crate::tests::{NUMBERS, Numbers, insert};
use crate::{Database, Fault, OpenError};
use isorb_testkit::TempFolder;
use redb::{ReadableDatabase, ReadableTable};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::sync::Arc;

/// Set in the process that opens the files.
const CHILD: &str = "ISORB_STORE_DAMAGE";
/// Its memory. A page may claim 8 TiB.
const MEMORY: u64 = 1 << 30;
const PAGE: usize = 4096;

/// Reads all records of a file as it is opened.
fn read_all(file: &Arc<File>) -> Result<usize, OpenError> {
    let view = check(file, &Numbers)?;
    guard(|| {
        let records = view.begin_read().map_err(Fault::from)?.open_table(NUMBERS).map_err(Fault::from)?;
        let mut count = 0;
        for record in records.iter().map_err(Fault::from)? {
            let (number, value) = record.map_err(Fault::from)?;
            count += usize::from(value.value() == [number.value() as u8; 3000]);
        }
        Ok(count)
    })
}

fn open_each_damaged_file() {
    // The library panics at what its assertions find; its caller catches that.
    std::panic::set_hook(Box::new(|_| {}));
    let limit = Rlimit { current: Some(MEMORY), maximum: Some(MEMORY) };
    setrlimit(Resource::As, limit).unwrap();
    let folder = TempFolder::new();
    let path = folder.file("numbers");
    let database = Database::open(&path, Numbers).unwrap();
    (0..12).for_each(|number| insert(&database, number).unwrap());
    drop(database);
    let file = Arc::new(File::options().read(true).write(true).open(&path).unwrap());
    let octets = std::fs::read(&path).unwrap();
    assert_eq!(read_all(&file), Ok(12));

    let (mut refused, mut read) = (0, 0);
    let mut attempt = |at: usize, octet: u8| {
        file.write_all_at(&[octet], at as u64).unwrap();
        match read_all(&file) {
            // A record that is not the one written has another check sum.
            Ok(count) => {
                assert_eq!(count, 12, "octet {at} as {octet:#x}");
                read += 1;
            }
            Err(_) => refused += 1,
        }
        file.write_all_at(&octets[at..=at], at as u64).unwrap();
    };
    for (at, octet) in octets.iter().enumerate().take(320) {
        attempt(at, octet ^ 1 << (at % 8));
        if at % 4 == 3 {
            attempt(at, octet | 0xa0);
        }
    }
    // In the pages that are used: the head, and the upper octets of the numbers behind it. Their
    // upper bits are the logarithm of a page's size. In a branch they stand apart by eight octets;
    // in a list of tables, anywhere.
    for (page, content) in octets.chunks_exact(PAGE).enumerate().skip(1) {
        let numbers = match content[0] {
            2 => 8,
            1 if content.windows(7).any(|name| name == b"numbers" || name == b"_pages_") => 1,
            _ => PAGE,
        };
        for (at, octet) in content.iter().enumerate().filter(|_| content.iter().any(|octet| *octet != 0)) {
            let is_upper = (24..400).contains(&at) && at % numbers == numbers - 1;
            if at < 24 || at.is_multiple_of(509) {
                attempt(page * PAGE + at, octet ^ 1 << (at % 8));
            } else if is_upper {
                attempt(page * PAGE + at, octet | 0xa0);
            }
        }
    }
    println!("refused {refused}, read {read}");
    assert!(refused > 200 && read > 50);
}

#[test]
fn no_octet_makes_the_process_reserve_more_memory_than_the_file_has() {
    if std::env::var_os(CHILD).is_some() {
        return open_each_damaged_file();
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "damage::no_octet_makes_the_process_reserve_more_memory_than_the_file_has"]);
    let ended = child.arg("--nocapture").env(CHILD, "1").output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{}: {said}\n{}", ended.status, String::from_utf8_lossy(&ended.stderr));
    assert!(said.contains("refused "), "the child ran nothing: {said}");
}
