//! The conformance suite of transports.

use isorb_tls::testing::Authority;
use isorb_tls::{Tls, TlsConfig};
use isorb_transport::conformance::is_peer;
use isorb_transport::{Tcp, Transport};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The configuration of this process. The peer of a test takes that of the process that started it.
fn config() -> TlsConfig {
    static CONFIG: OnceLock<TlsConfig> = OnceLock::new();
    let folder = |process: u32| -> PathBuf {
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("conformance-{process}"))
    };
    let make = || {
        if is_peer() {
            let folder = folder(std::os::unix::process::parent_id());
            let file = |name: &str| folder.join(name);
            return TlsConfig::new(file("plant.pem"), file("plant.key"), file("authority.pem"));
        }
        Authority::at(&folder(std::process::id())).unwrap().member("plant").unwrap()
    };
    CONFIG.get_or_init(make).clone()
}

isorb_transport::transport_conformance!(tls, || (
    Box::new(Tls::new(config()).unwrap()),
    "127.0.0.1:0".into()
));

fn no_ipv6() -> Option<&'static str> {
    Tcp.listen("[::1]:0").is_err().then_some("no IPv6 on this machine")
}

isorb_transport::transport_conformance!(tls_v6, || (
    Box::new(Tls::new(config()).unwrap()),
    "[::1]:0".into()
), unless no_ipv6);
