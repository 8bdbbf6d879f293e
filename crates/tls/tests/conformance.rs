//! What every transport must do.

mod common;

use common::Authority;
use isorb_tls::Tls;

isorb_transport::transport_conformance!(tls, || {
    let authority = Authority::new();
    (Box::new(Tls::new(authority.member("plant")).unwrap()), "127.0.0.1:0".into())
});
