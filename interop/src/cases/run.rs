//! Runs the cases and prints a line for each.

use super::CASES;
use crate::check::{Run, Stop};
use crate::generated::interop::SuiteRef;
use crate::options::Options;
use std::error::Error;
use std::io::Write;

/// Runs the selected cases; returns the number of failures.
///
/// # Errors
/// The reason why it could not start.
pub fn run(options: &Options) -> Result<usize, Box<dyn Error>> {
    let orb = options.orb()?;
    for name in &options.only {
        if !CASES.iter().any(|(case, _)| case == name) {
            return Err(format!("no case {name}").into());
        }
    }
    // Call-backs need a server here too.
    orb.root_poa()?.manager().activate()?;
    let suite: Option<SuiteRef> = match options.ior.as_str() {
        "" => None,
        ior if options.dynamic => crate::dynamic::relay_of(&orb, orb.string_to_object(ior)?)?.narrow()?,
        ior => Some(orb.resolve(ior)?),
    };
    let lacks = suite.as_ref().map_or(Ok(Vec::new()), SuiteRef::unsupported)?;
    let peer = suite.as_ref().map_or(Ok(String::new()), SuiteRef::peer)?;
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for (name, case) in CASES {
        if !options.only.is_empty() && !options.only.iter().any(|only| only == name) {
            continue;
        }
        let run = Run { orb: &orb, options, suite: suite.as_ref(), current: name };
        let outcome = match why_not(options, name, &peer, &lacks) {
            Some(reason) => Err(Stop::Skip(reason.into())),
            None => case(&run).map_err(|stop| unless_wide_is_unknown(stop, name)),
        };
        let (word, reason) = match outcome {
            Ok(()) => ("ok", String::new()),
            Err(Stop::Fail(reason)) => ("FAIL", reason),
            Err(Stop::Skip(reason)) => ("skip", reason),
        };
        *match word {
            "ok" => &mut passed,
            "FAIL" => &mut failed,
            _ => &mut skipped,
        } += 1;
        println!("{}", format!("{word} {name} {}", reason.replace('\n', " ")).trim());
        std::io::stdout().flush()?;
    }
    println!("done {passed} ok {failed} failed {skipped} skipped");
    std::io::stdout().flush()?;
    orb.shutdown(false)?;
    Ok(failed)
}

/// A server of GIOP 1.1 may name no code set for wide characters.
fn unless_wide_is_unknown(stop: Stop, name: &str) -> Stop {
    match stop {
        Stop::Fail(reason) if name.contains("wide") && reason.contains("names no code set for wide text") => {
            Stop::Skip("the reference names no wide code set".into())
        }
        other => other,
    }
}

fn why_not(o: &Options, name: &str, peer: &str, lacks: &[String]) -> Option<&'static str> {
    let wide = name.contains("wide");
    Some(match name {
        _ if lacks.iter().any(|lack| lack == name) => "the server does not support it",
        "wide_chars" if o.giop == "1.1" && peer == "jacorb" => "JacORB aligns no wchar in GIOP 1.1",
        "naming" if o.ns.is_empty() => "needs --ns",
        "naming" => return None,
        _ if o.ior.is_empty() => "needs --ior",
        "utf8_strings" if !o.utf8 => "needs --utf8",
        "bidirectional" if !o.bidir => "needs --bidir",
        "interleaving" if !o.interleave => "needs --interleave",
        "bidirectional" if !o.is_giop_1_2() => "GIOP 1.2 only",
        _ if wide && o.giop == "1.0" => "GIOP 1.0 has no wide characters",
        _ => return None,
    })
}
