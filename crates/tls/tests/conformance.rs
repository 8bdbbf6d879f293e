//! What every transport must do.

mod common;

use common::authority;
use isorb_tls::Tls;

isorb_transport::transport_conformance!(tls, || {
    let plant = authority();
    (Box::new(Tls::new(plant.member("plant").unwrap()).unwrap()), "127.0.0.1:0".into())
});
