//! Groups about objects: references, factories, inheritance, oneways, call-backs.

use super::values::Echo;
use crate::generated::interop::*;
use isorb::{Object, Poa, Result, SystemException, Upcall};
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicI64, Ordering::SeqCst};

/// A POA's complaint as the exception that a client sees.
pub(crate) fn internal(error: impl Display) -> SystemException {
    SystemException::from(isorb::Kind::Internal).detail(error.to_string())
}

struct Counter {
    id: String,
    total: AtomicI64,
}

/// A new Thing with a total of 0.
pub(super) fn new_thing(poa: &Poa, id: &str) -> Result<ThingRef> {
    poa.activate(Arc::new(Counter { id: id.to_owned(), total: AtomicI64::new(0) })).map_err(internal)
}

impl Thing for Counter {
    fn id<'u>(&'u self, _: Upcall<'u>) -> Result<&'u str> {
        Ok(&self.id)
    }
    fn add(&self, _: Upcall<'_>, amount: i32) -> Result<i64> {
        Ok(self.total.fetch_add(amount.into(), SeqCst) + i64::from(amount))
    }
    fn destroy(&self, cx: Upcall<'_>) -> Result<()> {
        cx.poa().map_or(Ok(()), |poa| poa.deactivate_object(cx.object_id()).map_err(internal))
    }
}

impl References for Echo {
    echo_views! { 'u:
        echo_thing Option<&'u ThingRef>;
        echo_object Option<&'u Object>;
        echo_things ThingsView<'u>;
        echo_link LinkView<'u>;
    }
    fn id_of<'u>(&'u self, cx: Upcall<'u>, a: Option<&'u ThingRef>) -> Result<&'u str> {
        match a {
            Some(thing) => cx.keep(thing.id()?).map(String::as_str),
            None => Ok("nil"),
        }
    }
}

/// Makes Things in a POA.
pub(super) struct Maker(pub Poa);

impl Factories for Maker {
    fn create<'u>(&'u self, cx: Upcall<'u>, name: &'u str) -> Result<Option<&'u ThingRef>> {
        cx.keep(new_thing(&self.0, name)?).map(Some)
    }
    fn nobody<'u>(&'u self, _: Upcall<'u>) -> Result<Option<&'u ThingRef>> {
        Ok(None)
    }
    fn create_many<'u>(&'u self, cx: Upcall<'u>, them: NamesView<'u>) -> Result<ThingsView<'u>> {
        let made = them.iter().map(|name| new_thing(&self.0, name)).collect::<Result<Vec<_>>>()?;
        let views: Vec<_> = cx.keep(made)?.iter().map(Some).collect();
        cx.slice(&views)
    }
}

#[derive(Default)]
struct OnlyBase(AtomicI32);

impl Base for OnlyBase {
    fn base_name<'u>(&'u self, _: Upcall<'u>) -> Result<&'u str> {
        Ok("base")
    }
    fn level(&self, _: Upcall<'_>) -> Result<i32> {
        Ok(self.0.load(SeqCst))
    }
    fn set_level(&self, _: Upcall<'_>, value: i32) -> Result<()> {
        self.0.store(value, SeqCst);
        Ok(())
    }
}

#[derive(Default)]
struct Whole(OnlyBase);

impl Base for Whole {
    fn base_name<'u>(&'u self, cx: Upcall<'u>) -> Result<&'u str> {
        self.0.base_name(cx)
    }
    fn level(&self, cx: Upcall<'_>) -> Result<i32> {
        self.0.level(cx)
    }
    fn set_level(&self, cx: Upcall<'_>, value: i32) -> Result<()> {
        self.0.set_level(cx, value)
    }
}
impl Left for Whole {
    fn left_name<'u>(&'u self, _: Upcall<'u>) -> Result<&'u str> {
        Ok("left")
    }
}
impl Right for Whole {
    fn right_name<'u>(&'u self, _: Upcall<'u>) -> Result<&'u str> {
        Ok("right")
    }
}
impl Bottom for Whole {
    fn bottom_name<'u>(&'u self, _: Upcall<'u>) -> Result<&'u str> {
        Ok("bottom")
    }
}

/// A Base, and a Bottom under all its interfaces.
pub(super) struct Diamond {
    plain: BaseRef,
    base: BaseRef,
    left: LeftRef,
    right: RightRef,
    bottom: BottomRef,
}

impl Diamond {
    /// # Errors
    /// The POA's.
    pub fn new(poa: &Poa) -> Result<Diamond> {
        let plain = poa.activate(Arc::new(OnlyBase::default())).map_err(internal)?;
        let bottom: BottomRef = poa.activate(Arc::new(Whole::default())).map_err(internal)?;
        let (base, left, right) = (bottom.clone().into(), bottom.clone().into(), bottom.clone().into());
        Ok(Diamond { plain, base, left, right, bottom })
    }
}

impl Inheritance for Diamond {
    fn plain<'u>(&'u self, _: Upcall<'u>) -> Result<Option<&'u BaseRef>> {
        Ok(Some(&self.plain))
    }
    fn as_base<'u>(&'u self, _: Upcall<'u>) -> Result<Option<&'u BaseRef>> {
        Ok(Some(&self.base))
    }
    fn as_left<'u>(&'u self, _: Upcall<'u>) -> Result<Option<&'u LeftRef>> {
        Ok(Some(&self.left))
    }
    fn as_right<'u>(&'u self, _: Upcall<'u>) -> Result<Option<&'u RightRef>> {
        Ok(Some(&self.right))
    }
    fn as_bottom<'u>(&'u self, _: Upcall<'u>) -> Result<Option<&'u BottomRef>> {
        Ok(Some(&self.bottom))
    }
}

/// A running total of oneways.
#[derive(Default)]
pub(super) struct Total(AtomicI64);

impl Oneways for Total {
    fn add(&self, _: Upcall<'_>, amount: i32) -> Result<()> {
        self.0.fetch_add(amount.into(), SeqCst);
        Ok(())
    }
    fn send(&self, _: Upcall<'_>, data: OctetsView<'_>) -> Result<()> {
        self.0.fetch_add(data.len() as i64, SeqCst);
        Ok(())
    }
    fn ping(&self, _: Upcall<'_>) -> Result<()> {
        self.0.fetch_add(1, SeqCst);
        Ok(())
    }
    fn total(&self, _: Upcall<'_>) -> Result<i64> {
        Ok(self.0.load(SeqCst))
    }
    fn reset(&self, _: Upcall<'_>) -> Result<()> {
        self.0.store(0, SeqCst);
        Ok(())
    }
}

impl Callbacks for Echo {
    fn call_back(&self, _: Upcall<'_>, to: Option<&ReceiverRef>, text: &str, times: i32) -> Result<i32> {
        let to = to.ok_or(isorb::Kind::BadParam)?;
        let mut right = 0;
        for i in 0..times {
            right += i32::from(to.receive(text, i)? == format!("{text}:{i}"));
        }
        Ok(right)
    }
    fn poke_back(&self, _: Upcall<'_>, to: Option<&ReceiverRef>, number: i32) -> Result<()> {
        to.ok_or(isorb::Kind::BadParam)?.poke(number)
    }
}

/// What a client lets itself be called back at.
#[derive(Default)]
pub struct Receiving {
    /// The last number that came by `poke`.
    pub poked: AtomicI32,
}

impl Receiver for Receiving {
    fn receive<'u>(&'u self, cx: Upcall<'u>, text: &'u str, number: i32) -> Result<&'u str> {
        cx.keep(format!("{text}:{number}")).map(String::as_str)
    }
    fn poke(&self, _: Upcall<'_>, number: i32) -> Result<()> {
        self.poked.store(number, SeqCst);
        Ok(())
    }
}
