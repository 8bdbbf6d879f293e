//! The interface for build scripts.

use crate::{Options, generate, rustfmt};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// Generates Rust from IDL in a build script.
///
/// The file goes to `$OUT_DIR`, named after the IDL file in snake case;
/// `isorb::include_idl!("sensors")` includes it.
///
/// ```no_run
/// isorb_idl_rust::Build::new().include("idl").compile("idl/sensors.idl");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Build {
    front: isorb_idl::Options,
    options: Options,
    out_dir: Option<PathBuf>,
}

impl Build {
    /// No include directories but the standard modules, no macros, output to `$OUT_DIR`.
    pub fn new() -> Build {
        Build::default().embedded(isorb_idl::standard::file)
    }

    /// The same with options of the front end.
    pub fn from_options(front: isorb_idl::Options) -> Build {
        Build { front, ..Build::default() }
    }

    /// Breaking a rule that other IDL compilers do not enforce is an error, not a warning
    /// ([`isorb_idl::Rule`]).
    #[must_use]
    pub fn strict(mut self, on: bool) -> Build {
        self.front.strict = on;
        self
    }

    /// Silences a rule that other IDL compilers do not enforce.
    #[must_use]
    pub fn allow(mut self, rule: isorb_idl::Rule) -> Build {
        self.front.allow.push(rule);
        self
    }

    /// Adds a directory in which `#include` looks.
    #[must_use]
    pub fn include(mut self, directory: impl Into<PathBuf>) -> Build {
        self.front.include_dirs.push(directory.into());
        self
    }

    /// Defines a macro for the preprocessor, like `-D NAME=VALUE`. Without a value it is 1, as with
    /// C compilers.
    #[must_use]
    pub fn define(mut self, name: impl Into<String>, value: impl Into<String>) -> Build {
        self.front.defines.push((name.into(), value.into()));
        self
    }

    /// Files for `#include` that no directory has, such as those of the ORB.
    #[must_use]
    pub fn embedded(mut self, files: isorb_idl::EmbeddedFiles) -> Build {
        self.front.embedded = Some(files);
        self
    }

    /// Refers to an IDL module in another crate instead of generating it; see
    /// [`Options::extern_module`].
    #[must_use]
    pub fn extern_module(mut self, module: impl Into<String>, path: impl Into<String>) -> Build {
        self.options = self.options.extern_module(module, path);
        self
    }

    /// Whether types can be stored in an `any`; on by default.
    #[must_use]
    pub fn any(mut self, on: bool) -> Build {
        self.options = self.options.any(on);
        self
    }

    /// Whether each octet but 0 is a boolean TRUE, for peers that send uninitialised members. Off
    /// by default: octets other than 0 and 1 are MARSHAL.
    #[must_use]
    pub fn lenient_booleans(mut self, on: bool) -> Build {
        self.options = self.options.lenient_booleans(on);
        self
    }

    /// Whether references can begin calls and await them (`…_begin`, `…_async`). Off by default.
    #[must_use]
    pub fn asynchronous(mut self, on: bool) -> Build {
        self.options = self.options.asynchronous(on);
        self
    }

    /// Gives an integer member of a struct this value in the struct's `Default`; see
    /// [`Options::default_value`].
    #[must_use]
    pub fn default_value(mut self, member: impl Into<String>, value: u32) -> Build {
        self.options = self.options.default_value(member, value);
        self
    }

    /// Receives sequences of this typedef where the peer lent them; see
    /// [`Options::receive_in_place`].
    #[must_use]
    pub fn receive_in_place(mut self, typedef: impl Into<String>) -> Build {
        self.options = self.options.receive_in_place(typedef);
        self
    }

    /// Writes to this directory instead of `$OUT_DIR`.
    #[must_use]
    pub fn out_dir(mut self, directory: impl Into<PathBuf>) -> Build {
        self.out_dir = Some(directory.into());
        self
    }

    /// Compiles one file and makes cargo run again when it, or a file that it includes, changes.
    ///
    /// Errors in the IDL, and files that cannot be read or written, are printed and end the process
    /// with status 1: a build script has no caller to return them to. [`Build::try_compile`]
    /// returns them.
    pub fn compile(&self, file: impl AsRef<Path>) {
        let built = or_exit(file.as_ref(), self.try_compile(file.as_ref()));
        for file in &built.read {
            println!("cargo::rerun-if-changed={}", file.display());
        }
    }

    /// Compiles one of the files that come with isorb ([`isorb_idl::standard::FILES`]), such as
    /// `CosNaming.idl`. A package that does so needs no copy of it.
    ///
    /// Errors, such as a name that no file has, end the process as in [`Build::compile`].
    pub fn compile_standard(&self, name: &str) {
        let text = isorb_idl::standard::file(name)
            .ok_or_else(|| format!("isorb has no {name}; it has {}", isorb_idl::standard::FILES.join(", ")));
        let built = text.and_then(|text| {
            let loader = isorb_idl::MemoryLoader::new().with(name, text);
            self.write(isorb_idl::compile_with(&self.front, &loader, name.as_ref()), name.as_ref())
        });
        or_exit(name.as_ref(), built);
        // With the text, the compiler that has it is another one.
        println!("cargo::rerun-if-changed=build.rs");
    }

    /// Like [`Build::compile`], for programs other than build scripts.
    ///
    /// # Errors
    /// The diagnostics as text, or a sentence about the file that could not be written.
    pub fn try_compile(&self, file: &Path) -> Result<Built, String> {
        self.write(isorb_idl::compile(&self.front, file), file)
    }

    /// Writes the Rust of what was compiled from `file`.
    fn write(&self, outcome: isorb_idl::Outcome, file: &Path) -> Result<Built, String> {
        let diagnostics = outcome.render(false);
        let Some(spec) = outcome.spec else { return Err(diagnostics) };
        crate::in_place::check(&spec, &self.options)?;
        crate::emit::structs::check_defaults(&spec, &self.options)?;
        let directory = match &self.out_dir {
            Some(directory) => directory.clone(),
            None => env::var_os("OUT_DIR")
                .map(PathBuf::from)
                .ok_or("OUT_DIR is not set, and no out_dir was given")?,
        };
        let path = directory.join(output_name(file));
        let text = rustfmt(generate(&spec, &self.options));
        write_if_changed(&path, &text)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        let read = spec.files().iter().filter(|f| !f.is_embedded).map(|f| f.path.clone()).collect();
        Ok(Built { path, read, warnings: diagnostics })
    }
}

/// The result of [`Build::try_compile`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Built {
    /// The file that was written.
    pub path: PathBuf,
    /// The IDL files that were read.
    pub read: Vec<PathBuf>,
    /// Warnings as text; empty if there were none.
    pub warnings: String,
}

/// Shows warnings to cargo, or why nothing was built.
fn or_exit(file: &Path, built: Result<Built, String>) -> Built {
    let built = built.unwrap_or_else(|message| {
        // Cargo shows the standard error of a failed build script.
        eprintln!("{message}");
        eprintln!("cannot generate Rust from {}", file.display());
        std::process::exit(1);
    });
    for line in built.warnings.lines() {
        println!("cargo::warning={line}");
    }
    built
}

/// `sensors.rs` for `idl/Sensors.idl`.
fn output_name(file: &Path) -> String {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let name = crate::names::case::snake(&stem.replace(|c: char| !c.is_ascii_alphanumeric(), "_"));
    format!("{name}.rs")
}

/// Does not write a file with the same content, so that nothing is compiled again.
fn write_if_changed(path: &Path, text: &str) -> std::io::Result<()> {
    match fs::read(path) {
        Ok(old) if old == text.as_bytes() => Ok(()),
        _ => fs::write(path, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_named_after_the_file() {
        assert_eq!(output_name(Path::new("idl/CosNaming.idl")), "cos_naming.rs");
        assert_eq!(output_name(Path::new("my-types.v2.idl")), "my_types_v2.rs");
    }
}
