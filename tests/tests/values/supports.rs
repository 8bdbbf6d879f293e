//! A value that supports an interface is a servant of it, and is called behind an abstract one.

use crate::idl::values::*;
use isorb::{AbstractBase, Kind, Orb, Reference, Result, Upcall, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

impl Counted for Basket {
    fn items(&self, _: Upcall<'_>) -> Result<i32> {
        Ok(self.number)
    }
    fn forget(&self, _: Upcall<'_>) -> Result<()> {
        Ok(())
    }
}

static FORGOTTEN: AtomicUsize = AtomicUsize::new(0);

impl Priced for Item {
    fn price(&self, _: Upcall<'_>, factor: i32) -> Result<i32> {
        self.cents.checked_mul(factor).ok_or(Kind::BadParam.into())
    }
    fn forget_price(&self, _: Upcall<'_>) -> Result<()> {
        FORGOTTEN.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

struct Shop;

impl Till for Shop {
    fn price_of(&self, _: Upcall<'_>, it: Option<&PricedRef>, factor: i32) -> Result<i32> {
        it.ok_or(Kind::BadParam)?.price(factor)
    }
    fn give_back<'u>(&'u self, _: Upcall<'u>, it: Option<&'u PricedRef>) -> Result<Option<&'u PricedRef>> {
        Ok(it)
    }
}

fn orb(serves: bool) -> Orb {
    let builder = Orb::builder().register(|info| {
        info.add_value_type(Item::value_type());
        if serves {
            AbstractBase::serve::<PricedRef, Item>(info);
        }
        Ok(())
    });
    builder.build().unwrap()
}

#[test]
fn a_value_serves_the_interface_that_it_supports() {
    let (server, client) = (orb(false), orb(false));
    let root = server.root_poa().unwrap();
    root.manager().activate().unwrap();
    let basket = Basket::from(BasketState { number: 7 });
    let counted: CountedRef = root.activate(Arc::new(basket.clone())).unwrap();
    let far: CountedRef = client.resolve(&counted.to_string()).unwrap();
    assert_eq!((far.items(), far.forget()), (Ok(7), Ok(())));
    // It is a reference to the servant, not the value.
    assert!(far.object().is_a("IDL:Values/Counted:1.0").unwrap());
    assert!(!far.object().is_a("IDL:Values/Basket:1.0").unwrap());
    let id = root.reference_to_id(counted.object()).unwrap();
    root.deactivate_object(&id).unwrap();
    assert_eq!(far.items().unwrap_err().kind, Kind::ObjectNotExist);
    assert_eq!(basket.number, 7, "the value goes on without the object");
    for orb in [client, server] {
        orb.shutdown(true).unwrap();
    }
}

#[test]
fn a_value_behind_an_abstract_interface_is_called() {
    let (server, client) = (orb(true), orb(true));
    let root = server.root_poa().unwrap();
    root.manager().activate().unwrap();
    let till: TillRef = root.activate(Arc::new(Shop)).unwrap();
    let far: TillRef = client.resolve(&till.to_string()).unwrap();
    let offer = Offer::from(OfferState { base: ItemState { cents: 250 }, until: "noon".into() });
    let item = Item::from(ItemState { cents: 40 });
    for (value, cents) in [(&item, 40), (&Item::from(offer), 250)] {
        let here: PricedRef = AbstractBase::of_value(&client, value).into_reference();
        assert_eq!(here.price(2), Ok(2 * cents), "in the process of the value");
        assert_eq!(here.price(i32::MAX).unwrap_err().kind, Kind::BadParam);
        assert_eq!(far.price_of(Some(&here), 3), Ok(3 * cents), "a copy in the server");
        let back = far.give_back(Some(&here)).unwrap().unwrap();
        // It is still a value, and not the object that serves it.
        let again = AbstractBase::from(back.clone()).value().and_then(|value| value.cast::<Item>());
        assert_eq!(again.as_ref(), Some(value));
        assert_eq!(back.price(1), Ok(cents));
        let before = FORGOTTEN.load(Ordering::Relaxed);
        back.forget_price().unwrap();
        assert_eq!(FORGOTTEN.load(Ordering::Relaxed), before + 1);
        assert_eq!(back.clone().price_begin(5).unwrap().wait(), Ok(5 * cents));
    }
    // The object ends with the reference, and owns the value no longer.
    let owners = || Arc::strong_count(&item.object());
    let before = owners();
    let here: PricedRef = AbstractBase::of_value(&client, &item).into_reference();
    here.price(1).unwrap();
    assert!(owners() > before);
    drop(here);
    assert_eq!(owners(), before);
    for orb in [client, server] {
        orb.shutdown(true).unwrap();
    }
}

#[test]
fn a_value_that_nothing_serves_is_not_called() {
    let orb = orb(false);
    let here: PricedRef = AbstractBase::of_value(&orb, &Item::from(ItemState { cents: 1 })).into_reference();
    let refused = here.price(1).unwrap_err();
    assert_eq!(refused.kind, Kind::NoImplement);
    assert!(refused.to_string().contains("AbstractBase::serve"), "{refused}");
    orb.shutdown(true).unwrap();
}
