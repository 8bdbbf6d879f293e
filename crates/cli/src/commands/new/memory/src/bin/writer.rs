//! Writes the level of the tank ten times a second.

mod generated {
    isorb::include_idl!("plant");
}
use generated::plant::Tank;
use isorb_reflective_memory::Library;
use isorb_reflective_memory::idl::{Area, WriterQoS};
use std::time::Duration;

const PERIOD: Duration = Duration::from_millis(100);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let orb = isorb::Orb::init(std::env::args())?;
    let library = Library::connect(&orb, "node.socket")?;
    library.open_or_create(&Area::of::<Tank>("tank", 3)?)?;
    let mut writer = library.typed_writer::<Tank>("tank", WriterQoS::every(PERIOD))?;
    for step in (0..10_u8).cycle() {
        writer.write(&Tank { level: 2.5 + f64::from(step) * 0.1, valve_open: step < 5 })?;
        std::thread::sleep(PERIOD);
    }
    Ok(())
}
