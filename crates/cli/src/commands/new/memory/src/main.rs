//! Prints each new level of the tank.

mod generated {
    isorb::include_idl!("plant");
}
use generated::plant::Tank;
use isorb_reflective_memory::Library;
use isorb_reflective_memory::idl::ReaderQoS;
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let orb = isorb::Orb::init(std::env::args())?;
    let library = Library::connect(&orb, "node.socket")?;
    let mut reader = library.typed_reader::<Tank>("tank", ReaderQoS::on_write())?;
    loop {
        // A writer that pauses is no reason to end.
        if reader.wait(Duration::from_secs(1)).is_ok() {
            let (tank, sample) = reader.latest()?;
            println!("value {}: {:.1} m, valve open: {}", sample.sequence, tank.level, tank.valve_open);
        }
    }
}
