//! `isorb idl`: checks IDL, generates Rust from it, or prints it as Markdown or JSON.

mod json;
mod markdown;

use crate::commands::arguments::to_read;
use crate::printable;
use isorb_idl::model::{DefKind, Spec};
use isorb_idl::{Options, Rule, compile};
use isorb_idl_rust::Build;
use std::fs;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `isorb idl`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["check", "rust", "markdown", "json"]))]
pub struct Args {
    /// Only checks; the exit code is 0 for a good file and 1 for a bad one.
    #[arg(long)]
    check: bool,
    /// Generates Rust.
    #[arg(long)]
    rust: bool,
    /// Prints the definitions of the file as a page of Markdown.
    #[arg(long)]
    markdown: bool,
    /// Prints the definitions of the file as JSON.
    #[arg(long)]
    json: bool,
    /// Breaking a rule that other compilers do not enforce is an error, not a warning.
    #[arg(long)]
    strict: bool,
    /// Silences a rule, named as in its warning; repeatable. `#pragma isorb allow RULE` does the
    /// same in the text.
    #[arg(long, value_name = "RULE", value_parser = rule)]
    allow: Vec<Rule>,
    /// `#include` finds files in the folder of the IDL file and in the folders of -I only.
    #[arg(long)]
    confined: bool,
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
    #[arg(value_parser = to_read())]
    file: PathBuf,
}

pub fn run(args: &Args) -> ExitCode {
    match (args.check, args.rust) {
        (true, _) => print(args, |_| String::new()),
        (_, true) => generate(args),
        _ if args.json => print(args, json::render),
        _ => print(args, markdown::render),
    }
}

fn rule(name: &str) -> Result<Rule, String> {
    Rule::from_name(name).ok_or_else(|| {
        let names: Vec<&str> = Rule::ALL.iter().map(|rule| rule.name()).collect();
        format!("the rules are {}", names.join(", "))
    })
}

/// The keyword of a definition.
fn kind(kind: &DefKind) -> &'static str {
    match kind {
        DefKind::Module => "module",
        DefKind::Interface(_) => "interface",
        DefKind::Value(_) | DefKind::ValueBox(_) => "valuetype",
        DefKind::Struct(_) => "struct",
        DefKind::Union(_) => "union",
        DefKind::Enum(_) => "enum",
        DefKind::Enumerator(_) => "enumerator",
        DefKind::Exception(_) => "exception",
        DefKind::Typedef(_) => "typedef",
        DefKind::Const(_) => "const",
        DefKind::Native => "native",
        DefKind::Operation(_) => "operation",
        DefKind::Attribute(_) => "attribute",
    }
}

/// `NAME=VALUE`, or `NAME` for the value 1, like the option of C compilers.
fn defines(args: &Args) -> impl Iterator<Item = (String, String)> {
    args.define.iter().map(|define| {
        let (name, value) = define.split_once('=').unwrap_or((define, "1"));
        (name.to_string(), value.to_string())
    })
}

fn options(args: &Args) -> Options {
    Options {
        include_dirs: args.include.clone(),
        defines: defines(args).collect(),
        strict: args.strict,
        allow: args.allow.clone(),
        confined: args.confined,
        embedded: Some(isorb_idl::standard::file),
    }
}

/// Compiles the file and prints it in a form.
fn print(args: &Args, render: fn(&Spec) -> String) -> ExitCode {
    let options = options(args);
    let outcome = compile(&options, &args.file);
    let on_terminal = std::io::stderr().is_terminal();
    let rendered = outcome.render(on_terminal);
    if !rendered.is_empty() {
        let printable = if on_terminal { printable::coloured } else { printable::lines };
        eprintln!("{}", printable(rendered.trim_end()));
    }
    let Some(spec) = outcome.spec else { return ExitCode::FAILURE };
    let text = render(&spec);
    // A reader that has enough, such as `head`, is no failure.
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn generate(args: &Args) -> ExitCode {
    let build = Build::from_options(options(args)).out_dir(&args.output);
    if let Err(error) = fs::create_dir_all(&args.output) {
        eprintln!("isorb: cannot create {}: {error}", args.output.display());
        return ExitCode::FAILURE;
    }
    match build.try_compile(&args.file) {
        Ok(built) => {
            eprint!("{}", printable::coloured(&built.warnings));
            println!("{}", built.path.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{}", printable::coloured(error.trim_end()));
            ExitCode::FAILURE
        }
    }
}
