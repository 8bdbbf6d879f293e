//! The processes of the control room; without a subcommand, all of them.
#![forbid(unsafe_code)]

mod image;
mod room;

use image::{Image, SIZE};
use isorb::{Config, Orb, Reference};
use isorb_reflective_memory::Library;
use isorb_reflective_memory::coordinator::{Coordinator, MemoryStore};
use isorb_reflective_memory::idl::{Area, Glob_CommRef, Mode, Path, ReaderQoS, WriterQoS};
use isorb_reflective_memory::memory::{ReadError, State, WaitError};
use isorb_reflective_memory::node::{NodeServer, ServerConfig};
use std::error::Error;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Nanoseconds between two images.
const PERIOD_NS: u64 = 10_000_000;

/// How many images of a plant's last run a display waits for.
const IMAGES: u32 = 400;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words[..] {
        [] => room::run(None),
        ["room", program] => room::run(Some(program)),
        ["coordinator"] => coordinator(),
        ["server", name, socket, coordinator] => server(name, socket, coordinator),
        ["plant", number, run, socket] => plant(number, run, socket),
        ["display", number, runs, socket] => display(number, runs, socket),
        _ => Err("usage: plant [room CPP-DISPLAY | coordinator | server NAME SOCKET URL | plant N RUN SOCKET | display PLANT RUNS SOCKET]".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("plant: {error}");
            ExitCode::FAILURE
        }
    }
}

fn orb() -> Result<Orb, Box<dyn Error>> {
    let orb = Orb::with_config(Config { endpoints: vec!["127.0.0.1:0".into()], ..Config::default() })?;
    orb.root_poa()?;
    Ok(orb)
}

/// Prints that this process is ready, for its parent.
fn ready(what: &dyn std::fmt::Display) -> std::io::Result<()> {
    let mut output = std::io::stdout();
    writeln!(output, "READY {what}")?;
    output.flush()
}

fn coordinator() -> Result<(), Box<dyn Error>> {
    let orb = orb()?;
    let coordinator = Coordinator::start(&orb, Arc::new(MemoryStore::default()))?;
    ready(coordinator.object().object())?;
    orb.run();
    Ok(())
}

fn server(name: &str, socket: &str, coordinator: &str) -> Result<(), Box<dyn Error>> {
    let orb = orb()?;
    let coordinator: Glob_CommRef = orb.resolve(coordinator)?;
    let _server = NodeServer::start(&orb, ServerConfig::new(name, socket), Some(coordinator))?;
    ready(&name)?;
    orb.run();
    Ok(())
}

/// Writes an image every period until it is killed.
fn plant(number: &str, run: &str, socket: &str) -> Result<(), Box<dyn Error>> {
    let (plant, run): (u32, u32) = (number.parse()?, run.parse()?);
    let library = Library::connect(&orb()?, socket)?;
    let name = format!("plant/{plant}");
    if run == 1 {
        library.open_or_create(&Area::new(&name, SIZE as u32, 4))?;
    }
    let mut writer = library.map_writer(&name, WriterQoS { period: PERIOD_NS, size: 0, type_hash: 0 })?;
    let mut octets = [0; SIZE];
    for count in 1.. {
        Image::at(plant, run, count).write(&mut octets);
        writer.write(&octets)?;
        if count == 1 {
            ready(&name)?;
        }
        std::thread::sleep(Duration::from_nanos(PERIOD_NS));
    }
    Ok(())
}

/// Shows a plant until it has read [`IMAGES`] images of its last run. The plant is started `runs`
/// times.
fn display(number: &str, runs: &str, socket: &str) -> Result<(), Box<dyn Error>> {
    let (plant, runs): (u32, u32) = (number.parse()?, runs.parse()?);
    let library = Library::connect(&orb()?, socket)?;
    let qos = ReaderQoS {
        how: Mode::PushOnWrite,
        period: 0,
        deadline: 200_000_000,
        histories: 2,
        guaranteed: false,
        soft: false,
        through: Path::PathUdp,
        parity: 0,
        type_hash: 0,
    };
    let mut reader = library.attach_reader(&format!("plant/{plant}"), qos)?;
    ready(&plant)?;
    let mut octets = [0; SIZE];
    let (mut seen, mut of_last, mut gone, mut last) = (0_u64, 0, 0, (0, 0));
    let start = Instant::now();
    while of_last < IMAGES {
        if start.elapsed() > Duration::from_secs(100) {
            return Err(format!("plant {plant}: {seen} images in 100 s, {of_last} of run {runs}").into());
        }
        match reader.wait(Duration::from_secs(1)) {
            Ok(()) => {}
            Err(WaitError::Changed(State::WriterGone)) => gone += 1,
            Err(_) => continue,
        }
        let sample = match reader.latest(&mut octets) {
            Ok(sample) => sample,
            Err(ReadError::Empty | ReadError::Lapped) => continue,
            Err(error) => return Err(error.into()),
        };
        let image = Image::read(&octets[..sample.len]).ok_or("an image that no plant wrote")?;
        if image.plant != plant || (image.run, image.count) < last {
            return Err(format!("plant {plant}: {image:?} after {last:?}").into());
        }
        seen += u64::from((image.run, image.count) > last);
        last = (image.run, image.count);
        of_last += u32::from(image.run == runs);
    }
    if runs > 1 && gone == 0 {
        return Err(format!("plant {plant} was killed, and its display was not informed").into());
    }
    let statistics = reader.statistics()?;
    println!(
        "plant {plant}: {seen} images, {} lost on the way, writer gone {gone} times, last {last:?}",
        statistics.lost
    );
    Ok(())
}
