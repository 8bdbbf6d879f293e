//! `isorb event ls`.

use super::Outcome;
use crate::commands::arguments::object_url;
use crate::commands::event_control::operator_at;
use isorb::{Kind, Orb};
use isorb_event::servants::isorb_link::isorb_event::{ChannelState, OperatorRef};
use std::io::Write;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// URL of the channel, from its line READY.
    #[arg(value_parser = object_url)]
    url: String,
}

pub fn run(args: &Args, orb: &Orb) -> Outcome {
    let operator: OperatorRef = orb.resolve(&operator_at(&args.url)?)?;
    let state = operator.state().map_err(|error| match error.kind {
        Kind::ObjectNotExist | Kind::BadOperation => {
            format!("{}: only channels of `isorb event-channel` can be listed: {error}", args.url)
        }
        _ => error.to_string(),
    })?;
    print(&state)
}

fn print(state: &ChannelState) -> Outcome {
    let mut output = std::io::stdout().lock();
    writeln!(
        output,
        "{:>5}  {:<24} {:>8} {:>5} {:>9} {:>11} {:>10} {:>8} {:>8} {:>8} {:>7}",
        "ID",
        "CONSUMER",
        "PRIORITY",
        "LEVEL",
        "PROCESSOR",
        "QUEUE",
        "PUSHED",
        "LOST",
        "EXPIRED",
        "TOO SOON",
        "FAILED"
    )?;
    for of in &state.consumers {
        let name = if of.suspended { format!("{} (suspended)", of.name) } else { of.name.clone() };
        writeln!(
            output,
            "{:>5}  {name:<24} {:>8} {:>5} {:>9} {:>11} {:>10} {:>8} {:>8} {:>8} {:>7}",
            of.id,
            of.priority,
            of.level,
            if of.processor.is_empty() { "any" } else { &of.processor },
            format!("{}/{}", of.waiting, of.queue),
            of.pushed,
            of.lost,
            of.expired,
            of.too_soon,
            of.failed
        )?;
    }
    if state.keeps_history {
        writeln!(
            output,
            "\n{:>6} {:>7} {:>7} {:>12} {:>8}",
            "TYPE", "SOURCE", "KEPT", "OVERWRITTEN", "TOO OLD"
        )?;
        for of in &state.history {
            writeln!(
                output,
                "{:>6} {:>7} {:>7} {:>12} {:>8}",
                of.type_, of.source, of.kept, of.overwritten, of.aged
            )?;
        }
    } else {
        writeln!(output, "\nno history (isorb event-channel --keep-last)")?;
    }
    for (count, of) in [
        (state.not_kept, "events were not kept (--keep-payload, --keep-streams)"),
        (state.undeclared, "events that their suppliers had not declared"),
        (state.unknown_proxies, "pushes to proxies that the channel does not have"),
        (state.suppliers_lost, "suppliers were removed because they did not answer"),
        (state.not_owned, "events were dropped because a stronger supplier owns their type and source"),
        (state.owners_changed, "times a type and source got another owner"),
        (state.instances_missed, "times a type and source was silent for longer than a consumer's period"),
    ] {
        if count > 0 {
            writeln!(output, "{count} {of}")?;
        }
    }
    Ok(())
}
