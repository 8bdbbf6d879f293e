//! Descriptions that no repository should give.

use isorb::{Kind, TypeCode, minor};
use isorb_ifr::corba::interface_attr_extension::ExtFullInterfaceDescription;
use isorb_ifr::corba::interface_def::FullInterfaceDescription;
use isorb_ifr::corba::{
    AttributeDescription, AttributeMode, ExceptionDescription, ExtAttributeDescription, OperationDescription,
    OperationMode, ParameterDescription, ParameterMode,
};
use isorb_ifr::{Contract, MAX_EXCEPTIONS, MAX_OPERATIONS, MAX_PARAMETERS};

fn parameter(type_: TypeCode, mode: ParameterMode) -> ParameterDescription {
    ParameterDescription { name: "x".into(), type_, type_def: None, mode }
}

fn jammed() -> ExceptionDescription {
    ExceptionDescription {
        name: "Jammed".into(),
        id: "IDL:P/Jammed:1.0".into(),
        defined_in: "IDL:P:1.0".into(),
        version: "1.0".into(),
        type_: TypeCode::new_exception("IDL:P/Jammed:1.0", "Jammed", &[("at", TypeCode::LONG)]).unwrap(),
    }
}

fn operation(change: impl FnOnce(&mut OperationDescription)) -> OperationDescription {
    let mut made = OperationDescription {
        name: "go".into(),
        id: "IDL:P/V/go:1.0".into(),
        defined_in: "IDL:P/V:1.0".into(),
        version: "1.0".into(),
        result: TypeCode::VOID,
        mode: OperationMode::OpNormal,
        contexts: Vec::new(),
        parameters: vec![parameter(TypeCode::STRING, ParameterMode::ParamIn)],
        exceptions: vec![jammed()],
    };
    change(&mut made);
    made
}

fn interface(
    operations: Vec<OperationDescription>,
    attributes: Vec<AttributeDescription>,
) -> FullInterfaceDescription {
    FullInterfaceDescription {
        name: "V".into(),
        id: "IDL:P/V:1.0".into(),
        defined_in: "IDL:P:1.0".into(),
        version: "1.0".into(),
        operations,
        attributes,
        base_interfaces: vec!["IDL:P/B:1.0".into()],
        type_: TypeCode::interface("IDL:P/V:1.0", "V").unwrap(),
    }
}

fn attribute(type_: TypeCode, mode: AttributeMode) -> AttributeDescription {
    AttributeDescription {
        name: "level".into(),
        id: "IDL:P/V/level:1.0".into(),
        defined_in: "IDL:P/V:1.0".into(),
        version: "1.0".into(),
        type_,
        mode,
    }
}

#[test]
fn a_good_description_is_a_contract() {
    let level = attribute(TypeCode::LONG, AttributeMode::AttrNormal);
    let contract = Contract::try_from(interface(vec![operation(|_| ())], vec![level.clone()])).unwrap();
    assert_eq!((contract.id(), contract.name()), ("IDL:P/V:1.0", "V"));
    assert_eq!(contract.bases().collect::<Vec<_>>(), ["IDL:P/B:1.0"]);
    assert_eq!(contract.names().collect::<Vec<_>>(), ["go", "_get_level", "_set_level"]);
    let go = contract.operation("go").unwrap();
    assert_eq!((go.arguments().count(), go.results().count(), go.exceptions().len()), (1, 0, 1));
    let readonly = AttributeDescription { mode: AttributeMode::AttrReadonly, ..level };
    let contract = Contract::try_from(interface(Vec::new(), vec![readonly])).unwrap();
    assert_eq!(contract.names().collect::<Vec<_>>(), ["_get_level"]);
}

#[test]
fn attributes_of_an_extended_description_have_exceptions() {
    let level = ExtAttributeDescription {
        name: "level".into(),
        id: "IDL:P/V/level:1.0".into(),
        defined_in: "IDL:P/V:1.0".into(),
        version: "1.0".into(),
        type_: TypeCode::LONG,
        mode: AttributeMode::AttrNormal,
        get_exceptions: Vec::new(),
        put_exceptions: vec![jammed()],
    };
    let plain = interface(Vec::new(), Vec::new());
    let extended = ExtFullInterfaceDescription {
        name: plain.name,
        id: plain.id,
        defined_in: plain.defined_in,
        version: plain.version,
        operations: plain.operations,
        attributes: vec![level],
        base_interfaces: plain.base_interfaces,
        type_: plain.type_,
    };
    let contract = Contract::try_from(extended).unwrap();
    assert_eq!(contract.operation("_set_level").unwrap().exceptions().len(), 1);
    assert!(contract.operation("_get_level").unwrap().exceptions().is_empty());
}

#[test]
fn wrong_descriptions_are_refused_with_a_sentence() {
    let structure = TypeCode::new_struct("IDL:P/S:1.0", "S", &[("a", TypeCode::LONG)]).unwrap();
    let refusals = [
        (operation(|it| it.parameters[0].type_ = TypeCode::VOID), "parameter x of go is of the type void"),
        (operation(|it| it.parameters[0].type_ = jammed().type_), "of the type exception Jammed"),
        (operation(|it| it.result = TypeCode::NULL), "the result of go is of the type null"),
        (operation(|it| it.exceptions[0].type_ = structure.clone()), "raises Jammed, which is a struct S"),
        (operation(|it| it.exceptions = vec![jammed(); MAX_EXCEPTIONS + 1]), "raises 256 exceptions"),
        (
            operation(|it| {
                let x = parameter(TypeCode::LONG, ParameterMode::ParamIn);
                it.parameters = vec![x; MAX_PARAMETERS + 1];
            }),
            "has 256 parameters",
        ),
        (operation(|it| it.mode = OperationMode::OpOneway), "go is a oneway with results"),
        (
            operation(|it| {
                it.mode = OperationMode::OpOneway;
                it.exceptions.clear();
                it.parameters[0].mode = ParameterMode::ParamOut;
            }),
            "go is a oneway with results",
        ),
    ];
    for (wrong, words) in refusals {
        let refused = Contract::try_from(interface(vec![wrong], Vec::new())).unwrap_err();
        assert_eq!((refused.kind, refused.minor), (Kind::IntfRepos, minor::INTF_REPOS_NO_ENTRY));
        assert!(refused.to_string().contains(words), "{words}: {refused}");
    }
    let void = attribute(TypeCode::VOID, AttributeMode::AttrNormal);
    let refused = Contract::try_from(interface(Vec::new(), vec![void])).unwrap_err();
    assert!(refused.to_string().contains("the attribute level is of the type void"), "{refused}");
    let many = vec![attribute(TypeCode::LONG, AttributeMode::AttrNormal); MAX_OPERATIONS / 2 + 1];
    let refused = Contract::try_from(interface(Vec::new(), many)).unwrap_err();
    assert!(refused.to_string().contains("4098 operations, more than 4096"), "{refused}");
    // A name that cannot be called is refused when it is asked for.
    let long = operation(|it| it.name = "x".repeat(2000));
    let contract = Contract::try_from(interface(vec![long], Vec::new())).unwrap();
    assert_eq!(contract.operation(&"x".repeat(2000)).unwrap_err().kind, Kind::BadParam);
}
