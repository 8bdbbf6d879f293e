//! The URL that a service prints when it is ready.

use isorb::{Object, Orb};

/// A `corbaloc` URL. The stringified reference if the ORB listens at transports that the URL cannot
/// express.
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
