//! The servants of `Boxes` and `Values`.

use super::{length_of, priced};
use crate::generated::interop_values::*;
use isorb::generated::*;
use isorb::{Value, ValueBase};
use std::mem::replace;

/// Serves both interfaces.
#[derive(Clone, Copy, Debug, Default)]
pub struct Server;

type Both<'u, T> = isorb::Result<(Option<&'u T>, Option<&'u T>)>;

fn echo<'u, T>(a: Option<&'u T>, b: &mut Option<&'u T>) -> Both<'u, T> {
    Ok((a, replace(b, a)))
}

impl Boxes for Server {
    fn echo_text<'u>(
        &'u self,
        _: Upcall<'u>,
        a: Option<&'u Text>,
        b: &mut Option<&'u Text>,
    ) -> Both<'u, Text> {
        echo(a, b)
    }
    fn echo_number<'u>(
        &'u self,
        _: Upcall<'u>,
        a: Option<&'u Number>,
        b: &mut Option<&'u Number>,
    ) -> Both<'u, Number> {
        echo(a, b)
    }
    fn echo_blob<'u>(
        &'u self,
        _: Upcall<'u>,
        a: Option<&'u Blob>,
        b: &mut Option<&'u Blob>,
    ) -> Both<'u, Blob> {
        echo(a, b)
    }
}

impl Values for Server {
    fn echo_money<'u>(
        &'u self,
        _: Upcall<'u>,
        a: Option<&'u Money>,
        b: &mut Option<&'u Money>,
    ) -> Both<'u, Money> {
        echo(a, b)
    }
    fn echo_node<'u>(
        &'u self,
        _: Upcall<'u>,
        a: Option<&'u Node>,
        b: &mut Option<&'u Node>,
    ) -> Both<'u, Node> {
        echo(a, b)
    }
    fn echo_shape<'u>(
        &'u self,
        _: Upcall<'u>,
        a: Option<&'u Shape>,
        b: &mut Option<&'u Shape>,
    ) -> Both<'u, Shape> {
        echo(a, b)
    }
    fn echo_base<'u>(
        &'u self,
        _: Upcall<'u>,
        a: Option<&'u ValueBase>,
        b: &mut Option<&'u ValueBase>,
    ) -> Both<'u, ValueBase> {
        echo(a, b)
    }
    fn give_back<'u>(&'u self, _: Upcall<'u>, root: Option<&'u Branch>) -> isorb::Result<Option<&'u Branch>> {
        Ok(root)
    }
    fn same(&self, _: Upcall<'_>, a: Option<&Node>, b: Option<&Node>) -> isorb::Result<bool> {
        Ok(a.zip(b).is_some_and(|(a, b)| a.is_same(b)))
    }
    fn length(&self, _: Upcall<'_>, head: Option<&Node>) -> isorb::Result<u32> {
        Ok(length_of(head))
    }
    fn priced<'u>(&'u self, cx: Upcall<'u>, _: bool) -> isorb::Result<Option<&'u Money>> {
        cx.keep(Money::from(priced("EUR", 199, "tea"))).map(Some)
    }
}
