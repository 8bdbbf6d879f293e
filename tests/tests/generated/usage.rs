//! Servants and calls as a program writes them. What matters is that this compiles; nothing here is
//! sent.

use isorb::generated::{IsA, Reference, Serves};
use isorb::{Result, Scope, Upcall};
use isorb_tests::corpus::from_inheritance::roots::{self, Bottom, BottomRef, RootRef, root};
use isorb_tests::corpus::from_inheritance::sides::{Left, LeftRef, Right, RightRef};
use isorb_tests::corpus::from_operations::operations::{EchoRef, echo};
use isorb_tests::corpus::from_operations::types::{Node, NodeView, Plain, Wide};

struct Servant {
    item: root::Item,
    answer: Vec<String>,
}

impl roots::Root for Servant {
    fn list<'u>(&'u self, cx: Upcall<'u>) -> Result<root::ItemsView<'u>, root::ListError> {
        let item = root::ItemView { s: &self.item.s };
        match self.answer.first() {
            // `?` turns a full scope into the system exception of the error.
            Some(text) => Ok(cx.slice(&[item, root::ItemView { s: text }])?),
            None => Err(root::Gone { what: self.item.clone() }.into()),
        }
    }
    fn first<'u>(&'u self, _: Upcall<'u>) -> Result<root::ItemView<'u>> {
        Ok(root::ItemView { s: &self.item.s })
    }
    fn set_first(&self, _: Upcall<'_>, value: root::ItemView<'_>) -> Result<()> {
        drop(value.s.to_owned());
        Ok(())
    }
}

impl Left for Servant {
    fn go_left<'u>(&'u self, _: Upcall<'u>, a: root::ItemView<'u>) -> Result<root::ItemView<'u>> {
        Ok(a)
    }
    fn foo_bar<'u>(&'u self, cx: Upcall<'u>) -> Result<&'u str> {
        cx.format(format_args!("{} and more", self.item.s))
    }
}

impl Right for Servant {
    fn go_right<'u>(
        &'u self,
        _: Upcall<'u>,
        a: root::ItemsView<'u>,
    ) -> Result<root::ItemsView<'u>, isorb_tests::corpus::from_inheritance::sides::right::GoRightError> {
        Ok(a)
    }
}

impl Bottom for Servant {
    fn go_bottom<'u>(
        &'u self,
        _: Upcall<'u>,
        l: Option<&'u LeftRef>,
        r: &mut Option<&'u RightRef>,
    ) -> Result<root::ItemView<'u>> {
        if l.is_none() {
            *r = None;
        }
        Ok(root::ItemView { s: "static" })
    }
}

fn serves<R: Serves<S>, S>(_: &S) -> &'static str {
    R::INTERFACE.id
}

#[test]
fn a_servant_serves_its_interface_and_the_bases() {
    let servant = Servant { item: root::Item { s: "x".to_owned() }, answer: Vec::new() };
    assert_eq!(serves::<BottomRef, _>(&servant), "IDL:roots/Bottom:1.0");
    assert_eq!(serves::<RootRef, _>(&servant), "IDL:roots/Root:1.0");
    let object: std::sync::Arc<dyn Bottom> = std::sync::Arc::new(servant);
    let _: std::sync::Arc<dyn roots::Root> = object;
    let about = BottomRef::INTERFACE;
    assert!(about.is_a("IDL:roots/Root:1.0") && about.is_a("IDL:sides/Left:1.0"));
    for (index, name) in about.operations.names().iter().enumerate() {
        assert_eq!(about.operations.find(name), Some(index as u16), "{name}");
    }
    assert_eq!(about.operations.find("go_bottom_"), None);
}

/// Each kind of argument, in the forms that the page on the mapping promises.
#[expect(dead_code, reason = "compiled, not run: there is no object behind the references")]
fn calls<'s>(
    echo: &EchoRef,
    bottom: &BottomRef,
    left: &LeftRef,
    right: RightRef,
    scope: &'s Scope<'s>,
) -> Result<()> {
    let node = Node { name: String::new(), children: vec![] };
    let mut inout = node.clone();
    let view = NodeView { name: "view", children: &[] };
    let (_, _): (Node, Node) = echo.echo_node(&node, &mut inout)?;
    let mut borrowed = NodeView { name: "of my own", children: &[] };
    let (_, _) = echo.echo_node_in(scope, &node, &mut borrowed)?;
    let (_, _) = echo.echo_node_in(scope, view, &mut borrowed)?;
    echo.set_tree(&node)?;
    echo.set_tree(view)?;
    let _: String = echo.echo_string("text", &mut String::new())?.0;
    let mut plains = vec![Plain { value: 1.0, at: 2 }];
    let _ = echo.echo_plains(&[Plain { value: 1.0, at: 2 }], &mut plains)?;
    let _ = echo.echo_wstrings(&["wide", "text"], &mut vec!["x".to_owned()])?;
    let mut more = String::new();
    match echo.echo_raising("text", &mut more) {
        Ok((result, out)) => drop((result, out)),
        Err(echo::EchoRaisingError::Full(full)) => drop(full.why),
        Err(echo::EchoRaisingError::Empty(_)) => {}
        Err(echo::EchoRaisingError::System(exception)) => return Err(exception),
    }
    let wide: Wide = echo.wide()?;
    drop(wide);
    echo.poke(echo, &isorb::Any::from(1i32), "wide")?;
    echo.poke(None::<&EchoRef>, &isorb::Any::from(1i32), "wide")?;
    // References: the type itself, one derived from it, an option, nil.
    let mut inout = Some(right);
    let _: root::Item = bottom.go_bottom(left, &mut inout)?;
    let _ = bottom.go_bottom(bottom, &mut inout)?;
    let _ = bottom.go_bottom(Some(left), &mut inout)?;
    let _ = bottom.go_bottom(None::<&LeftRef>, &mut inout)?;
    let _: Vec<root::Item> = bottom.list().map_err(|error| match error {
        root::ListError::Gone(_) => isorb::Kind::ObjectNotExist.into(),
        root::ListError::System(exception) => exception,
    })?;
    let root = RootRef::from(bottom.clone());
    takes_root(&root);
    takes_root(bottom);
    Ok(())
}

fn takes_root(_: &impl IsA<RootRef>) {}
