//! Packages give the shared library a name with the version of its interface, which programs record
//! when they are linked.

fn main() {
    println!("cargo::rerun-if-env-changed=ISORB_CRM_SONAME");
    if let Ok(name) = std::env::var("ISORB_CRM_SONAME") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{name}");
    }
}
