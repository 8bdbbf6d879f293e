//! Finds the lamp by the reference in `lamp.ior`, and switches it on.

mod generated {
    isorb::include_idl!("lamp");
}
use generated::lamps::{LampRef, lamp::SwitchToError};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let orb = isorb::Orb::init(std::env::args())?;
    let lamp: LampRef = orb.resolve(&std::fs::read_to_string("lamp.ior")?)?;
    println!("{}", lamp.describe("Hello")?);
    match lamp.switch_to(true) {
        Ok(()) => println!("{}", lamp.describe("Hello again")?),
        Err(SwitchToError::Burnt(burnt)) => println!("burnt since {}", burnt.since),
        Err(SwitchToError::System(exception)) => return Err(exception.into()),
    }
    Ok(())
}
