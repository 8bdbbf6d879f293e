//! Servants and fixtures for tests that need generated code and the whole ORB.

pub mod allocations;
pub mod corpus;

#[allow(missing_docs)]
mod generated {
    isorb::include_idl!("steady");
    isorb::include_idl!("everyday");
}

pub use generated::{everyday, steady};

use isorb::{Concurrency, Config, Orb, Result, Upcall};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use steady::*;

/// Gives back what it gets: the result is `a`, `c` is the old `b`, `b` becomes `a`.
#[derive(Default)]
pub struct Parrot {
    fed: AtomicU32,
    level: AtomicI32,
}

fn rotate<T: Copy>(a: T, b: &mut T) -> (T, T) {
    (a, std::mem::replace(b, a))
}

impl Base for Parrot {
    fn who(&self, _: Upcall<'_>) -> Result<&str> {
        Ok("parrot")
    }
    fn level(&self, _: Upcall<'_>) -> Result<i32> {
        Ok(self.level.load(Ordering::Relaxed))
    }
    fn set_level(&self, _: Upcall<'_>, value: i32) -> Result<()> {
        self.level.store(value, Ordering::Relaxed);
        Ok(())
    }
}

impl Path for Parrot {
    fn ping(&self, _: Upcall<'_>) -> Result<()> {
        Ok(())
    }
    fn text<'u>(&'u self, _: Upcall<'u>, a: &'u str, b: &mut &'u str) -> Result<(&'u str, &'u str)> {
        Ok(rotate(a, b))
    }
    fn wide<'u>(&'u self, _: Upcall<'u>, a: &'u str) -> Result<&'u str> {
        Ok(a)
    }
    fn echo_track<'u>(
        &'u self,
        _: Upcall<'u>,
        a: TrackView<'u>,
        b: &mut TrackView<'u>,
    ) -> Result<(TrackView<'u>, TrackView<'u>)> {
        Ok(rotate(a, b))
    }
    fn echo_tracks<'u>(
        &'u self,
        _: Upcall<'u>,
        a: &'u [TrackView<'u>],
        b: &mut &'u [TrackView<'u>],
    ) -> Result<(&'u [TrackView<'u>], &'u [TrackView<'u>])> {
        Ok(rotate(a, b))
    }
    fn echo_stamps<'u>(
        &'u self,
        _: Upcall<'u>,
        a: &'u [Stamp],
        b: &mut &'u [Stamp],
    ) -> Result<(&'u [Stamp], &'u [Stamp])> {
        Ok(rotate(a, b))
    }
    fn echo_mixeds<'u>(&'u self, _: Upcall<'u>, a: &'u [Mixed]) -> Result<&'u [Mixed]> {
        Ok(a)
    }
    fn echo_table<'u>(&'u self, _: Upcall<'u>, a: &'u [&'u [&'u str]]) -> Result<&'u [&'u [&'u str]]> {
        Ok(a)
    }
    fn echo_shape<'u>(
        &'u self,
        _: Upcall<'u>,
        a: ShapeView<'u>,
        b: &mut ShapeView<'u>,
    ) -> Result<(ShapeView<'u>, ShapeView<'u>)> {
        Ok(rotate(a, b))
    }
    fn echo_picture<'u>(&'u self, _: Upcall<'u>, a: PictureView<'u>) -> Result<PictureView<'u>> {
        Ok(a)
    }
    fn echo_matrix(&self, _: Upcall<'_>, a: [[i32; 2]; 3]) -> Result<[[i32; 2]; 3]> {
        Ok(a)
    }
    fn echo_octets<'u>(&'u self, _: Upcall<'u>, a: &'u [u8]) -> Result<&'u [u8]> {
        Ok(a)
    }
    fn echo_unvalued<'u>(&'u self, _: Upcall<'u>, a: UnvaluedView<'u>) -> Result<UnvaluedView<'u>> {
        Ok(a)
    }
    fn feed<'u>(&'u self, _: Upcall<'u>, a: &'u [TrackView<'u>]) -> Result<()> {
        self.fed.fetch_add(a.len() as u32, Ordering::Relaxed);
        Ok(())
    }
    fn fed(&self, _: Upcall<'_>) -> Result<u32> {
        Ok(self.fed.load(Ordering::Relaxed))
    }
}

/// A server ORB and a client ORB's reference to its parrot. Collocated when `client` is `None`.
///
/// # Panics
/// When the ORBs cannot be made: this is for tests.
pub fn serve(concurrency: Concurrency, collocated: bool) -> (Orb, Orb, PathRef) {
    serve_with(Config { concurrency, lane_threads: 1, ..Config::default() }, collocated)
}

/// As [`serve`], with a configuration of the server; the client has the same transports.
///
/// # Panics
/// As [`serve`].
pub fn serve_with(config: Config, collocated: bool) -> (Orb, Orb, PathRef) {
    let transport = config.transport.clone();
    let server = Orb::with_config(config).unwrap();
    let apart = || Orb::with_config(Config { transport, ..Config::default() }).unwrap();
    let client = if collocated { server.clone() } else { apart() };
    let root = server.root_poa().expect("an endpoint");
    let near: PathRef = root.activate(Arc::new(Parrot::default())).expect("an object");
    let background = server.clone();
    std::thread::spawn(move || background.run());
    let far = client.resolve(&isorb::Reference::object(&near).to_string()).expect("a reference");
    (server, client, far)
}
