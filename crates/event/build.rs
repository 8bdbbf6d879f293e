//! Compiles the interfaces of the event services.

fn main() {
    let build = |folder: &str| {
        let out = std::path::Path::new(&std::env::var_os("OUT_DIR").unwrap_or_default()).join(folder);
        if let Err(error) = std::fs::create_dir_all(&out) {
            println!("cargo::error={}: {error}", out.display());
        }
        isorb_idl_rust::Build::new().out_dir(out)
    };
    // TAO and its tests leave `is_gateway` uninitialised. An event crosses one link, unless its
    // supplier says otherwise.
    let idl = |folder: &str| {
        build(folder).lenient_booleans(true).default_value("RtecEventComm::EventHeader::ttl", 1)
    };
    idl("stamped").compile_standard("IsorbRtecEventChannelAdmin.idl");
    idl("plain")
        .define("TAO_LACKS_EVENT_CHANNEL_TIMESTAMPS", "1")
        .compile_standard("IsorbRtecEventChannelAdmin.idl");
    build("cos").compile_standard("CosEventChannelAdmin.idl");
    build("link").compile_standard("IsorbEvent.idl");
}
