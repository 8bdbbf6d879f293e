//! Serves a lamp and writes its reference to `lamp.ior`.

mod generated {
    isorb::include_idl!("lamp");
}
use generated::lamps::{Burnt, Lamp, LampRef, lamp::SwitchToError};
use isorb::{Result, Upcall};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

#[derive(Default)]
struct Bulb {
    on: AtomicBool,
    switched: AtomicU32,
}

impl Lamp for Bulb {
    fn on(&self, _: Upcall<'_>) -> Result<bool> {
        Ok(self.on.load(Ordering::Relaxed))
    }

    fn switch_to(&self, _: Upcall<'_>, on: bool) -> Result<(), SwitchToError> {
        if self.switched.fetch_add(1, Ordering::Relaxed) >= 3 {
            return Err(Burnt { since: "the third time".into() }.into());
        }
        self.on.store(on, Ordering::Relaxed);
        Ok(())
    }

    // Text in the scope of the call lives until the reply is sent: nothing is allocated.
    fn describe<'u>(&'u self, cx: Upcall<'u>, greeting: &'u str) -> Result<&'u str> {
        let state = if self.on.load(Ordering::Relaxed) { "on" } else { "off" };
        cx.format(format_args!("{greeting}, I am {state}"))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let orb = isorb::Orb::init(std::env::args())?;
    let lamp: LampRef = orb.root_poa()?.activate(Arc::new(Bulb::default()))?;
    std::fs::write("lamp.ior", lamp.to_string())?;
    println!("serving; the reference is in lamp.ior");
    orb.run();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    // A call to an object of the same process needs no network.
    #[test]
    fn a_lamp_burns_out_the_third_time() -> Result<(), Box<dyn std::error::Error>> {
        let orb = isorb::Orb::init(std::iter::empty::<String>())?;
        let poa = orb.root_poa()?;
        // What Orb::run does in main.
        poa.manager().activate()?;
        let lamp: LampRef = poa.activate(Arc::new(Bulb::default()))?;
        for on in [true, false, true] {
            lamp.switch_to(on)?;
            assert_eq!(lamp.on()?, on);
        }
        assert!(matches!(lamp.switch_to(false), Err(SwitchToError::Burnt(_))));
        Ok(())
    }
}
