//! `isorb demo calls`: a servant found by name and called, in three processes.

use super::process::Process;
use indicatif::{ProgressBar, ProgressStyle};
use isorb::Orb;
use isorb_example_sensors::Thermometer;
use isorb_example_sensors::sensors::{ProbeRef, probe::SampleError};
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Arguments of `isorb demo calls`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of calls to measure, of each kind.
    #[arg(long, default_value_t = 50_000)]
    pub calls: usize,
}

/// Arguments of the ORB.
#[derive(Debug, clap::Args)]
pub struct ServerArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    orb: Vec<String>,
}

/// Serves the thermometer as `lab/t1` until standard input ends.
pub fn serve(args: &ServerArgs) -> Result<(), Box<dyn Error>> {
    let orb = Orb::init(args.orb.iter().cloned())?;
    let probe: ProbeRef = orb.root_poa()?.activate(Arc::new(Thermometer::default()))?;
    isorb_naming::Naming::initial(&orb)?.bind("lab/t1", &probe)?;
    println!("READY {}", std::process::id());
    let background = orb.clone();
    std::thread::spawn(move || {
        // The process that started this one holds the other end of the pipe.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = background.shutdown(false);
    });
    orb.run();
    Ok(())
}

pub fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let naming = Process::start("naming", &["--memory", "--port", "0"])?;
    let name_service = naming.ready.split_whitespace().last().unwrap_or_default().to_string();
    print("naming service", &format!("process {}, {name_service}", naming.child.id()));
    let reference = format!("NameService={name_service}");
    let server = Process::start("demo-server", &["--", "-ORBInitRef", &reference])?;
    print("servant", &format!("process {}, bound as lab/t1", server.child.id()));

    let orb = Orb::init(["-ORBInitRef".to_string(), reference])?;
    let probe: ProbeRef = orb.resolve("corbaname:rir:#lab/t1")?;
    print("client", "found it by corbaname:rir:#lab/t1");
    println!("\n  probe.name() = {:?}", probe.name()?);
    for channel in [0, 3, 7] {
        match probe.sample(channel) {
            Ok((reading, unit)) => println!("  probe.sample({channel}) = {} {unit}", reading.value),
            Err(SampleError::Offline(offline)) => {
                println!("  probe.sample({channel}) raised Offline: {}", offline.reason)
            }
            Err(SampleError::System(exception)) => return Err(exception.into()),
        }
    }
    for _ in 0..10 {
        probe.feed(&[0; 1000])?;
    }
    probe.ping()?;
    println!("  10 oneway probe.feed(1000 octets), probe.fed() = {}\n", probe.fed()?);

    let frame = [7u8; 4096];
    println!("  {:<22}{:>10}{:>12}{:>12}{:>12}", "call", "n", "p50", "p99", "max");
    measure("ping()", args.calls, || probe.ping())?;
    for size in [64, 4096] {
        let frame = &frame[..size];
        let call = || orb.scope(|scope| probe.echo_in(scope, frame).map(drop));
        measure(&format!("echo({size} octets)"), args.calls, call)?;
    }
    println!(
        "\nTwo processes over loopback TCP, ordinary scheduling; `isorb-bench two-way` measures under equal conditions."
    );
    println!("Next: docs/tutorials/first-steps.md takes you from an IDL file to a served object.");
    Ok(())
}

fn print(party: &str, event: &str) {
    println!("{party:>16}  {event}");
}

/// Makes `n` calls and prints their latencies.
fn measure(name: &str, n: usize, mut call: impl FnMut() -> isorb::Result<()>) -> isorb::Result<()> {
    let begin = Instant::now();
    let mut bar: Option<ProgressBar> = None;
    let mut took = Vec::with_capacity(n);
    for i in 0..n {
        let start = Instant::now();
        call()?;
        took.push(start.elapsed());
        if i % 256 == 0 && begin.elapsed() > Duration::from_secs(1) {
            let bar = bar.get_or_insert_with(|| progress(n));
            bar.set_position(i as u64);
        }
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    took.sort_unstable();
    let at =
        |part: f64| took.get((part * (n.saturating_sub(1)) as f64) as usize).copied().unwrap_or_default();
    let micros = |time: Duration| format!("{:.1} µs", time.as_nanos() as f64 / 1e3);
    println!("  {name:<22}{n:>10}{:>12}{:>12}{:>12}", micros(at(0.5)), micros(at(0.99)), micros(at(1.0)));
    Ok(())
}

fn progress(n: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("  {bar:30} {pos}/{len} calls, {eta} left");
    let bar = ProgressBar::new(n as u64);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
