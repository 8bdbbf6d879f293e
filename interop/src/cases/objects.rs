//! References, factories, inheritance, forwards, contexts.

use crate::check::{Check, Run, some};
use crate::generated::interop::*;
use crate::{expect, expect_err};
use isorb::{Kind, Object, Reference};
use suite::GroupError;

fn id_of(thing: Option<&ThingRef>) -> isorb::Result<String> {
    thing.map_or(Ok("nil".to_owned()), ThingRef::id)
}

pub(super) fn references(run: &Run<'_>) -> Check {
    let o: ReferencesRef = run.group()?;
    let factories: FactoriesRef = run.other_group("factories")?;
    let names = ["first", "second", "nil"];
    let things = [factories.create("first")?, factories.create("second")?, None];
    for i in 0..3 {
        let next = (i + 1) % 3;
        let thing = things[i].as_ref();
        let mut b = things[next].clone();
        let (r, c) = o.echo_thing(thing, &mut b)?;
        expect!(id_of(r.as_ref())? == names[i] && id_of(b.as_ref())? == names[i]);
        expect!(id_of(c.as_ref())? == names[next]);
        let mut b = things[next].clone().map(Object::from);
        let (r, c) = o.echo_object(thing.map(ThingRef::object), &mut b)?;
        expect!(r.as_ref() == thing.map(ThingRef::object) || thing.is_some() == r.is_some());
        let narrowed = c.map(|object| object.narrow::<ThingRef>()).transpose()?.flatten();
        expect!(id_of(narrowed.as_ref())? == names[next]);
        expect!(o.id_of(thing)? == names[i]);
        let link = Link { label: "label".into(), target: things[i].clone() };
        let mut b = Link { label: String::new(), target: things[next].clone() };
        let (r, c) = o.echo_link(&link, &mut b)?;
        expect!(id_of(r.target.as_ref())? == names[i] && id_of(b.target.as_ref())? == names[i]);
        expect!(id_of(c.target.as_ref())? == names[next] && r.label == "label" && c.label.is_empty());
    }
    let views: Vec<_> = things.iter().map(Option::as_ref).collect();
    let mut b = Vec::new();
    let (r, c) = o.echo_things(&views, &mut b)?;
    expect!(r.len() == 3 && b.len() == 3 && c.is_empty());
    for i in 0..3 {
        expect!(id_of(r[i].as_ref())? == names[i] && id_of(b[i].as_ref())? == names[i]);
    }
    Ok(())
}

pub(super) fn factories(run: &Run<'_>) -> Check {
    let o: FactoriesRef = run.group()?;
    let (one, two) = (some(o.create("same")?)?, some(o.create("same")?)?);
    expect!(o.nobody()?.is_none());
    expect!(one != two);
    expect!(one.add(5)? == 5 && one.add(-7)? == -2 && two.add(1)? == 1);
    expect!(one.add(i32::MAX)? == i64::from(i32::MAX) - 2);
    expect!(one.add(i32::MAX)? == 2 * i64::from(i32::MAX) - 2);
    one.destroy()?;
    expect_err!(one.add(1), exception if exception.kind == Kind::ObjectNotExist);
    expect!(two.add(1)? == 2);
    let names: Vec<String> = (0..50).map(|i| i.to_string()).collect();
    let many = o.create_many(&names)?;
    expect!(many.len() == 50);
    for (thing, name) in many.iter().zip(&names) {
        expect!(&id_of(thing.as_ref())? == name);
    }
    Ok(())
}

pub(super) fn inheritance(run: &Run<'_>) -> Check {
    let o: InheritanceRef = run.group()?;
    let (plain, base) = (some(o.plain()?)?, some(o.as_base()?)?);
    let (left, right, bottom) = (some(o.as_left()?)?, some(o.as_right()?)?, some(o.as_bottom()?)?);
    expect!(plain.base_name()? == "base");
    expect!(plain.object().narrow::<BottomRef>()?.is_none());
    let narrowed = some(base.object().narrow::<BottomRef>()?)?;
    expect!(narrowed.left_name()? == "left" && narrowed.right_name()? == "right");
    expect!(narrowed.bottom_name()? == "bottom");
    expect!(left.base_name()? == "base");
    let sideways = some(left.object().narrow::<RightRef>()?)?;
    expect!(sideways.right_name()? == "right");
    bottom.set_level(41)?;
    expect!(left.level()? == 41 && right.level()? == 41 && base.level()? == 41);
    plain.set_level(7)?;
    expect!(bottom.level()? == 41 && plain.level()? == 7);
    Ok(())
}

pub(super) fn objects(run: &Run<'_>) -> Check {
    let factories: FactoriesRef = run.other_group("factories")?;
    let (one, two) = (some(factories.create("one")?)?, some(factories.create("two")?)?);
    let object = one.object();
    expect!(object.is_a("IDL:Interop/Thing:1.0")?);
    expect!(object.is_a("IDL:omg.org/CORBA/Object:1.0")?);
    expect!(!object.is_a("IDL:Interop/Factories:1.0")?);
    expect!(!object.non_existent()?);
    expect!(one == one.clone() && one != two);
    expect!(object.hash_below(1000) < 1000);
    one.destroy()?;
    expect!(object.non_existent()?);
    let wrong: ThingRef = run.object_of("scalars")?.unchecked_narrow();
    expect_err!(wrong.destroy(), exception if exception.kind == Kind::BadOperation);
    let again: ThingRef = run.orb.resolve(&two.object().to_string())?;
    expect!(again.id()? == "two");
    expect_err!(run.suite()?.group("no such group"), GroupError::NoSuchGroup(e) if e.name == "no such group");
    Ok(())
}

pub(super) fn forwards(run: &Run<'_>) -> Check {
    let o: ForwardsRef = run.group()?;
    let before = o.made()?;
    let moved = some(o.create("moved thing")?)?;
    expect!(moved.add(40)? == 40 && moved.add(2)? == 42);
    expect!(moved.id()? == "moved thing");
    expect!(o.made()? > before);
    let other = some(o.create("another")?)?;
    expect!(other.id()? == "another" && other.add(1)? == 1 && moved.add(0)? == 42);
    let checked = some(o.create("checked")?)?;
    expect!(!checked.object().non_existent()?);
    // The reference itself contains the answer; the question must travel.
    expect!(!checked.object().is_a("IDL:Interop/Factories:1.0")?);
    Ok(())
}

pub(super) fn contexts(run: &Run<'_>) -> Check {
    let o: ContextsRef = run.group()?;
    let context: Vec<String> =
        ["interop_one", "first", "single", "alone"].iter().map(|s| (*s).to_owned()).collect();
    expect!(o.lookup("interop_one", &context)? == "first");
    expect!(o.lookup("single", &context)? == "alone");
    expect!(o.lookup("hidden", &context)?.is_empty());
    Ok(())
}
