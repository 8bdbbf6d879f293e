//! Compiles IDL files and shows what was understood: `check [-I DIR]... [-D NAME[=VALUE]]...
//! [--dump] FILE...`

use isorb_idl::{Options, compile};
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let (mut options, mut files, mut dump) = (Options::default(), Vec::new(), false);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-I" => options.include_dirs.extend(args.next().map(PathBuf::from)),
            "-D" => {
                let define = args.next().unwrap_or_default();
                let (name, value) = define.split_once('=').unwrap_or((&define, "1"));
                options.defines.push((name.to_owned(), value.to_owned()));
            }
            "--dump" => dump = true,
            _ => files.push(PathBuf::from(arg)),
        }
    }
    let mut good = true;
    for file in files {
        let outcome = compile(&options, &file);
        eprint!("{}", outcome.render(false));
        good &= !outcome.has_errors();
        if let Some(spec) = outcome.spec.filter(|_| dump) {
            print!("{}", spec.dump());
        }
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
