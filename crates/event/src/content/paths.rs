//! Where the members of a payload lie: a path of an expression as instructions.

use super::emitter::Emitter;
use super::error::ContentError;
use super::layout::{UnskippableType, first_case, pass};
use super::program::Op;
use super::syntax::PathPart;
use isorb_any::{Kind, TypeCode};
use std::ops::Range;

/// The name of a payload that is neither a structure nor a union.
const WHOLE: &str = "payload";
/// The name of a union's discriminator.
const DISCRIMINATOR: &str = "_d";
/// The most members that a message lists.
const LISTED: usize = 8;

/// A path that leads to a value.
pub(super) struct Located {
    pub tc: TypeCode,
    moves: Vec<Move>,
}

struct Move {
    /// Within this type.
    of: TypeCode,
    to: To,
    range: Range<usize>,
}

enum To {
    Member(u32),
    Case(u32),
    Discriminator,
    Element(u32),
}

impl Located {
    pub fn range(&self) -> Range<usize> {
        self.moves.last().map_or(0..0, |last| last.range.clone())
    }
}

/// Finds the members of a path.
pub(super) fn locate(payload: &TypeCode, path: &[PathPart]) -> Result<Located, ContentError> {
    let mut tc = payload.original();
    let whole = !matches!(tc.kind(), Kind::Struct | Kind::Union);
    let mut moves = Vec::new();
    for (at, part) in path.iter().enumerate() {
        let (to, within, range) = match part {
            PathPart::Member(name, range) if whole && at == 0 => {
                if name == WHOLE {
                    continue;
                }
                let message = format!("the payload is a {tc} and has no member `{name}`");
                let error = ContentError::new(range.clone(), message);
                return Err(error.hint(format!("the value itself is called `{WHOLE}`")));
            }
            PathPart::Member(name, range) => {
                let (to, within) = member(&tc, name, range)?;
                (to, within, range)
            }
            PathPart::Element(index, range) => (To::Element(*index), element(&tc, *index, range)?, range),
        };
        moves.push(Move { of: tc, to, range: range.clone() });
        tc = within.original();
    }
    Ok(Located { tc, moves })
}

fn member(tc: &TypeCode, name: &str, range: &Range<usize>) -> Result<(To, TypeCode), ContentError> {
    let internal = |_| ContentError::new(range.clone(), "the type code is incomplete");
    match tc.kind() {
        Kind::Union if name == DISCRIMINATOR => {
            return Ok((To::Discriminator, tc.discriminator_type().map_err(internal)?));
        }
        Kind::Struct | Kind::Union => {}
        _ => {
            let error = ContentError::new(range.clone(), format!("a {tc} has no members"));
            return Err(error.hint("the members of its elements are behind an index: `points[0].x`"));
        }
    }
    let Some(index) = first_case(tc, name) else { return Err(no_member(tc, name, range)) };
    let to = if tc.kind() == Kind::Struct { To::Member(index) } else { To::Case(index) };
    Ok((to, tc.member_type(index).map_err(internal)?))
}

fn no_member(tc: &TypeCode, name: &str, range: &Range<usize>) -> ContentError {
    let mut names: Vec<&str> = Vec::new();
    for index in 0..tc.member_count().unwrap_or(0) {
        match tc.member_name(index) {
            Ok(known) if !names.contains(&known) && names.len() <= LISTED => names.push(known),
            _ => {}
        }
    }
    if tc.kind() == Kind::Union {
        names.insert(0, DISCRIMINATOR);
    }
    let more = if names.len() > LISTED { ", …" } else { "" };
    names.truncate(LISTED);
    let error = ContentError::new(range.clone(), format!("{tc} has no member `{name}`"));
    error.hint(format!("its members are {}{more}", names.join(", ")))
}

fn element(tc: &TypeCode, index: u32, range: &Range<usize>) -> Result<TypeCode, ContentError> {
    let bound = tc.length().unwrap_or(0);
    match tc.kind() {
        Kind::Array if index < bound => {}
        Kind::Sequence if bound == 0 || index < bound => {}
        Kind::Array | Kind::Sequence => {
            return Err(ContentError::new(range.clone(), format!("{tc} has no element {index}")));
        }
        _ => return Err(ContentError::new(range.clone(), format!("a {tc} has no elements"))),
    }
    tc.content_type().map_err(|_| ContentError::new(range.clone(), "the type code is incomplete"))
}

/// Where the program reads next, as far as the out knows.
pub(super) struct Cursor {
    /// `None` behind a value of varying size.
    known: Option<u32>,
    /// Instructions that go to the end of the path with an absent value.
    absent: Vec<usize>,
}

impl Cursor {
    /// The position that the out knows.
    pub fn known(&self) -> Option<u32> {
        self.known
    }

    /// Whether some payloads have no such member.
    pub fn may_be_absent(&self) -> bool {
        !self.absent.is_empty()
    }

    /// Makes the program read from here on.
    pub fn settle(&mut self, out: &mut Emitter, range: &Range<usize>) -> Result<(), ContentError> {
        match self.known.take() {
            Some(at) => out.emit(Op::GoTo(at), range),
            None => Ok(()),
        }
    }

    /// Lets absent values continue behind the last instruction.
    pub fn finish(self, out: &mut Emitter) {
        let end = out.next();
        self.absent.into_iter().for_each(|at| out.patch(at, end));
    }
}

/// Emits the instructions that go to a member.
pub(super) fn approach(out: &mut Emitter, to: &Located) -> Result<Cursor, ContentError> {
    // The octet of the byte order comes first.
    let mut cursor = Cursor { known: Some(1), absent: Vec::new() };
    for step in &to.moves {
        let range = &step.range;
        match step.to {
            To::Member(index) => pass_members(out, &mut cursor, &step.of, index, range)?,
            To::Case(case) => {
                let choice = out.layouts.add_choice(&step.of).ok_or_else(|| {
                    ContentError::new(
                        range.clone(),
                        format!("the branches of {} cannot be told apart", step.of),
                    )
                })?;
                cursor.settle(out, range)?;
                cursor.absent.push(out.next());
                out.emit(Op::Case { choice, case, absent: 0 }, range)?;
            }
            To::Discriminator => {}
            To::Element(index) => pass_elements(out, &mut cursor, &step.of, index, range)?,
        }
    }
    Ok(cursor)
}

fn pass_members(
    out: &mut Emitter,
    cursor: &mut Cursor,
    of: &TypeCode,
    until: u32,
    range: &Range<usize>,
) -> Result<(), ContentError> {
    let refused = |UnskippableType(tc): UnskippableType| cannot_pass(range, &tc);
    out.count_work(until, range)?;
    let mut passed = 0;
    while let Some(at) = cursor.known.filter(|_| passed < until) {
        let (member, _) = out.layouts.range(of, passed..passed + 1).map_err(refused)?;
        let shape = out.layouts.members(member, member + 1).first();
        let Some(sizes) = shape.and_then(|shape| out.layouts.sizes(*shape)) else { break };
        cursor.known = Some(position(pass(sizes, at.into(), 1), range)?);
        passed += 1;
    }
    if passed == until {
        return Ok(());
    }
    let (first, last) = out.layouts.range(of, passed..until).map_err(refused)?;
    cursor.settle(out, range)?;
    out.emit(Op::Pass { first, last }, range)
}

fn pass_elements(
    out: &mut Emitter,
    cursor: &mut Cursor,
    of: &TypeCode,
    index: u32,
    range: &Range<usize>,
) -> Result<(), ContentError> {
    let counted = of.kind() == Kind::Sequence;
    let element =
        of.content_type().map_err(|_| ContentError::new(range.clone(), "the type code is incomplete"))?;
    let shape = if index == 0 && counted {
        // Elements are not passed, so they may be of any type.
        0
    } else {
        out.layouts.of(&element).map_err(|UnskippableType(tc)| cannot_pass(range, &tc))?
    };
    if !counted && index == 0 {
        return Ok(());
    }
    if let (false, Some(at), Some(sizes)) = (counted, cursor.known, out.layouts.sizes(shape)) {
        cursor.known = Some(position(pass(sizes, at.into(), index), range)?);
        return Ok(());
    }
    cursor.settle(out, range)?;
    if counted {
        cursor.absent.push(out.next());
    }
    out.emit(Op::Element { shape, index, counted, absent: 0 }, range)
}

fn position(at: u64, range: &Range<usize>) -> Result<u32, ContentError> {
    let far = |_| ContentError::new(range.clone(), "the member lies beyond 4 GiB of the payload");
    u32::try_from(at).map_err(far)
}

fn cannot_pass(range: &Range<usize>, tc: &TypeCode) -> ContentError {
    ContentError::new(
        range.clone(),
        format!("the member lies behind a value of type {tc}, which cannot be passed in place"),
    )
    .hint("put members that filters read before those of type any, TypeCode and value types")
}
