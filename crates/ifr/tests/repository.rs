//! The repository as a client sees it, over a connection.

use isorb::{Config, Kind, Reference, TypeCode, minor};
use isorb_ifr::corba::{
    AliasDefRef, ArrayDefRef, AttributeMode, ConstantDefRef, ConstantDescription, ContainedRef, ContainerRef,
    DefinitionKind, ExtAttributeDefRef, ExtInterfaceDefRef, FixedDefRef, IDLTypeRef, InterfaceDefRef,
    InterfaceDescription, ModuleDefRef, OperationDefRef, OperationDescription, ParameterMode, PrimitiveKind,
    RepositoryRef, SequenceDefRef, StringDefRef, StructDefRef, UnionDefRef, ValueDefRef,
};
use isorb_ifr::{Contents, RepositoryService};
use isorb_testkit::{OrbPair, TempFolder};
use std::path::PathBuf;
use std::sync::Arc;

struct Repository {
    orbs: OrbPair,
    root: RepositoryRef,
}

fn plant() -> Contents {
    let file = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plant.idl"));
    Contents::compile(&[file], &[]).expect("the IDL is correct")
}

impl Repository {
    fn start() -> Repository {
        let orbs = OrbPair::new();
        let service = RepositoryService::start(orbs.server.orb(), Arc::new(plant())).unwrap();
        let root = RepositoryRef::from_object(orbs.far(service.object()));
        Repository { orbs, root }
    }

    fn find<R: Reference>(&self, id: &str) -> R {
        let found = self.root.lookup_id(id).unwrap().unwrap_or_else(|| panic!("{id} is not found"));
        found.object().narrow().unwrap().unwrap_or_else(|| panic!("{id} is {}", found.object().type_id()))
    }
}

fn names(found: Vec<Option<ContainedRef>>) -> Vec<String> {
    found.into_iter().map(|it| it.unwrap().name().unwrap()).collect()
}

#[test]
fn definitions_are_found_by_id_and_by_name() {
    let repository = Repository::start();
    let root = &repository.root;
    let valve: InterfaceDefRef = repository.find("IDL:Plant/Valve:1.0");
    assert_eq!(valve.def_kind().unwrap(), DefinitionKind::DkInterface);
    assert_eq!(valve.absolute_name().unwrap(), "::Plant::Valve");
    assert_eq!(
        (valve.id().unwrap().as_str(), valve.version().unwrap().as_str()),
        ("IDL:Plant/Valve:1.0", "1.0")
    );
    assert!(root.lookup_id("IDL:Plant/Nothing:1.0").unwrap().is_none());

    let plant: ModuleDefRef = root.lookup("Plant").unwrap().unwrap().object().narrow().unwrap().unwrap();
    assert_eq!(plant.name().unwrap(), "Plant");
    let home: ContainerRef = valve.defined_in().unwrap().unwrap();
    assert_eq!(home.object().type_id(), "IDL:omg.org/CORBA/ModuleDef:1.0");
    let all: RepositoryRef = valve.containing_repository().unwrap().unwrap();
    assert_eq!(all.def_kind().unwrap(), DefinitionKind::DkRepository);
    let outer: ContainerRef = plant.defined_in().unwrap().unwrap();
    assert_eq!(outer.def_kind().unwrap(), DefinitionKind::DkRepository);

    // The scoping rules of IDL: inherited names, then those of the scopes around.
    for (scoped, id) in [
        ("move", "IDL:Plant/Valve/move:1.0"),
        ("Limits", "IDL:Plant/Device/Limits:1.0"),
        ("Point", "IDL:Plant/Point:1.0"),
        ("::Plant::Device::stop", "IDL:Plant/Device/stop:1.0"),
    ] {
        assert_eq!(valve.lookup(scoped).unwrap().unwrap().id().unwrap(), id, "{scoped}");
    }
    assert!(valve.lookup("::Point").unwrap().is_none());
    assert!(valve.lookup("").unwrap().is_none() && valve.lookup("Plant::").unwrap().is_none());

    let everywhere = root.lookup_name("name", -1, DefinitionKind::DkAll, true).unwrap();
    assert_eq!(names(everywhere), ["name"]);
    assert!(root.lookup_name("Valve", 1, DefinitionKind::DkAll, true).unwrap().is_empty());
    assert_eq!(root.lookup_name("Valve", 2, DefinitionKind::DkInterface, true).unwrap().len(), 1);
    assert!(root.lookup_name("Valve", 2, DefinitionKind::DkStruct, true).unwrap().is_empty());
}

#[test]
fn contents_are_listed_by_kind_and_with_what_is_inherited() {
    let repository = Repository::start();
    let plant: ModuleDefRef = repository.find("IDL:Plant:1.0");
    let typedefs = plant.contents(DefinitionKind::DkTypedef, true).unwrap();
    let expected = ["Position", "Point", "Track", "Matrix", "Tree", "Measure", "Handle", "Name"];
    assert_eq!(names(typedefs), expected);
    assert_eq!(names(plant.contents(DefinitionKind::DkException, true).unwrap()), ["Jammed", "Locked"]);
    let valve: InterfaceDefRef = repository.find("IDL:Plant/Valve:1.0");
    assert_eq!(names(valve.contents(DefinitionKind::DkAll, true).unwrap()), ["place", "move", "ping"]);
    let all = names(valve.contents(DefinitionKind::DkAll, false).unwrap());
    assert_eq!(all, ["place", "move", "ping", "name", "Limits", "stop"]);

    let described = plant.describe_contents(DefinitionKind::DkInterface, true, 1).unwrap();
    assert_eq!(described.len(), 1);
    assert_eq!(described[0].kind, DefinitionKind::DkInterface);
    let described: InterfaceDescription = described[0].value.get().unwrap();
    assert_eq!((described.name.as_str(), described.defined_in.as_str()), ("Device", "IDL:Plant:1.0"));
    assert_eq!(plant.describe_contents(DefinitionKind::DkAll, true, -1).unwrap().len(), 24);
}

#[test]
fn interfaces_are_described_with_their_types() {
    let repository = Repository::start();
    let valve: ExtInterfaceDefRef = repository.find("IDL:Plant/Valve:1.0");
    assert!(
        valve.is_a("IDL:Plant/Device:1.0").unwrap() && valve.is_a("IDL:omg.org/CORBA/Object:1.0").unwrap()
    );
    assert!(!valve.is_a("IDL:Plant/Shown:1.0").unwrap());
    assert_eq!(valve.base_interfaces().unwrap()[0].as_ref().unwrap().name().unwrap(), "Device");
    let plain = valve.describe_interface().unwrap();
    assert_eq!(plain.base_interfaces, ["IDL:Plant/Device:1.0"]);
    assert_eq!(plain.type_, TypeCode::interface("IDL:Plant/Valve:1.0", "Valve").unwrap());
    let operations: Vec<&str> = plain.operations.iter().map(|it| &*it.name).collect();
    assert_eq!(operations, ["stop", "move", "ping"], "inherited ones first");
    let moved = &plain.operations[1];
    assert_eq!(moved.result.to_string(), "typedef Track");
    assert_eq!(moved.result.original().to_string(), "sequence<struct Point, 8>");
    assert_eq!(moved.contexts, ["site"]);
    assert_eq!(moved.exceptions[0].id, "IDL:Plant/Jammed:1.0");
    assert_eq!(moved.exceptions[0].type_.member_name(1), Ok("why"));
    let modes: Vec<ParameterMode> = moved.parameters.iter().map(|it| it.mode).collect();
    assert_eq!(modes, [ParameterMode::ParamIn, ParameterMode::ParamInout, ParameterMode::ParamOut]);
    let extended = valve.describe_ext_interface().unwrap();
    let position = extended.attributes.iter().find(|it| it.name == "place").unwrap();
    assert_eq!(position.get_exceptions.len(), 1);
    let raised: Vec<&str> = position.put_exceptions.iter().map(|it| &*it.name).collect();
    assert_eq!(raised, ["Jammed", "Locked"]);

    let operation: OperationDefRef = repository.find("IDL:Plant/Valve/move:1.0");
    assert_eq!(operation.params().unwrap()[2].name, "reading");
    assert_eq!(operation.exceptions().unwrap().len(), 1);
    let void: OperationDefRef = repository.find("IDL:Plant/Device/stop:1.0");
    assert_eq!(void.result().unwrap(), TypeCode::VOID);
    assert_eq!(void.result_def().unwrap().unwrap().type_().unwrap(), TypeCode::VOID);
    // The references of its parameters belong to the client's ORB.
    let description = operation.describe().unwrap().value;
    let description: OperationDescription = repository.orbs.client.extract(&description).unwrap();
    assert_eq!(description.defined_in, "IDL:Plant/Valve:1.0");
    let attribute: ExtAttributeDefRef = repository.find("IDL:Plant/Device/name:1.0");
    assert_eq!(attribute.mode().unwrap(), AttributeMode::AttrReadonly);
    assert_eq!(attribute.type_def().unwrap().unwrap().def_kind().unwrap(), DefinitionKind::DkPrimitive);
}

#[test]
fn types_lead_to_their_elements() {
    let repository = Repository::start();
    let track: AliasDefRef = repository.find("IDL:Plant/Track:1.0");
    let sequence: SequenceDefRef = narrow(track.original_type_def().unwrap());
    assert_eq!(sequence.bound().unwrap(), 8);
    let point: StructDefRef = narrow(sequence.element_type_def().unwrap());
    let members = point.members().unwrap();
    assert_eq!((members[1].name.as_str(), &members[1].type_), ("y", &TypeCode::DOUBLE));
    let matrix: AliasDefRef = repository.find("IDL:Plant/Matrix:1.0");
    let outer: ArrayDefRef = narrow(matrix.original_type_def().unwrap());
    let inner: ArrayDefRef = narrow(outer.element_type_def().unwrap());
    assert_eq!((outer.length().unwrap(), inner.length().unwrap()), (2, 3));
    assert_eq!(inner.element_type().unwrap(), TypeCode::SHORT);
    let tree: StructDefRef = repository.find("IDL:Plant/Tree:1.0");
    let below = tree.type_().unwrap().member_type(1).unwrap();
    assert_eq!(below.content_type().unwrap().member_name(0), Ok("name"), "the type is recursive");

    let measure: UnionDefRef = repository.find("IDL:Plant/Measure:1.0");
    let members = measure.members().unwrap();
    let labels: Vec<String> = members.iter().map(|member| member.label.to_string()).collect();
    assert_eq!(labels, ["shut", "half", "0"]);
    assert_eq!(members[2].label.type_code(), &TypeCode::OCTET, "the default case");
    let text: StringDefRef = narrow(members[2].type_def.clone());
    assert_eq!(text.bound().unwrap(), 5);
    let long = repository.root.get_primitive(PrimitiveKind::PkLong).unwrap().unwrap();
    assert_eq!((long.kind().unwrap(), long.type_().unwrap()), (PrimitiveKind::PkLong, TypeCode::LONG));
    let bare =
        TypeCode::new_struct("IDL:Plant/Point:1.0", "", &[("", TypeCode::DOUBLE), ("", TypeCode::DOUBLE)]);
    let canonical = repository.root.get_canonical_typecode(&bare.unwrap()).unwrap();
    assert_eq!(canonical.name(), Ok("Point"));
}

fn narrow<R: Reference>(ty: Option<IDLTypeRef>) -> R {
    ty.unwrap().object().narrow().unwrap().expect("the type is of that kind")
}

#[test]
fn constants_have_values_of_their_types() {
    let repository = Repository::start();
    for (name, value) in [
        ("LIMIT", "-7"),
        ("TITLE", "\"a \\\"boiler\\\"\""),
        ("MARK", "'ä'"),
        ("PRICE", "12.25"),
        ("ON", "true"),
        ("REST", "half"),
    ] {
        let constant: ConstantDefRef = repository.find(&format!("IDL:Plant/{name}:1.0"));
        let any = constant.value().unwrap();
        assert_eq!(any.to_string().trim_end_matches('d'), value, "{name}");
        assert_eq!(any.type_code(), &constant.type_().unwrap());
        let described: ConstantDescription = constant.describe().unwrap().value.get().unwrap();
        assert_eq!(described.value, any);
    }
    let ratio: ConstantDefRef = repository.find("IDL:Plant/RATIO:1.0");
    assert_eq!(f64::from(ratio.value().unwrap().get::<isorb::LongDouble>().unwrap()), 0.25);
    let price: ConstantDefRef = repository.find("IDL:Plant/PRICE:1.0");
    let fixed: FixedDefRef = narrow(price.type_def().unwrap());
    assert_eq!(fixed.scale().unwrap(), 2);
}

#[test]
fn values_are_described_with_state_and_initializers() {
    let repository = Repository::start();
    let leaf: ValueDefRef = repository.find("IDL:Plant/Leaf:1.0");
    let leaf = leaf.describe_value().unwrap();
    assert!(leaf.is_truncatable && !leaf.is_custom);
    assert_eq!(leaf.base_value, "IDL:Plant/Node:1.0");
    let node: ValueDefRef = repository.find("IDL:Plant/Node:1.0");
    let described = node.describe_value().unwrap();
    assert_eq!(described.abstract_base_values, ["IDL:Plant/Labelled:1.0"]);
    assert_eq!(described.supported_interfaces, ["IDL:Plant/Shown:1.0"]);
    let access: Vec<(&str, i16)> = described.members.iter().map(|it| (&*it.name, it.access)).collect();
    assert_eq!(access, [("weight", 1), ("next", 0)]);
    assert_eq!(described.initializers[0].name, "make");
    assert_eq!(described.type_.member_type(1).unwrap().id(), Ok("IDL:Plant/Node:1.0"));
    let member: ContainedRef = repository.find("IDL:Plant/Node/weight:1.0");
    assert_eq!(member.absolute_name().unwrap(), "::Plant::Node::weight");
    assert!(node.is_a("IDL:Plant/Labelled:1.0").unwrap());
}

#[test]
fn nothing_can_be_changed() {
    let repository = Repository::start();
    let plant: ModuleDefRef = repository.find("IDL:Plant:1.0");
    let refused = [
        plant.create_module("IDL:New:1.0", "New", "1.0").map(drop),
        plant.destroy(),
        plant.set_name("Other"),
        repository.root.create_string(3).map(drop),
        plant.move_(Some(&ContainerRef::from_object(repository.root.object().clone())), "x", "1.0"),
    ];
    for refusal in refused {
        let exception = refusal.unwrap_err();
        assert_eq!((exception.kind, exception.minor), (Kind::NoPermission, minor::NO_PERMISSION_READ_ONLY));
        assert!(exception.to_string().contains("IDL files"), "{exception}");
    }
    // An object that the files no longer have.
    let gone = repository.orbs.server.root_poa().unwrap().find_poa("interface-repository", false).unwrap();
    let gone =
        gone.create_reference_with_id(b"dIDL:Plant/Gone:1.0", "IDL:omg.org/CORBA/Contained:1.0").unwrap();
    assert!(repository.orbs.far(&gone).non_existent().unwrap());
}

#[test]
fn files_with_errors_are_refused_with_their_lines() {
    let folder = TempFolder::new();
    let (good, bad) = (folder.file("good.idl"), folder.file("bad.idl"));
    std::fs::write(&good, "module A { interface I {}; };").unwrap();
    std::fs::write(&bad, "\n\nstruct S { Missing m; };").unwrap();
    let wrong = Contents::compile(&[good.clone(), bad], &[]).unwrap_err();
    assert!(wrong.contains("bad.idl:3"), "{wrong}");
    let wrong = Contents::compile(&[folder.file("none.idl")], &[]).unwrap_err();
    assert!(wrong.contains("none.idl"), "{wrong}");
    let second = folder.file("second.idl");
    std::fs::write(&second, "#include \"good.idl\"\nmodule A { interface J : I {}; };").unwrap();
    let wrong = Contents::compile(&[good.clone(), second], &[]);
    assert!(wrong.is_err(), "good.idl has no guard, and is included twice");
    std::fs::write(&good, "#pragma once\nmodule A { interface I {}; };").unwrap();
    let second = folder.file("second.idl");
    let both = Contents::compile(&[good, second], &[]).unwrap();
    assert!(both.find("IDL:A/J:1.0").is_some());
}

#[test]
fn the_default_configuration_is_enough() {
    let orb = isorb::Orb::with_config(Config::default()).unwrap();
    let contents = Arc::new(plant());
    let service = RepositoryService::start(&orb, contents.clone()).unwrap();
    assert_eq!(orb.resolve_initial_references("InterfaceRepository").unwrap(), *service.object());
    let again = RepositoryService::start(&orb, contents).unwrap_err();
    assert_eq!(again.kind, Kind::BadInvOrder);
    orb.shutdown(true).unwrap();
}
