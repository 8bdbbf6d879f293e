//! Compiles the interfaces of the event services.

fn main() {
    let idl = |folder: &str| {
        let out = std::path::Path::new(&std::env::var_os("OUT_DIR").unwrap_or_default()).join(folder);
        if let Err(error) = std::fs::create_dir_all(&out) {
            println!("cargo::error={}: {error}", out.display());
        }
        isorb_idl_rust::Build::new().include("../../idl").out_dir(out)
    };
    idl("stamped").compile("../../idl/RtecEventChannelAdmin.idl");
    idl("plain")
        .define("TAO_LACKS_EVENT_CHANNEL_TIMESTAMPS", "1")
        .compile("../../idl/RtecEventChannelAdmin.idl");
    idl("cos").compile("../../idl/CosEventChannelAdmin.idl");
    idl("link").compile("../../idl/IsorbEvent.idl");
}
