//! What a type is made of once aliases are looked through, and the properties that decide how it is
//! generated.

use isorb_idl::model::{DefId, DefKind, Spec, Type};
use std::cell::RefCell;
use std::collections::HashMap;

/// A type without aliases.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    Void,
    /// A number or octet: the Rust primitive's name.
    Number(&'static str),
    Bool,
    Char,
    WChar,
    LongDouble,
    Fixed(u16, u16),
    Text {
        wide: bool,
        bound: Option<u32>,
    },
    Seq(Box<Shape>, Option<u32>),
    Array(Box<Shape>, u32),
    Enum(DefId),
    /// A struct, union or exception.
    Record(DefId),
    /// An unconstrained interface, or an abstract one; nil is `None`.
    Reference(DefId),
    Object,
    Any,
    TypeCode,
    /// A valuetype or boxed value; null is `None`.
    Value(DefId),
    ValueBase,
    AbstractBase,
    /// A local interface.
    Local(DefId),
    Native(DefId),
}

impl Shape {
    /// Of a type.
    pub fn of(spec: &Spec, ty: &Type) -> Shape {
        match spec.resolve(ty) {
            Type::Void => Shape::Void,
            Type::Boolean => Shape::Bool,
            Type::Char => Shape::Char,
            Type::WChar => Shape::WChar,
            Type::Octet => Shape::Number("u8"),
            Type::Int8 => Shape::Number("i8"),
            Type::Short => Shape::Number("i16"),
            Type::UShort => Shape::Number("u16"),
            Type::Long => Shape::Number("i32"),
            Type::ULong => Shape::Number("u32"),
            Type::LongLong => Shape::Number("i64"),
            Type::ULongLong => Shape::Number("u64"),
            Type::Float => Shape::Number("f32"),
            Type::Double => Shape::Number("f64"),
            Type::LongDouble => Shape::LongDouble,
            Type::String { bound } => Shape::Text { wide: false, bound: *bound },
            Type::WString { bound } => Shape::Text { wide: true, bound: *bound },
            Type::Sequence { element, bound } => Shape::Seq(Box::new(Shape::of(spec, element)), *bound),
            Type::Array { element, dims } => {
                let element = Shape::of(spec, element);
                dims.iter().rev().fold(element, |inner, n| Shape::Array(Box::new(inner), *n))
            }
            Type::Fixed { digits, scale } => Shape::Fixed(*digits, *scale),
            Type::Any => Shape::Any,
            Type::Object => Shape::Object,
            Type::TypeCode => Shape::TypeCode,
            Type::ValueBase => Shape::ValueBase,
            Type::AbstractBase => Shape::AbstractBase,
            Type::Named(id) => match &spec[*id].kind {
                DefKind::Enum(_) => Shape::Enum(*id),
                DefKind::Interface(i) if i.local => Shape::Local(*id),
                DefKind::Interface(_) => Shape::Reference(*id),
                DefKind::Value(_) | DefKind::ValueBox(_) => Shape::Value(*id),
                DefKind::Native => Shape::Native(*id),
                _ => Shape::Record(*id),
            },
        }
    }

    /// Whether a nil or null value of it is `None`.
    pub fn is_handle(&self) -> bool {
        matches!(
            self,
            Shape::Reference(_) | Shape::Object | Shape::Value(_) | Shape::ValueBase | Shape::AbstractBase
        )
    }
}

fn size_of_number(name: &str) -> u64 {
    name.trim_start_matches(|c: char| c.is_ascii_alphabetic()).parse::<u64>().unwrap_or(8) / 8
}

/// Size and alignment of a plain type, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub size: u64,
    pub align: u64,
}

/// Answers questions about types, remembering what it found for definitions.
#[derive(Debug)]
pub(crate) struct Analysis<'s> {
    spec: &'s Spec,
    borrows: Memo<bool>,
    lends_views: Memo<bool>,
    plain: Memo<Option<Layout>>,
    defaults: Memo<bool>,
    sizes: Memo<u64>,
    min_wires: Memo<u64>,
}

/// What was found out about definitions. Without it, structs that hold the next smaller one twice,
/// and so on, would take time exponential in their depth.
#[derive(Debug)]
struct Memo<T>(RefCell<HashMap<DefId, T>>);

impl<T: Copy> Memo<T> {
    fn new() -> Self {
        Memo(RefCell::default())
    }

    fn get(&self, id: DefId, find: impl FnOnce() -> T) -> T {
        if let Some(known) = self.0.borrow().get(&id) {
            return *known;
        }
        let found = find();
        self.0.borrow_mut().insert(id, found);
        found
    }
}

impl<'s> Analysis<'s> {
    pub fn new(spec: &'s Spec) -> Self {
        Analysis {
            spec,
            borrows: Memo::new(),
            lends_views: Memo::new(),
            plain: Memo::new(),
            defaults: Memo::new(),
            sizes: Memo::new(),
            min_wires: Memo::new(),
        }
    }

    pub fn shape(&self, ty: &Type) -> Shape {
        Shape::of(self.spec, ty)
    }

    /// Whether the view differs from the owned form. Sequences answer at once, so recursive types
    /// end.
    pub fn borrows(&self, shape: &Shape) -> bool {
        match shape {
            Shape::Text { .. } | Shape::Seq(..) | Shape::Any | Shape::TypeCode => true,
            Shape::Array(element, _) => self.borrows(element),
            Shape::Record(id) => self.borrows.get(*id, || {
                let members = self.spec.member_types(*id);
                members.into_iter().any(|ty| self.borrows(&self.shape(ty)))
            }),
            shape => shape.is_handle(),
        }
    }

    /// Whether an owned value lends its view as it is. A sequence of views needs memory of its own.
    pub fn lends_view(&self, shape: &Shape) -> bool {
        match shape {
            Shape::Seq(element, _) => !self.borrows(element),
            Shape::Array(element, _) => self.lends_view(element),
            Shape::Record(id) => self.lends_views.get(*id, || {
                let members = self.spec.member_types(*id);
                members.into_iter().all(|ty| self.lends_view(&self.shape(ty)))
            }),
            _ => true,
        }
    }

    /// Whether a value of the type can be compared, printed and sent: not when a local interface or
    /// native is in it.
    pub fn is_local(&self, ty: &Type) -> bool {
        self.spec.is_local(ty)
    }

    /// The layout in memory, if it is the layout on the wire too: numbers, and arrays and structs
    /// of them without padding, if their first member has the largest alignment.
    pub fn plain(&self, shape: &Shape) -> Option<Layout> {
        match shape {
            Shape::Number(name) => {
                let size = size_of_number(name);
                Some(Layout { size, align: size })
            }
            Shape::Array(element, n) => {
                let Layout { size, align } = self.plain(element)?;
                Some(Layout { size: size.checked_mul(u64::from(*n))?, align })
            }
            Shape::Record(id) if matches!(self.spec[*id].kind, DefKind::Struct(_)) => {
                self.plain.get(*id, || self.plain_struct(*id))
            }
            _ => None,
        }
    }

    fn plain_struct(&self, id: DefId) -> Option<Layout> {
        let mut whole = Layout { size: 0, align: 0 };
        for member in self.spec.members(id) {
            let part = self.plain(&self.shape(&member.ty))?;
            if whole.align == 0 {
                whole.align = part.align;
            }
            if part.align > whole.align || !whole.size.is_multiple_of(part.align) {
                return None;
            }
            whole.size = whole.size.checked_add(part.size)?;
        }
        (whole.align > 0 && whole.size.is_multiple_of(whole.align)).then_some(whole)
    }

    /// Whether `Default` can be derived for a member of this type.
    pub fn has_default(&self, shape: &Shape) -> bool {
        match shape {
            Shape::TypeCode | Shape::Local(_) | Shape::Native(_) => false,
            // The standard library stops at 32.
            Shape::Array(element, n) => *n <= 32 && self.has_default(element),
            Shape::Record(id) => match &self.spec[*id].kind {
                DefKind::Struct(_) => self.defaults.get(*id, || {
                    self.spec.member_types(*id).into_iter().all(|ty| self.has_default(&self.shape(ty)))
                }),
                _ => false,
            },
            _ => true,
        }
    }

    /// Whether the generic `Encode` and `Decode` would be wrong or missing for it: wide text shares
    /// its Rust type with narrow text, bounds are not part of a Rust type, and owned references and
    /// arrays have no `Encode`.
    pub fn needs_code(&self, shape: &Shape, owned: bool) -> bool {
        match shape {
            Shape::WChar => true,
            Shape::Text { wide, bound } => *wide || bound.is_some(),
            Shape::Seq(element, bound) => bound.is_some() || self.needs_code(element, owned),
            Shape::Array(element, _) => (owned && self.borrows(element)) || self.needs_code(element, owned),
            shape => owned && shape.is_handle(),
        }
    }

    /// The least octets that a value takes on the wire, padding aside. A lower bound is enough:
    /// counts are checked against it before room is reserved.
    pub fn min_wire(&self, shape: &Shape) -> u64 {
        match shape {
            Shape::Void => 0,
            Shape::Number(name) => size_of_number(name),
            Shape::Bool | Shape::Char | Shape::WChar => 1,
            Shape::LongDouble => 16,
            Shape::Fixed(digits, _) => u64::from(digits / 2 + 1),
            Shape::Text { .. } | Shape::Seq(..) | Shape::Enum(_) | Shape::Any | Shape::TypeCode => 4,
            Shape::Array(element, n) => self.min_wire(element).saturating_mul(u64::from(*n)),
            Shape::Value(_) | Shape::ValueBase => 4,
            Shape::Reference(_) | Shape::Object => 8,
            Shape::AbstractBase => 5,
            Shape::Local(_) | Shape::Native(_) => 1,
            Shape::Record(id) => self.min_wires.get(*id, || {
                let members =
                    self.spec.member_types(*id).into_iter().map(|ty| self.min_wire(&self.shape(ty)));
                match &self.spec[*id].kind {
                    DefKind::Union(u) => {
                        let member = if u.implicit_default { None } else { members.min() };
                        self.min_wire(&self.shape(&u.discriminator)).saturating_add(member.unwrap_or(0))
                    }
                    _ => members.fold(0, u64::saturating_add),
                }
            }),
        }
    }

    /// Roughly how many bytes the owned form takes; for choosing lint attributes.
    pub fn size(&self, shape: &Shape) -> u64 {
        match shape {
            Shape::Void => 0,
            Shape::Number(name) => size_of_number(name),
            Shape::Bool => 1,
            Shape::Char | Shape::WChar | Shape::Enum(_) => 4,
            Shape::LongDouble | Shape::Fixed(..) => 16,
            Shape::Text { .. } | Shape::Seq(..) => 24,
            Shape::Array(element, n) => self.size(element).saturating_mul(u64::from(*n)),
            Shape::Record(id) => self.sizes.get(*id, || {
                let members = self.spec.member_types(*id).into_iter().map(|ty| self.size(&self.shape(ty)));
                match self.spec[*id].kind {
                    DefKind::Union(_) => members.max().unwrap_or(0).saturating_add(16),
                    _ => members.fold(0, u64::saturating_add),
                }
            }),
            _ => 48,
        }
    }
}
