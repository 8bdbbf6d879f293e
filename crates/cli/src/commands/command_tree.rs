//! `isorb command-tree`: each command with its arguments, one JSON object a line, for the test that
//! tries them all.

use clap::{Arg, Command};
use serde_json::json;
use std::any::TypeId;
use std::io::{self, Write};
use std::path::PathBuf;

pub fn run(mut program: Command) -> io::Result<()> {
    program.build();
    print(&program, &mut Vec::new(), &[], &mut io::stdout().lock())
}

/// Prints a command, and those below it. Options that hold for all commands below are named once.
fn print(command: &Command, path: &mut Vec<String>, above: &[&str], out: &mut impl Write) -> io::Result<()> {
    let own: Vec<&Arg> =
        command.get_arguments().filter(|arg| !above.contains(&arg.get_id().as_str())).collect();
    let below = || command.get_subcommands().filter(|below| below.get_name() != "help");
    let line = json!({
        "path": path,
        "commands": below().map(Command::get_name).collect::<Vec<_>>(),
        "needs_more": command.is_subcommand_required_set() || command.get_arguments().any(Arg::is_required_set),
        "takes_anything": command.get_arguments().any(Arg::is_trailing_var_arg_set),
        "arguments": own.iter().map(|arg| argument(command, arg)).collect::<Vec<_>>(),
    });
    writeln!(out, "{line}")?;
    let above: Vec<&str> = command.get_arguments().map(|arg| arg.get_id().as_str()).collect();
    for inner in below() {
        path.push(inner.get_name().to_owned());
        print(inner, path, &above, out)?;
        path.pop();
    }
    Ok(())
}

fn argument(command: &Command, arg: &Arg) -> serde_json::Value {
    let conflicts = match arg.is_global_set() {
        true => Vec::new(),
        false => command.get_arg_conflicts_with(arg),
    };
    json!({
        "long": arg.get_long(),
        "short": arg.get_short(),
        "value": arg.get_action().takes_values().then(|| kind(arg)),
        "choices": arg.get_possible_values().iter().map(|value| value.get_name()).collect::<Vec<_>>(),
        "name": arg.get_value_names().and_then(|names| names.first()).map(|name| name.as_str()),
        "conflicts": conflicts.iter().filter_map(|other| other.get_long()).collect::<Vec<_>>(),
    })
}

/// What values an argument has.
fn kind(arg: &Arg) -> &'static str {
    let of = arg.get_value_parser().type_id();
    let is = |types: &[TypeId]| types.iter().any(|one| of == *one);
    let (whole, signed, real) = (
        [
            TypeId::of::<u8>(),
            TypeId::of::<u16>(),
            TypeId::of::<u32>(),
            TypeId::of::<u64>(),
            TypeId::of::<usize>(),
        ],
        [
            TypeId::of::<i8>(),
            TypeId::of::<i16>(),
            TypeId::of::<i32>(),
            TypeId::of::<i64>(),
            TypeId::of::<isize>(),
        ],
        [TypeId::of::<f32>(), TypeId::of::<f64>()],
    );
    match () {
        () if is(&whole) => "whole",
        () if is(&signed) => "signed",
        () if is(&real) => "real",
        () if is(&[TypeId::of::<PathBuf>()]) => "path",
        () if is(&[TypeId::of::<String>()]) => "text",
        () => "other",
    }
}
