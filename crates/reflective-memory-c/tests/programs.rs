//! Programs in C and C++ against a node's server: they write and read, alone and with Rust at the
//! other end, survive the death of the server, and make every mistake. Skipped with a sentence
//! where there is no compiler.

use isorb_reflective_memory::idl::{Area, DataType, ReaderQoS, WriterQoS};
use isorb_reflective_memory::node::{NodeServer, ServerConfig};
use isorb_reflective_memory::{Library, area_type};
use isorb_testkit::{Process, RunningOrb, TempFolder, compiles, document, wait_for};
use std::path::{Path, PathBuf};
use std::process::Command;

area_type! {
    "IDL:Plant/Point:1.0";
    struct Point {
        x: i16,
        y: u16,
    }
}

area_type! {
    "IDL:Plant/Pressure:1.0";
    struct Pressure {
        valid: bool,
        bar: f64,
        of: [u16; 3],
        at: [Point; 2],
        count: i64,
        last: u8,
    }
}

const QOS: WriterQoS = WriterQoS { period: 0, size: 0, type_hash: 0 };

/// Where cargo puts the libraries.
fn libraries() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// Builds a program with the shared library.
fn build(folder: &TempFolder, source: &str) -> Option<PathBuf> {
    let libraries = libraries();
    let linked = ["-lisorb_crm".to_owned(), format!("-Wl,-rpath,{}", libraries.display())];
    build_with(folder, source, &linked, &libraries)
}

fn build_with(folder: &TempFolder, source: &str, linked: &[String], libraries: &Path) -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = folder.file(Path::new(source).file_stem().unwrap().to_str().unwrap());
    let (compiler, standard) =
        if source.ends_with(".c") { ("cc", "-std=c11") } else { ("c++", "-std=c++17") };
    let mut command = Command::new(compiler);
    command.args([standard, "-Wall", "-Wextra", "-Werror", "-pedantic", "-g", "-o"]).arg(&program);
    command.arg("-I").arg(here.join("include")).arg(here.join("tests/programs").join(source));
    command.arg("-L").arg(libraries).args(linked).args(["-lpthread", "-ldl", "-lm"]);
    compiles(&mut command).then_some(program)
}

/// A node's server.
struct Node {
    library: Library,
    _server: NodeServer,
    socket: PathBuf,
    _orb: RunningOrb,
}

fn node(folder: &TempFolder) -> Node {
    let (orb, socket) = (RunningOrb::new(), folder.file("socket"));
    let server = NodeServer::start(&orb, ServerConfig::new("node", &socket), None).unwrap();
    let library = Library::connect(&orb, &socket).unwrap();
    Node { library, _server: server, socket, _orb: orb }
}

fn runs_well(command: &mut Command) {
    let output = command.output().unwrap();
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}{error}", output.status);
    assert_eq!(out, "good\n", "{error}");
}

#[test]
fn a_c_program_writes_and_reads_in_every_way() {
    let folder = TempFolder::new();
    let Some(program) = build(&folder, "values.c") else { return };
    let node = node(&folder);
    runs_well(Command::new(program).arg(&node.socket));
}

#[test]
fn c_and_cpp_programs_read_several_areas() {
    for source in ["sets.c", "sets.cc"] {
        let folder = TempFolder::new();
        let Some(program) = build(&folder, source) else { return };
        let node = node(&folder);
        node.library.create_area(&Area::of::<Pressure>("typed", 0).unwrap()).unwrap();
        runs_well(Command::new(program).arg(&node.socket));
    }
}

#[test]
fn the_static_library_does_as_well() {
    let folder = TempFolder::new();
    let libraries = libraries();
    let linked = [libraries.join("libisorb_crm.a").display().to_string()];
    let Some(program) = build_with(&folder, "values.c", &linked, &libraries) else { return };
    let node = node(&folder);
    runs_well(Command::new(program).arg(&node.socket));
}

#[test]
fn mistakes_of_a_c_program_are_errors() {
    let folder = TempFolder::new();
    let Some(program) = build(&folder, "misuse.c") else { return };
    let node = node(&folder);
    runs_well(Command::new(&program).arg(&node.socket));
    let valgrind = Command::new("valgrind").arg("--version").output();
    if !valgrind.is_ok_and(|output| output.status.success()) {
        println!("skipped: valgrind is not installed, so memory was not checked (apt-get install valgrind)");
        return;
    }
    node.library.destroy_area("misuse").unwrap();
    runs_well(Command::new("valgrind").args(["-q", "--error-exitcode=9"]).arg(program).arg(&node.socket));
}

#[test]
fn a_cpp_program_and_a_rust_program_exchange_typed_values() {
    let folder = TempFolder::new();
    let Some(program) = build(&folder, "typed.cc") else { return };
    let node = node(&folder);
    let library = &node.library;
    let mut process = Process::start(Command::new(program).arg(&node.socket));

    library.create_area(&Area::of::<Pressure>("from-rust", 2).unwrap()).unwrap();
    let mut writer = library.typed_writer::<Pressure>("from-rust", QOS).unwrap();
    let at = [Point { x: 1, y: 2 }, Point { x: -7, y: 8 }];
    let value = Pressure { valid: true, bar: 3.25, of: [1, 2, 0xfffe], at, count: -1, last: 9 };
    writer.write(&value).unwrap();
    let mut foreign = Area::of::<Pressure>("foreign", 0).unwrap();
    foreign.data.little_endian = !foreign.data.little_endian;
    library.create_area(&foreign).unwrap();
    library.create_area(&Area::of::<Pressure>("not-values", 0).unwrap()).unwrap();
    library.map_writer("not-values", QOS.any_type()).unwrap().write(&[2; 41]).unwrap();

    process.expect_line("READY");
    let mut reader = library.typed_reader::<Pressure>("from-cpp", ReaderQoS::on_write()).unwrap();
    assert_eq!(reader.data_type(), &DataType::of::<Pressure>(), "the type is Rust's, its text too");
    let at = [Point { x: 4, y: 5 }, Point { x: -6, y: 7 }];
    let value = Pressure { valid: true, bar: 1.5, of: [1, 2, 3], at, count: 8, last: 9 };
    let (read, sample) = reader.latest().unwrap();
    assert_eq!((read, sample.sequence, sample.len), (value, 2, 41));
    assert!(process.finish().success());
}

/// Prints what a write and a read of 64 octets take in Rust, C and C++; the goal is 1.1 of Rust's.
/// In C++ each sample has its age, so Rust asks for it there, too:
/// `cargo test --release -p isorb-reflective-memory-c --test programs -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn what_a_write_and_a_read_take() {
    const PAIRS: u32 = 100_000;
    let folder = TempFolder::new();
    let node = node(&folder);
    let area = Area::new("cost-rust", 64, 3);
    node.library.create_area(&area).unwrap();
    let mut writer = node.library.map_writer("cost-rust", QOS).unwrap();
    let mut reader = node.library.attach_reader("cost-rust", ReaderQoS::on_write()).unwrap();
    let (mut value, mut out) = ([0; 64], [0; 64]);
    let mut rust = |with_age: bool| {
        let begin = std::time::Instant::now();
        for i in 0..PAIRS {
            value[0] = i as u8;
            writer.write(&value).unwrap();
            let sample = reader.latest(&mut out).unwrap();
            if with_age {
                std::hint::black_box(sample.age_ns());
            }
            assert_eq!(out[0], value[0]);
        }
        begin.elapsed().as_secs_f64() * 1e9 / f64::from(PAIRS)
    };
    let mut least = |with_age| (0..20).map(|_| rust(with_age)).fold(f64::INFINITY, f64::min);
    let mut of = Vec::new();
    for (source, with_age) in [("cost.c", false), ("cost.cc", true)] {
        let folder = TempFolder::new();
        let optimised = ["-O2".to_owned()];
        let linked = ["-lisorb_crm".to_owned(), format!("-Wl,-rpath,{}", libraries().display())];
        let Some(program) = build_with(&folder, source, &[&optimised[..], &linked].concat(), &libraries())
        else {
            return;
        };
        let before = least(with_age);
        let printed = Command::new(program).arg(&node.socket).output().unwrap();
        let text = String::from_utf8(printed.stdout).unwrap();
        let took: f64 = text.trim().parse().unwrap_or_else(|_| panic!("{text}"));
        of.push((source, took, before.min(least(with_age))));
    }
    for (source, took, rust) in of {
        println!("{source}: {took:.1} ns, {:.2} of Rust's {rust:.1} ns", took / rust);
    }
}

/// The code of a block of the guide.
fn guides(language: &str) -> String {
    let page = document("guides/reflective-memory-from-c.md");
    let block = page.split(&format!("```{language}\n")).nth(1).unwrap();
    block.split("```").next().unwrap().to_owned()
}

#[test]
fn the_programs_of_the_guide_print_what_it_says() {
    let folder = TempFolder::new();
    let node = node(&folder);
    for (language, name, output) in
        [("c", "level.c", "2.5 m, value 1\n2.5 m in place\n"), ("cpp", "tank.cc", "2.5 m, valve -3\n")]
    {
        let source = folder.file(name);
        std::fs::write(&source, guides(language)).unwrap();
        let Some(program) = build(&folder, source.to_str().unwrap()) else { return };
        let printed = Command::new(program).arg(&node.socket).output().unwrap();
        let error = String::from_utf8_lossy(&printed.stderr);
        assert_eq!(String::from_utf8_lossy(&printed.stdout), output, "{error}");
    }
}

/// The socket of a server that is a process of its own.
const SERVER: &str = "ISORB_TEST_SERVER";

/// Not a test by itself: the server of the next one.
#[test]
fn serves_until_killed() {
    let Ok(socket) = std::env::var(SERVER) else { return };
    let orb = RunningOrb::new();
    let _server = NodeServer::start(&orb, ServerConfig::new("node", socket), None).unwrap();
    eprintln!("READY");
    let _ = std::io::read_to_string(std::io::stdin());
}

fn server(socket: &Path) -> Process {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "serves_until_killed", "--nocapture"]).env(SERVER, socket);
    let mut process = Process::start_on_stderr(&mut command);
    wait_for("the server", || process.next_line().is_some_and(|line| line == "READY").then_some(()));
    process.discard_output();
    process
}

#[test]
fn a_c_program_survives_the_death_of_its_server() {
    let folder = TempFolder::new();
    let Some(program) = build(&folder, "survivor.c") else { return };
    let socket = folder.file("socket");
    let mut first = server(&socket);
    let (mut process, _) = Process::ready(Command::new(program).arg(&socket));
    first.kill();
    process.write_line("");
    process.expect_line("READY");
    let _second = server(&socket);
    process.write_line("");
    assert_eq!(process.expect_line("READY"), "good");
    process.write_line("");
    assert!(process.finish().success());
}
