//! What a service says of where it is.

use isorb::{Object, Orb};

/// A URL that a person can read and type; the reference itself where the ORB listens by transports that such a URL does not
/// have.
pub fn reference(orb: &Orb, key: &str, object: &Object) -> String {
    let addresses = orb.endpoint_addresses();
    let address = |(host, port): &(String, u16)| match host.contains(':') {
        true => format!("iiop:1.2@[{host}]:{port}"),
        false => format!(":1.2@{host}:{port}"),
    };
    match addresses.is_empty() {
        true => object.to_string(),
        false => {
            let addresses: Vec<String> = addresses.iter().map(address).collect();
            format!("corbaloc:{}/{key}", addresses.join(","))
        }
    }
}
