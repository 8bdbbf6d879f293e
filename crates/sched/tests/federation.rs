//! Several channels and their links in one analysis.

use isorb_sched::federation::{FederationFile, FederationReport};
use isorb_sched::{Nanos, Utilisation};

const RADAR: &str = "
policy = 'rms'
priorities = [100, 30000]
[[operation]]
name = 'imu'
cost = '1 ms'
period = '20 ms'
[[operation]]
name = 'log'
cost = '4 ms'
period = '100 ms'
";
const DISPLAY: &str = "
policy = 'rms'
priorities = [100, 30000]
[[operation]]
name = 'show'
cost = '2 ms'
deadline = '15 ms'
[[operation]]
name = 'poll'
cost = '1 ms'
period = '5 ms'
";
/// 10 Mbit/s: a packet of 1448 octets takes 1.2304 ms.
const LINK: &str = "
[[link]]
name = 'up'
from = 'radar'
to = 'display'
rate = '10 Mbit/s'
delay = '300 us'
clock_error = '100 us'
";
const EVENT: &str = "
[[event]]
from = 'radar/imu'
to = ['display/show']
octets = 840
";

fn channels(names: &[&str]) -> String {
    names.iter().map(|name| format!("[[channel]]\nname = '{name}'\nschedule = '{name}'\n")).collect()
}

fn read(text: &str, schedules: &[(&str, &str)]) -> Result<FederationReport, String> {
    let schedule = |name: &str| {
        let found = schedules.iter().find(|(known, _)| *known == name);
        found.map(|(_, text)| (*text).to_string()).ok_or("no such file".to_string())
    };
    let file = FederationFile::parse("f.toml", text, schedule).map_err(|error| error.to_string())?;
    file.topology.check().map_err(|error| file.at(&error).to_string())
}

fn two(text: &str) -> Result<FederationReport, String> {
    read(&(channels(&["radar", "display"]) + text), &[("radar", RADAR), ("display", DISPLAY)])
}

fn us(us: u64) -> Option<Nanos> {
    Some(Nanos::from_us(us))
}

#[test]
fn the_worst_case_counts_from_the_creation_at_another_host() {
    let report = two(&(LINK.to_string() + EVENT)).unwrap();
    assert!(report.holds(), "{}", report.text());
    let path = &report.paths[0];
    assert_eq!((path.consumer.as_str(), path.origin.as_str()), ("display/show", "radar/imu"));
    // 1 ms at radar. 1000 octets and 90 around them take 872 us, behind a packet of 1538 octets of
    // other traffic. 400 us of delay and clock error. 2 ms at display and 1 ms of poll before it.
    assert_eq!(
        path.worst,
        us(1_000 + 872 + 1_231 + 400 + 2_000 + 1_000).map(|time| time.minus(Nanos::new(600)))
    );
    let places: Vec<&str> = path.parts.iter().map(|part| part.place.as_str()).collect();
    assert_eq!(places, ["at radar", "on link up", "for delays and clock errors", "at display"]);
    assert_eq!(path.parts.iter().map(|part| part.time).sum::<Nanos>(), path.worst.unwrap());
    // 1000 octets each 20 ms, and one that was late with the next.
    let pace = report.links[0].paces[0];
    assert_eq!((pace.octets_per_second, pace.burst), (50_000, 2_000));
    assert!(report.text().contains("--pace 3=50000:2000"), "{}", report.text());
}

#[test]
fn an_unmarked_link_counts_the_queue_of_other_traffic() {
    let unmarked = LINK.to_string() + "marked = false\nqueue = 100_000\n" + EVENT;
    let report = two(&unmarked).unwrap();
    assert!(!report.holds());
    let [refusal] = &report.refusals[..] else { panic!("{:?}", report.refusals) };
    // 100,000 octets in 70 packets take 85.04 ms.
    assert!(
        refusal.starts_with("display/show: event radar/imu of radar/imu takes up to 90.312 ms"),
        "{refusal}"
    );
    assert!(
        refusal.contains("its deadline is 15 ms; most of it, 85.912 ms, on link up (unmarked, behind"),
        "{refusal}"
    );
    let unknown = LINK.to_string() + "marked = false\n" + EVENT;
    let error = two(&unknown).unwrap_err();
    assert!(error.starts_with("f.toml:9: up: its events are not marked, and"), "{error}");
}

#[test]
fn more_urgent_events_go_first_and_other_levels_only_wait_for_a_packet() {
    // A bulk transfer of 20,000 octets every 100 ms on the same link.
    let bulk = "
[[event]]
name = 'bulk'
from = 'radar/log'
to = ['display/poll']
octets = 20_000
level = 0
";
    let alone = two(&(LINK.to_string() + EVENT)).unwrap();
    let together = two(&(LINK.to_string() + EVENT + bulk)).unwrap();
    let of = |report: &FederationReport| {
        report.paths.iter().find(|path| path.event == "radar/imu").cloned().unwrap()
    };
    let link = |report: &FederationReport| {
        of(report).parts.iter().find(|part| part.place == "on link up").unwrap().time
    };
    // It waits for one packet in either case; bulk waits for it.
    assert!(link(&together).minus(link(&alone)) <= Nanos::new(1_230_400), "{}", together.text());
    // In one queue it waits for all of bulk.
    let same = two(&(LINK.to_string() + EVENT + &bulk.replace("level = 0", "level = 3"))).unwrap();
    assert!(link(&same) > link(&alone).plus(Nanos::from_ms(16)), "{}", same.text());
}

#[test]
fn a_link_with_more_events_than_it_carries_is_named() {
    let slow = LINK.replace("10 Mbit/s", "400 kbit/s");
    let report = two(&(slow + EVENT)).unwrap();
    assert!(report.links[0].utilisation > Utilisation::ONE);
    let text = report.refusals.join("\n");
    assert!(text.contains("link up: its events ask for 109"), "{text}");
    assert!(
        text.contains("display/show: event radar/imu of radar/imu has no bound from its creation (link up)"),
        "{text}"
    );
}

#[test]
fn several_links_and_what_follows_the_consumer() {
    let relay = "
[[operation]]
name = 'busy'
cost = '1 ms'
period = '10 ms'
";
    let display = "
[[operation]]
name = 'track'
kind = 'remote-dependant'
period = '20 ms'
jitter = '1 ms'
[[operation]]
name = 'fuse'
cost = '1 ms'
after = ['track']
deadline = '30 ms'
[[operation]]
name = 'show'
cost = '1 ms'
after = ['fuse']
deadline = '40 ms'
";
    let text = channels(&["radar", "relay", "display"])
        .replace("schedule = 'relay'", "schedule = 'relay'\ngateway = '100 us'")
        + "
[[link]]
name = 'one'
from = 'radar'
to = 'relay'
rate = '100 Mbit/s'
both_ways = true
[[link]]
name = 'two'
from = 'relay'
to = 'display'
rate = '100 Mbit/s'
delay = '1 ms'
[[event]]
from = 'radar/imu'
to = ['display/track', 'relay/busy']
octets = 100
";
    let report = read(&text, &[("radar", RADAR), ("relay", relay), ("display", display)]).unwrap();
    assert!(report.holds(), "{}", report.text());
    let of = |name: &str| report.paths.iter().find(|path| path.consumer == name).unwrap();
    let (fuse, show) = (of("display/fuse"), of("display/show"));
    assert!(show.worst > fuse.worst, "{}", report.text());
    let places: Vec<&str> = fuse.parts.iter().map(|part| part.place.as_str()).collect();
    assert_eq!(
        places,
        ["at radar", "on link one", "at relay", "on link two", "for delays and clock errors", "at display"]
    );
    // The schedule of display would have to declare this instead of 1 ms. Both operations there
    // have the same period, and each may wait for the other.
    assert_eq!(fuse.released.map(|late| late.plus(Nanos::from_ms(2))), fuse.worst);
    assert_eq!(show.released, None);
    assert!(of("relay/busy").worst.is_some());
}

#[test]
fn channels_that_release_each_other() {
    let circle = "
[[link]]
name = 'up'
from = 'radar'
to = 'display'
rate = '10 Mbit/s'
both_ways = true
[[event]]
from = 'radar/imu'
to = ['display/show']
octets = 100
[[event]]
from = 'display/show'
to = ['radar/imu']
octets = 100
";
    let error = two(circle).unwrap_err();
    assert!(error.contains("radar/imu: it depends on itself"), "{error}");
    // To and fro, but not in a circle: each waits for the other's processor.
    let answered = circle.replace("to = ['radar/imu']", "to = ['radar/log']");
    let report = two(&answered).unwrap();
    assert_eq!(report.paths.len(), 2, "{}", report.text());
    assert!(report.paths.iter().all(|path| path.worst.is_some()), "{}", report.text());
}

#[test]
fn faults_name_the_file_the_line_and_what_to_do() {
    let good = LINK.to_string() + EVENT;
    for (from, to, message) in [
        ("radar/imu", "radar/gps", "f.toml:17: radar/gps: the schedule of radar has no operation gps"),
        ("radar/imu", "radar", "f.toml:17: radar: give a channel and its operation, as in radar/imu"),
        (
            "'display/show'",
            "'radar/log'",
            "f.toml:17: radar/imu: its supplier and its consumer are both at radar",
        ),
        (
            "from = 'radar'\nto = 'display'",
            "from = 'display'\nto = 'radar'",
            "f.toml:17: radar/imu: no links lead from radar to display",
        ),
        ("to = 'display'", "to = 'shore'", "f.toml:11: shore: there is no channel of this name"),
        ("10 Mbit/s", "10 MB", "f.toml:12: a rate is a whole number and a unit"),
        ("10 Mbit/s", "0 Mbit/s", "f.toml:12: a rate is a whole number and a unit"),
        ("octets = 840", "octets = 840\nlevel = 4", "f.toml:17: radar/imu: its level is one of 0 to 3"),
        ("octets = 840", "octets = 840\nover = ['down']", "f.toml:20: down: there is no link of this name"),
        ("octets = 840", "octets = 840\nsize = 1", "f.toml:20: unknown field `size`"),
        ("octets = 840", "octets = 9000000000000000000", "f.toml:17: radar/imu: an event has at most"),
        (
            "delay = '300 us'",
            "overhead = 9000000000000000000\noctets = 9000000000000000000",
            "f.toml:14: unknown field `octets`",
        ),
        (
            "delay = '300 us'",
            "overhead = 9000000000000000000",
            "f.toml:9: up: packet, overhead and queue are",
        ),
        ("delay = '300 us'", "delay = '18000000000 s'", "f.toml:1: display/show: "),
        ("delay = '300 us'", "queue = 10", "f.toml:13: up: marked events wait for one packet"),
        ("to = ['display/show']", "to = []", "f.toml:17: radar/imu: it has no consumer (to)"),
    ] {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good, "{from}");
        let error = two(&text).unwrap_err();
        assert!(error.starts_with(message), "{from} -> {to}: {error}");
    }
    let edf = DISPLAY.replace("rms", "edf");
    let text = channels(&["radar", "display"]) + &good;
    let error = read(&text, &[("radar", RADAR), ("display", &edf)]).unwrap_err();
    assert!(error.starts_with("f.toml:5: display: its policy is edf, and responses over several"), "{error}");
    let error = read(&text, &[("radar", RADAR)]).unwrap_err();
    assert!(error.starts_with("f.toml:6: display: no such file"), "{error}");
    let error =
        read(&text, &[("radar", RADAR), ("display", "[[operation]]\nname = 'show'\nx = 1")]).unwrap_err();
    assert!(error.starts_with("display:3: unknown field"), "{error}");
}
