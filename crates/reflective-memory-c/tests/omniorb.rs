//! RIO as a servant of omniORB in the application's process (`examples/rio-omniorb`), used by
//! clients of both ORBs. Skipped with a sentence where omniORB's tools or a compiler are missing.

use isorb_reflective_memory::Library;
use isorb_reflective_memory::idl::{Area, DataType, RAW_OCTETS, RIORef, ReaderQoS, WriterQoS, rio};
use isorb_reflective_memory::node::{NodeServer, ServerConfig};
use isorb_testkit::{Process, RunningOrb, TempFolder, compiles, omniorb_stubs, wait_for};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Translates the IDL and builds a program on it; none where a tool is missing.
fn build(folder: &TempFolder, source: &Path, name: &str) -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let skeleton = folder.file("ReflectiveMemorySK.cc");
    let file = here.join("../../idl/ReflectiveMemory.idl");
    if !skeleton.exists() && !omniorb_stubs(folder.path(), &["-Wbinline"], &[&file]) {
        return None;
    }
    let (program, libraries) = (folder.file(name), std::env::current_exe().unwrap());
    let libraries = libraries.parent().unwrap();
    let mut command = Command::new("c++");
    command.args(["-std=c++17", "-O0", "-w", "-o"]).arg(&program).arg("-I").arg(folder.path());
    command.arg("-I").arg(here.join("include")).arg(source).arg(skeleton).arg("-L").arg(libraries);
    command.args(["-lisorb_crm", "-lomniDynamic4", "-lomniORB4", "-lomnithread", "-lpthread", "-ldl", "-lm"]);
    command.arg(format!("-Wl,-rpath,{}", libraries.display()));
    compiles(&mut command).then_some(program)
}

#[test]
fn an_application_of_omniorb_has_rio_in_its_own_process() {
    let folder = TempFolder::new();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Some(program) = build(&folder, &here.join("../../examples/rio-omniorb/main.cc"), "rio-omniorb")
    else {
        return;
    };
    let (orb, socket) = (RunningOrb::new(), folder.file("socket"));
    let _server = NodeServer::start(&orb, ServerConfig::new("node", &socket), None).unwrap();
    let library = Library::connect(&orb, &socket).unwrap();
    let mut command = Command::new(program);
    command.args(["-ORBendPoint", "giop:tcp:127.0.0.1:"]).arg(&socket);
    let (_process, reference) = Process::ready(&mut command);
    let rio: RIORef = orb.resolve(reference.trim()).unwrap();

    // What the application wrote is in the memory that other processes of the node map.
    let mut mapped = library.attach_reader("from-omniorb", ReaderQoS::on_write()).unwrap();
    let mut out = [0; 16];
    assert_eq!((mapped.latest(&mut out).unwrap().sequence, out), (3, [3; 16]));
    // A client of another ORB reads by the same object.
    let reader = rio.attach_reader("from-omniorb", ReaderQoS::on_write().histories(2)).unwrap();
    let (value, about) = rio.read_latest(reader, 0, 0).unwrap();
    assert_eq!((value, about.number, about.missed), (vec![3; 16], 3, 2));
    assert_eq!(rio.read_history(reader, 2).unwrap().0, [1; 16]);
    assert!(matches!(rio.read_next(reader, 1_000_000), Err(rio::ReadNextError::TimedOut(_))));
    assert_eq!(rio.get_statistics(reader).unwrap().values, 3);
    assert!(matches!(
        rio.map_writer("from-omniorb", WriterQoS { period: 0, size: 0, type_hash: 0 }),
        Err(rio::MapWriterError::WriterExists(error)) if error.name == "from-omniorb"
    ));
    assert!(matches!(
        rio.attach_reader("missing", ReaderQoS::on_write()),
        Err(rio::AttachReaderError::UnknownArea(error)) if error.name == "missing"
    ));

    // An area with a type, written by a client and read by a program that knows the type.
    let gauge = Area::of::<f64>("gauge", 1).unwrap();
    rio.create_area(&gauge).unwrap();
    assert!(
        matches!(rio.create_area(&gauge), Err(rio::CreateAreaError::AreaExists(error)) if error.what.size == 8)
    );
    let hash = DataType::of::<f64>().hash;
    let other = rio.map_writer("gauge", WriterQoS { period: 0, size: 0, type_hash: 0 });
    assert!(matches!(other, Err(rio::MapWriterError::WrongType(error)) if !error.reason.is_empty()));
    let writer = rio.map_writer("gauge", WriterQoS { period: 0, size: 0, type_hash: hash }).unwrap();
    assert_eq!(rio.write(writer, &21.5_f64.to_ne_bytes()).unwrap(), 1);
    match rio.write(writer, &[0; 9]) {
        Err(rio::WriteError::WrongSize(error)) => assert_eq!((error.requested, error.limit), (9, 8)),
        other => panic!("{other:?}"),
    }
    let mut typed = library.typed_reader::<f64>("gauge", ReaderQoS::on_write()).unwrap();
    assert_eq!(typed.latest().unwrap().0, 21.5);
    let raw =
        rio.attach_reader("gauge", ReaderQoS { type_hash: RAW_OCTETS, ..ReaderQoS::on_write() }).unwrap();
    assert_eq!(rio.read_latest(raw, 0, 0).unwrap().0, 21.5_f64.to_ne_bytes());
    // A detached handle is unknown, and its writer is gone.
    rio.detach(writer).unwrap();
    assert!(
        matches!(rio.detach(writer), Err(rio::DetachError::UnknownHandle(error)) if error.which == writer)
    );
    wait_for("the writer is gone", || {
        library.typed_writer::<f64>("gauge", WriterQoS::every(std::time::Duration::from_secs(1))).ok()
    });
    rio.destroy_area("gauge").unwrap();
    assert!(matches!(rio.read_next(raw, 1_000_000_000), Err(rio::ReadNextError::Lost(_))));
}
