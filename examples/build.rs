//! Compiles the IDL of each example.

fn main() {
    let files = [
        "callback/clocks.idl",
        "interceptor/hello.idl",
        "lanes/brakes.idl",
        "naming/lab.idl",
        "persistence/notes.idl",
        "priorities/plant.idl",
        "shared-state/tracks.idl",
        "tls/vault.idl",
    ];
    for file in files {
        isorb_idl_rust::Build::new().compile(file);
    }
    isorb_idl_rust::Build::new().asynchronous(true).compile("asynchronous/balance.idl");
}
