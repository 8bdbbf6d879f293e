//! The records of a channel keep its name when the channel is closed.

mod world;

use world::*;

#[test]
fn a_closed_channel_keeps_its_name_and_its_rows() {
    let world = World::new();
    let (near, far) = (world.library(0), world.library(1));
    let server = world.near.as_ref().unwrap();
    server.record(10_000);
    for name in ["first", "second"] {
        near.create_area(&area(name, 64)).unwrap();
        let mut writer = near.map_writer(name, QOS).unwrap();
        let mut reader = far.attach_reader(name, on_write()).unwrap();
        let number = writer.write(name.as_bytes()).unwrap();
        assert_eq!(until(&mut reader, number), name.as_bytes());
        drop(reader);
        assert_eq!(server.counts().3, 0, "the channel is closed");
    }
    let recorded = &server.recorded()[0];
    let mut rows: Vec<String> = recorded.rows().into_iter().map(|(_, _, name)| name).collect();
    rows.sort();
    let wanted = ["first to far", "first to far: middle", "second to far", "second to far: middle"];
    assert_eq!(rows, wanted, "each has rows of its own, though the second took the place of the first");
    // Without records there are no names.
    server.record(10);
    assert!(server.recorded()[0].rows().is_empty());
}
