//! Compiles the IDL of each example.

fn main() {
    for file in ["callback/clocks.idl", "lanes/brakes.idl", "interceptor/hello.idl", "persistence/notes.idl"]
    {
        isorb_idl_rust::Build::new().compile(file);
    }
}
