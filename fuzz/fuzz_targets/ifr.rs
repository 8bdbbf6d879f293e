//! What a hostile interface repository answers: descriptions of interfaces, which become contracts
//! and operations. Nothing is kept for good but the names of operations that are asked for.
#![no_main]

use isorb::{Any, Config, Orb};
use isorb_any::AnyValue;
use isorb_cdr::{Order, Text};
use isorb_ifr::corba::{interface_attr_extension::ExtFullInterfaceDescription, interface_def::FullInterfaceDescription};
use isorb_ifr::{Contract, MAX_OPERATIONS};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static ORB: LazyLock<Orb> = LazyLock::new(|| Orb::with_config(Config::default()).expect("an ORB"));

fn read<T: AnyValue>(octets: &[u8], order: Order) -> Option<T> {
    let any = Any::from_cdr(T::type_code(), octets, order, Text::DEFAULT).ok()?;
    ORB.extract(&any)
}

fuzz_target!(|data: &[u8]| {
    let [form, octets @ ..] = data else { return };
    let order = if form & 1 == 0 { Order::Little } else { Order::Big };
    let contract = match form & 2 {
        0 => read::<FullInterfaceDescription>(octets, order).map(Contract::try_from),
        _ => read::<ExtFullInterfaceDescription>(octets, order).map(Contract::try_from),
    };
    let Some(Ok(contract)) = contract else { return };
    assert!(contract.names().count() <= MAX_OPERATIONS);
    // The process keeps names: a few of them are enough.
    for name in contract.names().filter(|name| name.len() <= 2).take(4) {
        if let Ok(operation) = contract.operation(name) {
            assert_eq!(operation.name(), name);
            let _ = (operation.arguments().count(), operation.results().count(), operation.exceptions().len());
        }
    }
    assert!(contract.operation("no such operation").is_err());
});
