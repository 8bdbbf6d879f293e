//! The benchmark's program: `isorb-bench two-way --quick`.

use std::env::args_os;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = args_os().skip(1).peekable();
    if args.peek().is_some_and(|first| first == isorb_bench::PEER) {
        isorb_bench::peer(args.skip(1))
    } else {
        isorb_bench::main(args)
    }
}
