//! Compiles the IDL.

fn main() {
    let events = |module: &str| format!("::isorb_event::servants::stamped::{module}");
    isorb_idl_rust::Build::new()
        .extern_module("TimeBase", events("time_base"))
        .extern_module("RtecBase", events("rtec_base"))
        .extern_module("RtecEventComm", events("rtec_event_comm"))
        .extern_module("RtecEventChannelAdmin", events("rtec_event_channel_admin"))
        .compile_standard("ReflectiveMemory.idl");
}
