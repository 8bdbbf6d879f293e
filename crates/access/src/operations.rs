//! The permission that each operation of isorb's services needs.

use crate::scope::Permission;
use Permission::{Administer, Bind, Supply, Write};

/// The rules of an interface. Operations that are not named need `read`.
#[derive(Debug)]
pub(crate) struct Rules {
    /// Repository id.
    pub interface: &'static str,
    /// Whether a permission for some subjects is not enough.
    pub whole: bool,
    pub rules: &'static [Rule],
}

/// What some operations need, and whether they change what outlives their caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    pub permission: Permission,
    pub audited: Audited,
    pub operations: &'static [&'static str],
}

/// What an operation needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requirement {
    pub permission: Permission,
    /// The bit that a caller must have.
    pub bit: u32,
    pub audited: Audited,
}

/// The writer of the audit record of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audited {
    /// It changes nothing, or is a part of the service's steady work.
    No,
    /// The guard.
    Here,
    /// The servant, which knows the subject: [`authorize`](crate::authorize).
    ByServant,
}

const fn rule(permission: Permission, audited: Audited, operations: &'static [&'static str]) -> Rule {
    Rule { permission, audited, operations }
}

use Audited::{ByServant, Here, No};

const BINDS: &[&str] = &["bind", "rebind", "bind_context", "rebind_context", "unbind", "bind_new_context"];
const NAMING: &[Rule] =
    &[rule(Bind, ByServant, BINDS), rule(Bind, Here, &["new_context"]), rule(Administer, Here, &["destroy"])];
const SUPPLIER: &[Rule] = &[
    rule(Supply, No, &["push", "push_numbered", "push_owned"]),
    rule(Supply, ByServant, &["connect_push_supplier"]),
    rule(Supply, Here, &["set_ownership", "connect_pull_supplier"]),
    rule(Supply, Here, &["disconnect_push_consumer", "disconnect_pull_consumer"]),
];
const SUPPLIER_ADMIN: &[Rule] = &[rule(Supply, No, &["obtain_push_consumer", "obtain_pull_consumer"])];
const CHANNEL: &[Rule] =
    &[rule(Supply, No, &["for_suppliers"]), rule(Administer, Here, &["destroy", "remove_observer"])];

const LOG: &[Rule] = &[
    // The servant checks the producer of each record.
    rule(Write, No, &["write_record", "write_records"]),
    rule(
        Administer,
        Here,
        &["set_max_size", "set_log_full_action", "set_administrative_state", "clear_log", "destroy"],
    ),
];

const REPOSITORY: &[Rule] = &[rule(Administer, Here, &["add", "change", "remove", "start", "stop"])];

/// An interface of the interface repository, which cannot be changed over the ORB.
const fn reads(interface: &'static str) -> Rules {
    Rules { interface, whole: false, rules: &[] }
}

pub(crate) const ALL: &[Rules] = &[
    Rules { interface: "IDL:omg.org/CosNaming/NamingContext:1.0", whole: false, rules: NAMING },
    Rules { interface: "IDL:omg.org/CosNaming/NamingContextExt:1.0", whole: false, rules: NAMING },
    Rules { interface: "IDL:omg.org/CosNaming/BindingIterator:1.0", whole: false, rules: &[] },
    reads("IDL:omg.org/CORBA/Repository:1.0"),
    reads("IDL:omg.org/CORBA/ModuleDef:1.0"),
    reads("IDL:omg.org/CORBA/ConstantDef:1.0"),
    reads("IDL:omg.org/CORBA/StructDef:1.0"),
    reads("IDL:omg.org/CORBA/UnionDef:1.0"),
    reads("IDL:omg.org/CORBA/EnumDef:1.0"),
    reads("IDL:omg.org/CORBA/AliasDef:1.0"),
    reads("IDL:omg.org/CORBA/NativeDef:1.0"),
    reads("IDL:omg.org/CORBA/ExceptionDef:1.0"),
    reads("IDL:omg.org/CORBA/ExtAttributeDef:1.0"),
    reads("IDL:omg.org/CORBA/OperationDef:1.0"),
    reads("IDL:omg.org/CORBA/ExtInterfaceDef:1.0"),
    reads("IDL:omg.org/CORBA/ExtAbstractInterfaceDef:1.0"),
    reads("IDL:omg.org/CORBA/ExtLocalInterfaceDef:1.0"),
    reads("IDL:omg.org/CORBA/ExtValueDef:1.0"),
    reads("IDL:omg.org/CORBA/ValueBoxDef:1.0"),
    reads("IDL:omg.org/CORBA/ValueMemberDef:1.0"),
    reads("IDL:omg.org/CORBA/PrimitiveDef:1.0"),
    reads("IDL:omg.org/CORBA/StringDef:1.0"),
    reads("IDL:omg.org/CORBA/WstringDef:1.0"),
    reads("IDL:omg.org/CORBA/FixedDef:1.0"),
    reads("IDL:omg.org/CORBA/SequenceDef:1.0"),
    reads("IDL:omg.org/CORBA/ArrayDef:1.0"),
    Rules { interface: "IDL:omg.org/CosLwLog/Log:1.0", whole: false, rules: LOG },
    // A server proves itself by its token; one without is checked by the servant.
    Rules { interface: "IDL:IsorbImplementationRepository/Repository:1.0", whole: false, rules: REPOSITORY },
    reads("IDL:IsorbImplementationRepository/Server:1.0"),
    Rules { interface: "IDL:RtecEventChannelAdmin/EventChannel:1.0", whole: false, rules: CHANNEL },
    Rules { interface: "IDL:RtecEventChannelAdmin/ConsumerAdmin:1.0", whole: false, rules: &[] },
    Rules { interface: "IDL:RtecEventChannelAdmin/SupplierAdmin:1.0", whole: false, rules: SUPPLIER_ADMIN },
    Rules { interface: "IDL:RtecEventChannelAdmin/ProxyPushConsumer:1.0", whole: false, rules: SUPPLIER },
    Rules {
        interface: "IDL:IsorbRtecEventChannelAdmin/ProxyPushConsumer:1.0",
        whole: false,
        rules: SUPPLIER,
    },
    Rules { interface: "IDL:RtecEventChannelAdmin/ProxyPushSupplier:1.0", whole: false, rules: &[] },
    Rules { interface: "IDL:IsorbRtecEventChannelAdmin/ProxyPushSupplier:1.0", whole: false, rules: &[] },
    Rules { interface: "IDL:omg.org/CosEventChannelAdmin/EventChannel:1.0", whole: false, rules: CHANNEL },
    Rules { interface: "IDL:omg.org/CosEventChannelAdmin/ConsumerAdmin:1.0", whole: false, rules: &[] },
    Rules {
        interface: "IDL:omg.org/CosEventChannelAdmin/SupplierAdmin:1.0",
        whole: false,
        rules: SUPPLIER_ADMIN,
    },
    Rules {
        interface: "IDL:omg.org/CosEventChannelAdmin/ProxyPushConsumer:1.0",
        whole: false,
        rules: SUPPLIER,
    },
    Rules {
        interface: "IDL:omg.org/CosEventChannelAdmin/ProxyPullConsumer:1.0",
        whole: false,
        rules: SUPPLIER,
    },
    Rules { interface: "IDL:omg.org/CosEventChannelAdmin/ProxyPushSupplier:1.0", whole: false, rules: &[] },
    Rules { interface: "IDL:omg.org/CosEventChannelAdmin/ProxyPullSupplier:1.0", whole: false, rules: &[] },
    // A federation authenticates its members itself; with a policy they also need to be suppliers.
    Rules { interface: "IDL:IsorbEvent/Neighbour:1.0", whole: true, rules: &[rule(Supply, Here, &["join"])] },
    Rules {
        interface: "IDL:IsorbEvent/Link:1.0",
        whole: true,
        rules: &[rule(Supply, No, &["announce", "leave"])],
    },
    Rules { interface: "IDL:IsorbEvent/Lane:1.0", whole: true, rules: &[rule(Supply, No, &["forward"])] },
    Rules {
        interface: "IDL:IsorbEvent/Operator:1.0",
        whole: false,
        rules: &[rule(Administer, Here, &["reconfigure", "recording"])],
    },
    Rules {
        interface: "IDL:RtecScheduler/Scheduler:1.0",
        whole: false,
        rules: &[rule(
            Bind,
            Here,
            &[
                "create",
                "set",
                "reset",
                "set_seq",
                "reset_seq",
                "replace_seq",
                "add_dependency",
                "remove_dependency",
                "set_dependency_enable_state",
                "set_dependency_enable_state_seq",
                "set_rt_info_enable_state",
                "set_rt_info_enable_state_seq",
                "compute_scheduling",
                "recompute_scheduling",
            ],
        )],
    },
    Rules {
        interface: "IDL:isorb/ReflectiveMemory/Lib_Comm:1.0",
        whole: false,
        rules: &[rule(Write, ByServant, &["create_area", "destroy_area", "map_writer"])],
    },
    Rules { interface: "IDL:isorb/ReflectiveMemory/CRM_Comm:1.0", whole: false, rules: &[] },
    Rules {
        interface: "IDL:isorb/ReflectiveMemory/Glob_Comm:1.0",
        whole: false,
        rules: &[
            rule(Write, No, &["alive"]),
            rule(Write, ByServant, &["register_node", "register_area", "unregister_node", "unregister_area"]),
        ],
    },
    // For every call: a client with the reference of a RIO object acts as its process.
    Rules {
        interface: "IDL:isorb/ReflectiveMemory/RIO:1.0",
        whole: false,
        rules: &[rule(
            Administer,
            No,
            &[
                "create_area",
                "destroy_area",
                "map_writer",
                "attach_reader",
                "detach",
                "write",
                "read_latest",
                "read_next",
                "read_history",
                "start",
                "stop",
                "get_statistics",
                "notify",
            ],
        )],
    },
];

/// What an operation needs: a permission, and the bit of it. Interfaces that are not in the table
/// need `administer`.
pub(crate) fn need_of(interface: &str, operation: &str) -> Requirement {
    let need = |whole, (permission, audited): (Permission, Audited)| Requirement {
        permission,
        bit: if whole { permission.all() } else { permission.some() },
        audited,
    };
    let Some(of) = ALL.iter().find(|of| of.interface == interface) else {
        return need(false, (Administer, Here));
    };
    let found = of.rules.iter().find(|rule| rule.operations.contains(&operation));
    need(of.whole, found.map_or((Permission::Read, No), |rule| (rule.permission, rule.audited)))
}

/// The operations of an interface that need more than `read`, with what they need; `None` for an
/// interface that is unknown here.
pub fn operations_of(interface: &str) -> Option<Vec<(&'static str, Permission)>> {
    let of = ALL.iter().find(|of| of.interface == interface)?;
    let each = |rule: &'static Rule| rule.operations.iter().map(|operation| (*operation, rule.permission));
    Some(of.rules.iter().flat_map(each).collect())
}
