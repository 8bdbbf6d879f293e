//! Turns on the lamp of its argument, and ends with its input.

use isorb::{Kind, Result, SystemException};
use isorb_example_minimum::minimum::LampRef;

fn main() -> Result<()> {
    let orb = isorb::Orb::init(std::env::args())?;
    let reference = orb.arguments().get(1).cloned();
    let reference = reference.ok_or_else(|| {
        SystemException::from(Kind::BadParam).detail("which lamp? give the reference that the server printed")
    })?;
    let lamp: LampRef = orb.resolve(&reference)?;
    let before = lamp.turn(true)?;
    println!("it was {}, and has been turned {} times", if before { "on" } else { "off" }, lamp.turns()?);
    // The tests look at the process until then.
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    Ok(())
}
