//! Values that are inspected and changed by their type codes (part 1, chapter 'Dynamic Management
//! of Any Values': `DynAny` and its kinds).

mod access;
mod create;
mod encode;
mod error;
mod numbers;
mod sequence;
mod structure;
mod union;
mod value;

pub use error::DynAnyError;

use crate::{Any, Kind, TypeCode};
use access::fits;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use create::Budget;

/// Most components of a value, those of its components included.
pub const MAX_COMPONENTS: usize = 1 << 20;

/// A value as a tree of components that can be changed in place.
///
/// One type serves all kinds: an operation of `DynStruct` on a sequence is
/// [`DynAnyError::TypeMismatch`]. A component belongs to the value around it, so a change of
/// [`DynAny::current_component`] is a change of the value; a clone is independent.
///
/// Where the standard has an operation for each basic type (`insert_long`, `get_string` …),
/// [`DynAny::insert`] and [`DynAny::get`] take the type from Rust.
///
/// A value (of a valuetype) that a graph holds twice has its components once. Its other places have
/// none, and refer to the first.
///
/// ```
/// use isorb_any::{Any, DynAny, TypeCode};
/// let point = TypeCode::new_struct("IDL:P:1.0", "P", &[("x", TypeCode::LONG), ("y", TypeCode::LONG)]);
/// let mut point = DynAny::from_type(&point.unwrap()).unwrap();
/// point.insert(&3i32).unwrap();
/// assert!(point.next());
/// assert_eq!(point.current_member_name(), Ok("y"));
/// point.current_component().unwrap().unwrap().insert(&4i32).unwrap();
/// assert_eq!(point.to_any().unwrap().to_string(), "struct P {x: 3, y: 4}");
/// ```
///
/// # Real-time
/// Every operation that makes or reads a value allocates. None locks or blocks.
#[derive(Clone, Debug)]
pub struct DynAny {
    tc: TypeCode,
    content: Content,
    /// The current component; `None` is the position -1 of the standard.
    position: Option<usize>,
}

#[derive(Clone, Debug)]
enum Content {
    /// A value without components.
    Basic(Any),
    /// Members of a structure or exception, elements of a sequence or array.
    List(Vec<DynAny>),
    Union {
        discriminator: Box<DynAny>,
        /// The index of its case in the type code. It is not the active case if the discriminator
        /// has changed since.
        member: Option<(usize, Box<DynAny>)>,
    },
    /// A value of a valuetype or box; `None` for null.
    Value(Option<State>),
    /// The value with this identity, which began before.
    Again(u64),
}

/// The state of a value that is not null.
#[derive(Clone, Debug)]
struct State {
    identity: u64,
    /// Its type, and the bases to which it may be truncated.
    ids: Vec<String>,
    chunked: bool,
    parts: Vec<DynAny>,
}

impl DynAny {
    /// `create_dyn_any`: the components of a value.
    ///
    /// # Errors
    /// [`DynAnyError::InconsistentTypeCode`], [`DynAnyError::TooLarge`].
    pub fn from_any(any: &Any) -> Result<DynAny, DynAnyError> {
        let mut budget = Budget::new();
        any.reading(|d| create::read(any.type_code(), d, 0, &mut budget))
    }

    /// `create_dyn_any_from_type_code`: zero, false, empty text, the first enumerator, an empty
    /// sequence, a union with its first member, a nil reference, a null value.
    ///
    /// # Errors
    /// [`DynAnyError::InconsistentTypeCode`], [`DynAnyError::TooLarge`].
    pub fn from_type(tc: &TypeCode) -> Result<DynAny, DynAnyError> {
        create::default(tc, 0, &mut Budget::new())
    }

    /// The type that it was made with. It never changes.
    pub fn type_code(&self) -> &TypeCode {
        &self.tc
    }

    /// `to_any`: the value.
    ///
    /// # Errors
    /// [`DynAnyError::InvalidValue`] for a value that refers to one which is no longer part of it;
    /// [`DynAnyError::Octets`] for a graph nested too deeply.
    pub fn to_any(&self) -> Result<Any, DynAnyError> {
        encode::to_any(self)
    }

    /// `from_any`: replaces the value.
    ///
    /// # Errors
    /// [`DynAnyError::TypeMismatch`] for a value of another type; [`DynAnyError::TooLarge`].
    pub fn set(&mut self, any: &Any) -> Result<(), DynAnyError> {
        if !fits(any.type_code(), &self.tc) {
            return Err(DynAnyError::TypeMismatch);
        }
        // A derived reference becomes one of this type; everything else has the same form.
        let mut budget = Budget::new();
        let made = any.reading(|d| create::read(&self.tc, d, 0, &mut budget))?;
        *self = made;
        Ok(())
    }

    /// `assign`: replaces the value by a copy of `other`'s.
    ///
    /// # Errors
    /// [`DynAnyError::TypeMismatch`] for a value of another type.
    pub fn assign(&mut self, other: &DynAny) -> Result<(), DynAnyError> {
        if !self.tc.equivalent(&other.tc) {
            return Err(DynAnyError::TypeMismatch);
        }
        self.content = other.content.clone();
        self.position = self.first();
        Ok(())
    }

    /// `component_count`: members, elements, or the discriminator and the active member.
    pub fn component_count(&self) -> usize {
        match &self.content {
            Content::Basic(_) | Content::Value(None) | Content::Again(_) => 0,
            Content::List(parts) => parts.len(),
            Content::Union { .. } => 1 + usize::from(self.active_case().is_some()),
            Content::Value(Some(state)) => state.parts.len(),
        }
    }

    /// `seek`: makes the component with this index the current one. False, and no current
    /// component, if there is none.
    pub fn seek(&mut self, index: usize) -> bool {
        self.position = (index < self.component_count()).then_some(index);
        self.position.is_some()
    }

    /// `rewind`: as `seek(0)`.
    pub fn rewind(&mut self) {
        self.seek(0);
    }

    /// `next`: advances to the next component, or to the first if there is no current one.
    #[expect(clippy::should_implement_trait, reason = "the name of the standard; it yields no item")]
    pub fn next(&mut self) -> bool {
        self.seek(self.position().map_or(0, |position| position + 1))
    }

    /// The index of the current component.
    pub fn position(&self) -> Option<usize> {
        // The member of a union ends to exist when its discriminator changes.
        self.position.map(|position| position.min(self.component_count().saturating_sub(1)))
    }

    /// `current_component`: the component at the cursor; `None` if there is no current one.
    ///
    /// # Errors
    /// [`DynAnyError::TypeMismatch`] for a type without components. [`DynAnyError::TooLarge`] for a
    /// member of a union that is made now.
    pub fn current_component(&mut self) -> Result<Option<&mut DynAny>, DynAnyError> {
        if matches!(self.content, Content::Basic(_) | Content::Again(_)) || self.is_empty_type() {
            return Err(DynAnyError::TypeMismatch);
        }
        let Some(position) = self.position() else { return Ok(None) };
        self.sync()?;
        Ok(match &mut self.content {
            Content::Basic(_) | Content::Value(None) | Content::Again(_) => None,
            Content::List(parts) => parts.get_mut(position),
            Content::Value(Some(state)) => state.parts.get_mut(position),
            Content::Union { discriminator, .. } if position == 0 => Some(discriminator),
            Content::Union { member, .. } => member.as_mut().map(|(_, member)| &mut **member),
        })
    }

    /// The members of a structure or value, or the elements; empty for other kinds.
    pub fn components(&self) -> &[DynAny] {
        match &self.content {
            Content::List(parts) => parts,
            Content::Value(Some(state)) => &state.parts,
            _ => &[],
        }
    }

    /// The kind without aliases.
    fn kind(&self) -> Kind {
        self.tc.borrow().strip().kind()
    }

    /// An exception or structure without members.
    fn is_empty_type(&self) -> bool {
        matches!(self.kind(), Kind::Struct | Kind::Except) && self.component_count() == 0
    }

    fn first(&self) -> Option<usize> {
        (self.component_count() > 0).then_some(0)
    }
}

/// Equal types and equal values.
impl PartialEq for DynAny {
    fn eq(&self, other: &DynAny) -> bool {
        let equivalent = self.tc.equivalent(&other.tc);
        equivalent && matches!((self.to_any(), other.to_any()), (Ok(a), Ok(b)) if a.value() == b.value())
    }
}
