//! `isorb idl`: checks IDL, or generates Rust from it.

use isorb_idl::{Options, compile};
use isorb_idl_rust::Build;
use std::fs;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `isorb idl`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["check", "rust"]))]
pub struct Args {
    /// Only checks; the exit code is 0 for a good file and 1 for a bad one.
    #[arg(long)]
    check: bool,
    /// Generates Rust.
    #[arg(long)]
    rust: bool,
    /// Directory to search for `#include`; repeatable.
    #[arg(short = 'I', value_name = "DIR")]
    include: Vec<PathBuf>,
    /// Macro for the preprocessor; repeatable.
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    define: Vec<String>,
    /// Folder for the Rust files.
    #[arg(short = 'o', value_name = "DIR", default_value = ".")]
    output: PathBuf,
    /// The IDL file.
    file: PathBuf,
}

pub fn run(args: &Args) -> ExitCode {
    if args.check { check(args) } else { generate(args) }
}

/// `NAME=VALUE`, or `NAME` for the value 1, like the option of C compilers.
fn defines(args: &Args) -> impl Iterator<Item = (String, String)> {
    args.define.iter().map(|define| {
        let (name, value) = define.split_once('=').unwrap_or((define, "1"));
        (name.to_string(), value.to_string())
    })
}

fn check(args: &Args) -> ExitCode {
    let options = Options {
        include_dirs: args.include.clone(),
        defines: defines(args).collect(),
        embedded: Some(isorb_idl::standard::file),
    };
    let outcome = compile(&options, &args.file);
    let rendered = outcome.render(std::io::stderr().is_terminal());
    if !rendered.is_empty() {
        eprintln!("{}", rendered.trim_end());
    }
    if outcome.spec.is_some() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn generate(args: &Args) -> ExitCode {
    let mut build = Build::new().out_dir(&args.output);
    for directory in &args.include {
        build = build.include(directory);
    }
    for (name, value) in defines(args) {
        build = build.define(name, value);
    }
    if let Err(error) = fs::create_dir_all(&args.output) {
        eprintln!("isorb: cannot create {}: {error}", args.output.display());
        return ExitCode::FAILURE;
    }
    match build.try_compile(&args.file) {
        Ok(built) => {
            eprint!("{}", built.warnings);
            println!("{}", built.path.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{}", error.trim_end());
            ExitCode::FAILURE
        }
    }
}
