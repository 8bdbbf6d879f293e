//! The servant, shared by the server program and by `isorb demo`.

#[allow(missing_docs)]
mod generated {
    isorb::include_idl!("sensors");
}

pub use generated::sensors;

use isorb::{Result, Upcall};
use sensors::{Offline, Probe, Reading, probe::SampleError};
use std::sync::atomic::{AtomicU64, Ordering};

/// A probe with eight channels, of which the last is broken.
#[derive(Debug, Default)]
pub struct Thermometer {
    fed: AtomicU64,
}

impl Probe for Thermometer {
    fn name(&self, _: Upcall<'_>) -> Result<&str> {
        Ok("t1")
    }

    fn sample<'u>(&'u self, cx: Upcall<'u>, channel: i32) -> Result<(Reading, &'u str), SampleError> {
        match channel {
            0..=6 => Ok((Reading { value: 20.0 + f64::from(channel) / 4.0, stamp: cx.now_ns() }, "°C")),
            7 => Err(Offline { reason: "the wire of channel 7 is broken".into() }.into()),
            _ => Err(Offline { reason: format!("there is no channel {channel}, only 0 to 7") }.into()),
        }
    }

    fn feed(&self, _: Upcall<'_>, data: &[u8]) -> Result<()> {
        self.fed.fetch_add(data.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn fed(&self, _: Upcall<'_>) -> Result<u64> {
        Ok(self.fed.load(Ordering::Relaxed))
    }

    fn ping(&self, _: Upcall<'_>) -> Result<()> {
        Ok(())
    }

    fn echo<'u>(&'u self, _: Upcall<'u>, data: &'u [u8]) -> Result<&'u [u8]> {
        Ok(data)
    }
}
