//! The files of each template. `{name}` is the package, `{isorb}` the folder of isorb's sources.

/// What a project is about.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Template {
    /// An interface in IDL, its servant and a client
    Object,
    /// A consumer and a supplier of an event channel
    Events,
    /// A writer and a reader of reflective memory
    Memory,
}

macro_rules! files {
    ($folder:literal: $($path:literal)*) => {
        &[$(($path, include_str!(concat!($folder, "/", $path)))),*]
    };
}

impl Template {
    /// Paths within the project, with their texts.
    pub fn files(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let files: &[(&str, &str)] = match self {
            Template::Object => {
                files!("object": "Cargo.toml.in" "README.md" "build.rs" "lamp.idl" "src/main.rs" "src/bin/client.rs")
            }
            Template::Events => {
                files!("events": "Cargo.toml.in" "README.md" "build.rs" "flight.idl" "src/main.rs" "src/bin/supplier.rs")
            }
            Template::Memory => {
                files!("memory": "Cargo.toml.in" "README.md" "build.rs" "plant.idl" "src/main.rs" "src/bin/writer.rs")
            }
        };
        // A package within the tool's own would not be in the tool's package.
        files.iter().map(|&(path, text)| (path.strip_suffix(".in").unwrap_or(path), text))
    }
}
