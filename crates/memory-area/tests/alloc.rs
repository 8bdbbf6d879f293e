//! What this crate promises not to allocate does not.
#![cfg(not(loom))]

use isorb_memory_area::{Geometry, Segment};
use isorb_rt::alloc_count::{CountingAllocator, allocations_during};
use isorb_rt::time::Deadline;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn writing_waiting_and_reading_allocate_nothing() {
    assert!(allocations_during(|| Box::new(1)) > 0, "the allocator counts");
    let segment = Segment::create("alloc", Geometry::new(1000, 1).unwrap()).unwrap();
    let (mut writer, mut reader) = (segment.writer().unwrap(), segment.reader().unwrap());
    let (value, mut out) = ([7; 900], [0; 1000]);
    let count = allocations_during(|| {
        for _ in 0..10 {
            writer.write(&value).unwrap();
            reader.wait(Deadline::NONE).unwrap();
            reader.latest(&mut out).unwrap();
            writer.write_with(900, |cells| cells.put(1, &value[1..]).unwrap()).unwrap();
            reader.read_with(|view| view.bytes::<8>(0)).unwrap().0.unwrap();
            reader.next(&mut out).unwrap();
            reader.history(1, &mut out).unwrap();
        }
    });
    assert_eq!(count, 0);
}
