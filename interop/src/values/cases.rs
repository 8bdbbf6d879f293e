//! What isorb calls a peer's `Boxes` and `Values` with.

use super::{length_of, money, priced};
use crate::check::{Check, Stop};
use crate::expect;
use crate::generated::interop_values::*;
use isorb::{Link, Value, ValueBase};

/// The objects of a peer.
#[derive(Clone, Debug)]
pub struct Cases {
    /// The object for boxed values.
    pub boxes: BoxesRef,
    /// The object for others.
    pub values: ValuesRef,
    /// JacORB refuses two boxed strings in a call, and has no `echo_shape` and `echo_base`.
    pub is_jacorb: bool,
}

type Case = fn(&Cases) -> Check;

/// All cases by name.
pub const CASES: &[(&str, Case)] =
    &[("boxed_values", boxed_values), ("derived_values", derived_values), ("graphs", graphs)];

/// The results of all cases.
pub fn run(cases: &Cases) -> Vec<(&'static str, Check)> {
    CASES.iter().map(|(name, case)| (*name, case(cases))).collect()
}

fn boxed_values(Cases { boxes, is_jacorb, .. }: &Cases) -> Check {
    if *is_jacorb {
        return Err(Stop::Skip("JacORB's server refuses two boxed strings in a call".into()));
    }
    let (a, mut b) = (Text::from("a".to_owned()), Some(Text::from("b".to_owned())));
    let (result, c) = boxes.echo_text(Some(&a), &mut b)?;
    expect!(result == Some(a));
    expect!(c == Some(Text::from("b".to_owned())));
    expect!(b.zip(result).is_some_and(|(b, result)| b.is_same(&result)));
    expect!(boxes.echo_number(None, &mut Some(Number::from(7)))? == (None, Some(Number::from(7))));
    let blob = Blob::from((0..5000).map(|i| (i % 251) as u8).collect::<Vec<_>>());
    let (result, _) = boxes.echo_blob(Some(&blob), &mut None)?;
    expect!(result == Some(blob));
    Ok(())
}

fn derived_values(Cases { values, is_jacorb, .. }: &Cases) -> Check {
    let a = Money::from(money("EUR", 250));
    let mut b = Some(Money::from(priced("USD", -1, "cup")));
    let (result, c) = values.echo_money(Some(&a), &mut b)?;
    expect!(result == Some(a));
    let c: Option<Priced> = c.and_then(|c| c.cast());
    expect!(c.is_some_and(|c| (&*c.currency, c.cents, &*c.item) == ("USD", -1, "cup")));
    let tea: Option<Priced> = values.priced(true)?.and_then(|tea| tea.cast());
    expect!(tea.is_some_and(|tea| (&*tea.currency, tea.cents, &*tea.item) == ("EUR", 199, "tea")));
    if *is_jacorb {
        return Ok(());
    }
    let square = Shape::from(Square::from(SquareState { side: 3.0 }));
    let (result, _) = values.echo_shape(Some(&square), &mut None)?;
    let square = result.and_then(|shape| shape.cast::<Square>());
    expect!(square.map(|square| square.side) == Some(3.0));
    Ok(())
}

fn graphs(Cases { values, is_jacorb, .. }: &Cases) -> Check {
    let back = Link::unset();
    let second = Node::from(NodeState { value: 2, next: back.clone() });
    let leaf = Leaf::from(LeafState {
        base: NodeState { value: 3, next: Link::from(&second) },
        label: "leaf".into(),
    });
    let ring = Node::from(NodeState { value: 1, next: Node::from(leaf.clone()).into() });
    back.set(&ring);
    expect!(values.length(Some(&ring))? == 3);
    expect!(values.same(Some(&ring), Some(&ring))?);
    expect!(!values.same(Some(&ring), Some(&second))?);
    let (got, _) = values.echo_node(Some(&ring), &mut None)?;
    expect!(length_of(got.as_ref()) == 3);
    let after = got.as_ref().and_then(|got| got.next.get());
    expect!(after.and_then(|node| node.cast::<Leaf>()).is_some_and(|leaf| leaf.label == "leaf"));
    if *is_jacorb {
        return Ok(());
    }
    let (base, mut text) = (ValueBase::from(leaf), Some(ValueBase::from(Text::from("t".to_owned()))));
    let (result, c) = values.echo_base(Some(&base), &mut text)?;
    expect!(result.is_some_and(|value| value.cast::<Leaf>().is_some()));
    expect!(c.is_some_and(|value| value.cast::<Text>().is_some_and(|text| *text == "t")));
    Ok(())
}
