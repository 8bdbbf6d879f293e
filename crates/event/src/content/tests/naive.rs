//! An evaluator without a program: it decodes the whole value by `isorb-any`, and walks the
//! expression over it. It shares only the parser with the filter.

use crate::content::syntax::{Arithmetic, Expr, ExprKind, Logical, PathPart, Relation, Unary};
use isorb_any::{Any, Event, Label, Stopped, TypeCode, Visitor};

/// A value, decoded.
#[derive(Clone, Debug)]
pub enum Tree {
    Int(i128),
    Float(f64),
    Text(String),
    Enumerator(u32),
    Struct(Vec<(String, Tree)>),
    /// The discriminator, and the active member.
    Union(Box<Tree>, Option<(String, Box<Tree>)>),
    List(Vec<Tree>),
    Other,
}

/// Decodes a payload: an encapsulation of a value.
pub fn decode(tc: &TypeCode, octets: &[u8]) -> Option<Tree> {
    let order = if octets.first()? & 1 == 1 { isorb_cdr::Order::Little } else { isorb_cdr::Order::Big };
    let mut octets = octets.to_vec();
    let mut region = isorb_scope::Region::new(4096);
    let scope = region.enter();
    let mut d = isorb_cdr::Decoder::new(&mut octets, order, isorb_cdr::Text::DEFAULT, &scope);
    d.skip(1);
    let any = Any::take(tc.clone(), &mut d).ok()?;
    let mut builder = Builder { open: Vec::new(), whole: None };
    any.walk(&mut builder).ok()?;
    builder.whole
}

struct Builder {
    /// The values that are not complete, and the name of the member that comes next.
    open: Vec<(Tree, String)>,
    whole: Option<Tree>,
}

impl Builder {
    fn put(&mut self, tree: Tree) {
        match self.open.last_mut() {
            None => self.whole = Some(tree),
            Some((Tree::Struct(members), name)) => members.push((name.clone(), tree)),
            Some((Tree::Union(_, member), name)) => *member = Some((name.clone(), Box::new(tree))),
            Some((Tree::List(elements), _)) => elements.push(tree),
            Some(other) => panic!("{other:?} holds no other value"),
        }
    }

    fn close(&mut self) {
        let (tree, _) = self.open.pop().unwrap();
        self.put(tree);
    }
}

impl Visitor for Builder {
    fn event(&mut self, event: Event<'_>) -> Result<(), Stopped> {
        match event {
            Event::Boolean(value) => self.put(Tree::Int(value.into())),
            Event::Char(value) => self.put(Tree::Int(u32::from(value).into())),
            Event::Integer(value) => self.put(Tree::Int(value)),
            Event::Float(value) => self.put(Tree::Float(value.into())),
            Event::Double(value) => self.put(Tree::Float(value)),
            Event::LongDouble(value) => self.put(Tree::Float(value.into())),
            Event::Text(text) => self.put(Tree::Text(text.to_owned())),
            Event::Enumerator(_, index) => self.put(Tree::Enumerator(index)),
            Event::Octets(octets) => {
                self.put(Tree::List(octets.iter().map(|octet| Tree::Int((*octet).into())).collect()));
            }
            Event::BeginStruct(..) => self.open.push((Tree::Struct(Vec::new()), String::new())),
            Event::Member(name, _) => name.clone_into(&mut self.open.last_mut().unwrap().1),
            Event::BeginUnion(_, label, enumerator) => {
                let Label::Value(label) = label else { panic!("a value has a label") };
                let discriminator = match enumerator {
                    "" => Tree::Int(label),
                    _ => Tree::Enumerator(label as u32),
                };
                self.open.push((Tree::Union(Box::new(discriminator), None), String::new()));
            }
            Event::BeginList(_) => self.open.push((Tree::List(Vec::new()), String::new())),
            Event::EndStruct | Event::EndUnion | Event::EndList => self.close(),
            Event::Null | Event::Fixed(..) | Event::Reference(..) | Event::TypeCode(_) => {
                self.put(Tree::Other)
            }
            other => panic!("{other:?} is in no payload of these tests"),
        }
        Ok(())
    }
}

/// The value of an expression; `None` for one that is absent.
pub fn evaluate(expr: &Expr, of: &Tree) -> Option<Tree> {
    let truth = |truth: bool| Some(Tree::Int(truth.into()));
    match &expr.kind {
        ExprKind::Bool(value) => truth(*value),
        ExprKind::Int(value) => Some(Tree::Int((*value).into())),
        ExprKind::Float(value) => Some(Tree::Float(*value)),
        ExprKind::Text(text) => Some(Tree::Text(text.clone())),
        ExprKind::Char(value) => Some(Tree::Int(u32::from(*value).into())),
        ExprKind::Path(path) => find(path, of),
        ExprKind::Length(path) => match find(path, of)? {
            Tree::Text(text) => Some(Tree::Int(text.chars().count() as i128)),
            Tree::List(elements) => Some(Tree::Int(elements.len() as i128)),
            other => panic!("{other:?} has no length"),
        },
        ExprKind::StartsWith(text, prefix) => match (evaluate(text, of), evaluate(prefix, of)) {
            (Some(Tree::Text(text)), Some(Tree::Text(prefix))) => truth(text.starts_with(&prefix)),
            _ => truth(false),
        },
        ExprKind::Not(inner) => truth(!is_true(inner, of)),
        ExprKind::Unary(operator, inner) => match (operator, evaluate(inner, of)?) {
            (Unary::Negate, Tree::Int(value)) => Some(Tree::Int(-value)),
            (Unary::Negate, Tree::Float(value)) => Some(Tree::Float(-value)),
            (Unary::Complement, Tree::Int(value)) => Some(Tree::Int(!value)),
            other => panic!("{other:?}"),
        },
        ExprKind::Arithmetic(operator, left, right) => {
            compute(*operator, evaluate(left, of)?, evaluate(right, of)?)
        }
        ExprKind::Compare(relation, left, right) => truth(compare(*relation, left, right, of)),
        ExprKind::Logical(Logical::And, terms) => truth(terms.iter().all(|term| is_true(term, of))),
        ExprKind::Logical(Logical::Or, terms) => truth(terms.iter().any(|term| is_true(term, of))),
    }
}

pub fn is_true(expr: &Expr, of: &Tree) -> bool {
    matches!(evaluate(expr, of), Some(Tree::Int(truth)) if truth != 0)
}

fn find(path: &[PathPart], of: &Tree) -> Option<Tree> {
    let mut at = of;
    for (i, part) in path.iter().enumerate() {
        at = match (part, at) {
            (PathPart::Member(name, _), Tree::Struct(members)) => {
                &members.iter().find(|(known, _)| known == name).unwrap().1
            }
            (PathPart::Member(name, _), Tree::Union(discriminator, _)) if name == "_d" => discriminator,
            (PathPart::Member(name, _), Tree::Union(_, member)) => {
                &member.as_ref().filter(|(active, _)| active == name)?.1
            }
            (PathPart::Member(name, _), whole) if i == 0 && name == "payload" => whole,
            (PathPart::Element(index, _), Tree::List(elements)) => elements.get(*index as usize)?,
            other => panic!("{other:?}"),
        };
    }
    Some(at.clone())
}

/// Numbers are compared as such if both are whole.
fn number(tree: &Tree) -> f64 {
    match tree {
        Tree::Int(value) => *value as f64,
        Tree::Float(value) => *value,
        other => panic!("{other:?} is no number"),
    }
}

fn compute(operator: Arithmetic, left: Tree, right: Tree) -> Option<Tree> {
    if let (Tree::Int(left), Tree::Int(right)) = (&left, &right) {
        let (left, right) = (*left, *right);
        let shift = (0..64).contains(&right);
        return match operator {
            Arithmetic::Add => left.checked_add(right),
            Arithmetic::Subtract => left.checked_sub(right),
            Arithmetic::Multiply => left.checked_mul(right),
            Arithmetic::Divide => left.checked_div(right),
            Arithmetic::Remainder => left.checked_rem(right),
            Arithmetic::And => Some(left & right),
            Arithmetic::Or => Some(left | right),
            Arithmetic::Xor => Some(left ^ right),
            Arithmetic::ShiftLeft => shift.then(|| 1i128 << right).and_then(|by| left.checked_mul(by)),
            Arithmetic::ShiftRight => shift.then(|| left >> right),
        }
        .map(Tree::Int);
    }
    let (left, right) = (number(&left), number(&right));
    Some(Tree::Float(match operator {
        Arithmetic::Add => left + right,
        Arithmetic::Subtract => left - right,
        Arithmetic::Multiply => left * right,
        Arithmetic::Divide => left / right,
        Arithmetic::Remainder => left % right,
        other => panic!("{other:?} of floats"),
    }))
}

fn compare(relation: Relation, left: &Expr, right: &Expr, of: &Tree) -> bool {
    // A name beside an enumerator of a value is one itself; the generator names none that is a
    // member, too.
    let label = |side: &Expr| match &side.kind {
        ExprKind::Path(path) => match &path[..] {
            [PathPart::Member(name, _)] if name.starts_with("label") => Some(name.clone()),
            _ => None,
        },
        _ => None,
    };
    let side = |expr: &Expr, other: &Expr| match label(expr) {
        None => evaluate(expr, of),
        Some(name) => {
            let index = name.trim_start_matches("label").parse().unwrap();
            // Absent, if what it is compared with is.
            evaluate(other, of).map(|_| Tree::Enumerator(index))
        }
    };
    let (Some(left), Some(right)) = (side(left, right), side(right, left)) else { return false };
    let order = match (&left, &right) {
        (Tree::Int(left), Tree::Int(right)) => Some(left.cmp(right)),
        (Tree::Text(left), Tree::Text(right)) => Some(left.chars().cmp(right.chars())),
        (Tree::Enumerator(left), Tree::Enumerator(right)) => Some(left.cmp(right)),
        _ => number(&left).partial_cmp(&number(&right)),
    };
    match relation {
        Relation::Equal => order.is_some_and(|order| order.is_eq()),
        Relation::NotEqual => !order.is_some_and(|order| order.is_eq()),
        Relation::Less => order.is_some_and(|order| order.is_lt()),
        Relation::LessOrEqual => order.is_some_and(|order| order.is_le()),
        Relation::Greater => order.is_some_and(|order| order.is_gt()),
        Relation::GreaterOrEqual => order.is_some_and(|order| order.is_ge()),
    }
}
