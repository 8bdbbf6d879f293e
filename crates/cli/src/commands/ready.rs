//! Where a service can be found when it is ready: its URL, and its name in a naming service.

use isorb::{Object, Orb};
use isorb_naming::cos_naming::{NameComponent, NamingContextRef};

/// A `corbaloc` URL. The stringified reference if the ORB listens at transports that the URL cannot
/// express.
pub fn reference(orb: &Orb, key: &str, object: &Object) -> String {
    match orb.endpoint_addresses().is_empty() {
        true => object.to_string(),
        false => corbaloc(orb, key),
    }
}

/// The `corbaloc` URL of a key at the ORB's TCP endpoints.
pub fn corbaloc(orb: &Orb, key: &str) -> String {
    let addresses = orb.endpoint_addresses();
    let address = |(host, port): &(String, u16)| match host.contains(':') {
        true => format!("iiop:1.2@[{host}]:{port}"),
        false => format!(":1.2@{host}:{port}"),
    };
    let addresses: Vec<String> = addresses.iter().map(address).collect();
    format!("corbaloc:{}/{key}", addresses.join(","))
}

/// Binds an object in the naming service at this URL, in place of one that has the name.
pub fn bind(orb: &Orb, url: &str, name: &str, object: &Object) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("{name} is not bound in {url}: {error}");
    let root: NamingContextRef = orb.resolve(url).map_err(|error| failed(&error))?;
    let path = vec![NameComponent { id: name.to_owned(), kind: String::new() }];
    root.rebind(&path, object).map_err(|error| failed(&error))
}
