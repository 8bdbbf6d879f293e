//! `isorb demo avionics`: the mission computer of the TAO event service paper, in two processes.
//!
//! Sensors run at 30, 15 and 5 Hz and push readings. Facades combine readings: navigation waits for
//! attitude and air data, targeting for navigation and the radar of the other process. The display
//! shows position and target, and detects when they become stale. Parts do not know each other;
//! each declares its filter, rate and cost.

use super::cast::{
    AIR, ATTITUDE, FAST, FIX, MIDDLE, NAVIGATION, Part, Player, RADAR, SLOW, TARGET, declared,
};
use super::machine::{CALL, Machine, room};
use super::process::Process;
use super::report::{print_link, print_players, record};
use crate::commands::timeline::{read, write};
use indicatif::{ProgressBar, ProgressStyle};
use isorb::Orb;
use isorb_event::servants::{FederationServant, LinkOptions};
use isorb_event::{ConnectError, Filter};
use isorb_rt::time::now_ns;
use isorb_timeline::Timeline;
use isorb_trace::{Phase, Refusal, encode};
use std::error::Error;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Arguments of `isorb demo avionics`.
#[derive(Debug, clap::Args)]
#[group(id = "flight")]
pub struct Args {
    /// Duration of the flight in seconds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Folder for the timeline and the traces [default: a new one in the folder for temporary
    /// files].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Real-time threads: require, prefer, off.
    #[arg(long, default_value = "prefer")]
    real_time: String,
}

/// The display detects a missing position or target after this time, two and a half periods.
const STALE: Duration = Duration::from_millis(500);

pub fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let folder = match &args.out {
        Some(folder) => folder.clone(),
        // Other users can neither predict nor enter it.
        None => {
            let private = Permissions::from_mode(0o700);
            tempfile::Builder::new().prefix("isorb-avionics-").permissions(private).tempdir()?.keep()
        }
    };
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let pod_trace = folder.join("pod.trace");

    let machine = Machine::start(1, &args.real_time, args.seconds)?;
    let orb = Orb::init(["-ORBListenEndpoints", "127.0.0.1:0"].map(String::from))?;
    let neighbourhood = FederationServant::start(&orb, &machine.federation, LinkOptions::new(CALL))?;
    orb.root_poa()?.manager().activate()?;
    println!(
        "mission computer   process {}, {}",
        std::process::id(),
        if machine.one_processor {
            "real-time threads on one processor"
        } else if args.real_time == "off" {
            "ordinary threads"
        } else {
            "ordinary threads: deadlines may be missed (isorb doctor says what real-time threads need)"
        }
    );
    let url = neighbourhood.object().to_string();
    let seconds = args.seconds.to_string();
    let trace = pod_trace.to_str().ok_or("the folder's name is not UTF-8")?;
    let pod = Process::start(
        "demo-pod",
        &["--join", &url, "--trace", trace, "--seconds", &seconds, "--real-time", &args.real_time],
    )?;
    println!("sensor pod         process {}, joined over GIOP", pod.child.id());

    let players: Vec<Player> = parts()
        .into_iter()
        .map(|part| Player::connect(&machine.channel, part, room(args.seconds)))
        .collect::<Result<_, _>>()?;
    println!("\nadmitted by response-time analysis, rate-monotonic:");
    for status in machine.channel.consumers() {
        if let Some(player) = players.iter().find(|player| player.consumer.id() == status.id) {
            let (cost, period) = (declared(player.works), player.period);
            let priority = status.priority.get();
            println!("  {:<13}{cost:>9.1?} every {period:>9.1?}, at priority {priority}", player.name);
        }
    }
    let video = part("video", Filter::of_type(RADAR), MIDDLE, 30, None);
    let refused = match Player::connect(&machine.channel, video, 1) {
        Err(ConnectError::NotAdmitted(why)) => Refusal { name: "video".to_owned(), why: why.to_string() },
        Err(other) => return Err(other.into()),
        Ok(_) => return Err("video was admitted, though it cannot meet its deadline".into()),
    };
    println!("refused: {}", refused.why);

    let quiet = fly(args, &machine, &players);
    let mut recording = record("mission computer (process 1)", &machine, &players, "from the pod");
    recording.phases.push(quiet);
    recording.refused.push(refused);
    print_players(&players, &recording);
    print_link(&machine.federation.counts());
    // The recording comes first, since a channel forgets the names of disconnected parties.
    print!("{}", pod.finish()?);
    drop(players);
    machine.channel.destroy();
    orb.shutdown(false)?;

    let mission_trace = folder.join("mission.trace");
    write(&mission_trace, encode(&recording))?;
    let timeline = Timeline::of("isorb demo avionics", &[recording, read(&pod_trace)?]);
    let (page, perfetto) = (folder.join("timeline.html"), folder.join("perfetto.json"));
    write(&page, timeline.page())?;
    write(&perfetto, timeline.perfetto())?;
    println!(
        "\nresp.: from the event's arrival at the channel to the consumer's return; age: since the sensor or facade made it"
    );
    println!("timeline  {}", page.display());
    println!("Perfetto  {}", perfetto.display());
    println!("traces    {} {}", mission_trace.display(), pod_trace.display());
    Ok(())
}

fn parts() -> Vec<Part> {
    let all = |types: [i32; 2]| Filter::all_of(types.map(Filter::of_type));
    vec![
        part("inertial", Filter::interval(FAST), FAST, 1, Some(ATTITUDE)),
        part("air data", Filter::interval(MIDDLE), MIDDLE, 1, Some(AIR)),
        part("gps", Filter::interval(SLOW), SLOW, 1, Some(FIX)),
        part("navigation", all([ATTITUDE, AIR]), MIDDLE, 2, Some(NAVIGATION)),
        part("targeting", all([NAVIGATION, RADAR]), MIDDLE, 4, Some(TARGET)),
        part("display", Filter::any_of([all([FIX, TARGET]), Filter::deadline(STALE)]), SLOW, 30, None),
    ]
}

fn part(name: &'static str, filter: Filter, period: Duration, works: u64, pushes: Option<i32>) -> Part {
    Part { name, filter, period, works: Duration::from_millis(works), pushes }
}

/// Runs the parts. The GPS is silent in the third quarter, so that the display has a stale
/// position. Returns that time.
fn fly(args: &Args, machine: &Machine, players: &[Player]) -> Phase {
    let whole = Duration::from_secs(args.seconds);
    let quiet = whole / 2..whole * 3 / 4;
    println!("\nflying for {whole:?}; the GPS is silent from {:.1?} to {:.1?}", quiet.start, quiet.end);
    let gps = players.iter().find(|player| player.name == "gps");
    let bar = ProgressBar::new(whole.as_millis() as u64);
    if let Ok(style) = ProgressStyle::with_template("  {bar:30} {msg}") {
        bar.set_style(style);
    }
    let (start, begun) = (Instant::now(), now_ns());
    let mut ticked = start;
    while start.elapsed() < whole {
        let now = start.elapsed();
        if let Some(gps) = gps {
            gps.worker.silence(quiet.contains(&now));
        }
        if ticked.elapsed() > Duration::from_secs(1) {
            ticked = Instant::now();
            machine.tick();
        }
        let counts = players.iter().map(|player| player.consumer.counts());
        let (calls, missed) = counts.fold((0, 0), |(c, m), n| (c + n.pushed, m + n.missed));
        let link = machine.federation.counts();
        bar.set_position(now.as_millis() as u64);
        bar.set_message(format!(
            "{:.1} s, {calls} calls, {missed} missed, link {} out {} in",
            now.as_secs_f64(),
            link.forwarded,
            link.received
        ));
        std::thread::sleep(Duration::from_millis(50).min(whole.saturating_sub(now)));
    }
    bar.finish_and_clear();
    let at = |time: Duration| begun + time.as_nanos() as u64;
    Phase { from: at(quiet.start), to: at(quiet.end), caption: "GPS silent".to_owned() }
}
