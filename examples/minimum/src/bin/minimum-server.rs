//! Serves a lamp and prints its reference; ends with its input.

use isorb::{Result, Upcall};
use isorb_example_minimum::minimum::{Lamp, LampRef};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

#[derive(Default)]
struct Bulb {
    on: AtomicBool,
    turns: AtomicU32,
}

impl Lamp for Bulb {
    fn turn(&self, _: Upcall<'_>, on: bool) -> Result<bool> {
        self.turns.fetch_add(1, Ordering::Relaxed);
        Ok(self.on.swap(on, Ordering::Relaxed))
    }

    fn turns(&self, _: Upcall<'_>) -> Result<u32> {
        Ok(self.turns.load(Ordering::Relaxed))
    }
}

fn main() -> Result<()> {
    let orb = isorb::Orb::init(std::env::args())?;
    let lamp: LampRef = orb.root_poa()?.activate(Arc::new(Bulb::default()))?;
    println!("{lamp}");
    let ends = orb.clone();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        ends.shutdown(false)
    });
    orb.run();
    Ok(())
}
