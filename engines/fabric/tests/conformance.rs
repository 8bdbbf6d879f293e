//! The suite of all transports, over libfabric's provider for sockets.

use isorb_fabric::Fabric;
use isorb_transport::{Spin, Transport, transport_conformance};

fn on_loopback() -> (Box<dyn Transport>, String) {
    (Box::new(Fabric::default()), "127.0.0.1:0".into())
}

transport_conformance!(fabric, on_loopback);

// The smallest segments, so that everything streams through and wraps around all the time; and
// without spinning.
transport_conformance!(small_fabric, || {
    let fabric = Fabric { bytes: 4096, spin: Spin::NEVER, ..Fabric::default() };
    (Box::new(fabric), "127.0.0.1:0".into())
});
