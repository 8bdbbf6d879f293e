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

/// What makes no Rust, and takes none of its settings.
const NO_RUST: [&str; 3] = ["check", "markdown", "json"];

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
    /// Rust: references can begin calls and await them, beside calls that wait.
    #[arg(long, conflicts_with_all = NO_RUST)]
    asynchronous: bool,
    /// Rust: sequences of this typedef, such as Sensors::Frame, are received where the peer lent
    /// them; repeatable.
    #[arg(long, value_name = "TYPEDEF", conflicts_with_all = NO_RUST)]
    in_place: Vec<String>,
    /// Rust: this IDL module exists as that Rust module, such as Other=::other_crate::other;
    /// repeatable.
    #[arg(long, value_name = "MODULE=PATH", conflicts_with_all = NO_RUST, value_parser = pair)]
    extern_module: Vec<(String, String)>,
    /// Rust: the value of an integer member, such as Sensors::Reading::quality=1, in its
    /// structure's Default; repeatable.
    #[arg(long = "default", value_name = "MEMBER=VALUE", conflicts_with_all = NO_RUST, value_parser = member)]
    defaults: Vec<(String, u32)>,
    /// Rust: each octet but 0 is a boolean TRUE, as TAO and omniORB read it.
    #[arg(long, conflicts_with_all = NO_RUST)]
    lenient_booleans: bool,
    /// Rust: types cannot be put into an any, which makes less code.
    #[arg(long, conflicts_with_all = NO_RUST)]
    no_any: bool,
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

/// `NAME=VALUE`, both of which are there.
fn pair(argument: &str) -> Result<(String, String), String> {
    match argument.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok((name.into(), value.into())),
        _ => Err("it takes a name, '=' and a value".into()),
    }
}

fn member(argument: &str) -> Result<(String, u32), String> {
    let (name, value) = pair(argument)?;
    let number = value.parse().map_err(|_| format!("{value:?} is not a number from 0 to {}", u32::MAX))?;
    Ok((name, number))
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
    let mut build = Build::from_options(options(args))
        .out_dir(&args.output)
        .asynchronous(args.asynchronous)
        .lenient_booleans(args.lenient_booleans)
        .any(!args.no_any);
    for typedef in &args.in_place {
        build = build.receive_in_place(typedef);
    }
    for (module, path) in &args.extern_module {
        build = build.extern_module(module, path);
    }
    for (member, value) in &args.defaults {
        build = build.default_value(member, *value);
    }
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
