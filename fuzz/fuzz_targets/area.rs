//! Memory areas that another process made: heads that lie, and words that it changes.
#![no_main]

use isorb_memory_area::{Geometry, Segment};
use libfuzzer_sys::fuzz_target;
use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::LazyLock;

const SIZE: usize = 64;
const HISTORIES: usize = 2;

/// A sealed file with these octets.
fn file(octets: &[u8]) -> OwnedFd {
    let file = memfd_create("area", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("a file");
    ftruncate(&file, octets.len() as u64).expect("room");
    let file = File::from(file);
    file.write_all_at(octets, 0).expect("room");
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW).expect("seals");
    file.into()
}

/// An area as the writer makes it.
static HONEST: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let geometry = Geometry::new(SIZE, HISTORIES).expect("a small area");
    let segment = Segment::create("fuzz", geometry).expect("memory");
    let mut writer = segment.writer().expect("the first writer");
    for value in 0..3 {
        writer.write(&[value; SIZE]).expect("it fits");
    }
    let mut octets = vec![0; geometry.total_bytes()];
    File::from(segment.read_only_fd().expect("a descriptor"))
        .read_exact_at(&mut octets, 0)
        .expect("the whole area");
    octets
});

// The first octet says whether the file is the fuzzer's own. Else four octets each change one of an
// honest area: where, of its words, and to what.
fuzz_target!(|data: &[u8]| {
    let [how, rest @ ..] = data else { return };
    let octets = match how & 1 {
        0 => rest.to_vec(),
        _ => {
            let mut octets = HONEST.clone();
            for change in rest.chunks_exact(4) {
                let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % octets.len();
                octets[at] = change[2];
            }
            octets
        }
    };
    let Ok(segment) = Segment::attach(file(&octets)) else { return };
    let size = segment.geometry().size();
    // The head may say that it is a large one.
    let mut value = vec![0; size.min(1 << 20)];
    let Ok(mut reader) = segment.reader() else { return };
    for back in 0..HISTORIES + 2 {
        let _ = reader.state();
        for sample in [reader.latest(&mut value), reader.history(back, &mut value)].into_iter().flatten() {
            assert!(sample.len <= value.len());
        }
        if let Ok(Some(sample)) = reader.next(&mut value) {
            assert!(sample.len <= value.len());
        }
    }
});
