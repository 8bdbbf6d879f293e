//! `isorb timeline`: draws traces as a page, and converts them for Perfetto.

use crate::commands::arguments::{to_read, to_write};
use isorb_timeline::Timeline;
use isorb_trace::{Recording, decode};
use std::error::Error;
use std::path::{Path, PathBuf};

/// Arguments of `isorb timeline`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Trace files on one time axis: of one machine, or of members of a federation on several.
    #[arg(required = true, value_name = "FILE", value_parser = to_read())]
    files: Vec<PathBuf>,
    /// File for the page [default: the first trace file with the extension .html].
    #[arg(long, value_name = "PAGE", value_parser = to_write())]
    out: Option<PathBuf>,
    /// File for a trace that ui.perfetto.dev and chrome://tracing open.
    #[arg(long, value_name = "FILE", value_parser = to_write())]
    perfetto: Option<PathBuf>,
}

pub fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let recordings: Vec<Recording> = args.files.iter().map(|file| read(file)).collect::<Result<_, _>>()?;
    let first = args.files.first().ok_or("no file was named")?;
    let title = first.file_stem().unwrap_or_default().to_string_lossy();
    let timeline = Timeline::of(title, &recordings);
    let page = args.out.clone().unwrap_or_else(|| first.with_extension("html"));
    write(&page, timeline.page())?;
    println!("{}", page.display());
    for (name, clock) in timeline.channels.iter().zip(&timeline.clocks) {
        if let Some(isorb_timeline::Clock { offset, bound }) = clock {
            println!(
                "{name}: its host's clock is {:.6} s from that of {}; its times are right to {:.3} us",
                *offset as f64 / 1e9,
                timeline.channels[0],
                *bound as f64 / 1e3
            );
        }
    }
    if let Some(file) = &args.perfetto {
        write(file, timeline.perfetto())?;
        println!("{}", file.display());
    }
    Ok(())
}

/// Reads a trace file.
pub fn read(file: &Path) -> Result<Recording, String> {
    let octets = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    decode(&octets).map_err(|error| format!("{}: {error}", file.display()))
}

/// Writes a file. The error names it.
pub fn write(file: &Path, content: impl AsRef<[u8]>) -> Result<(), String> {
    std::fs::write(file, content).map_err(|error| format!("{}: {error}", file.display()))
}
