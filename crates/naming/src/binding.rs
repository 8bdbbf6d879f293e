//! Bindings: the values of names.

use std::fmt;

/// A naming context of this service. Numbers are used once, so that the reference to a destroyed
/// context never finds another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContextId(pub u64);

impl ContextId {
    /// The root context, which `corbaloc::host/NameService` names. It always exists.
    pub const ROOT: ContextId = ContextId(0);
}

impl fmt::Display for ContextId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// `CosNaming::BindingType`: whether a path of names can continue through a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BindingKind {
    /// `nobject`: a path ends here, even if the object is a naming context.
    Object,
    /// `ncontext`: a path continues here.
    Context,
}

/// The target of a binding.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// A naming context of this service. Stored by number, so that it is found after a restart at
    /// another address.
    Local(ContextId),
    /// Any other object: its reference as a CDR encapsulation.
    Reference(Box<[u8]>),
}

/// A binding without its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Binding {
    /// Whether a path continues through it.
    pub kind: BindingKind,
    /// Its target.
    pub target: Target,
}

const CONTEXT: u8 = 1;
const LOCAL: u8 = 2;

impl Binding {
    /// A context of this service, bound as one.
    pub const fn context(id: ContextId) -> Binding {
        Binding { kind: BindingKind::Context, target: Target::Local(id) }
    }

    /// The octets for a store: flags, then the number or the reference.
    pub fn to_octets(&self) -> Vec<u8> {
        let kind = if self.kind == BindingKind::Context { CONTEXT } else { 0 };
        match &self.target {
            Target::Local(id) => [&[kind | LOCAL], &id.0.to_be_bytes()[..]].concat(),
            Target::Reference(reference) => [&[kind], &reference[..]].concat(),
        }
    }

    /// The reverse; `None` for octets that [`Binding::to_octets`] does not make.
    pub fn from_octets(octets: &[u8]) -> Option<Binding> {
        let (flags, rest) = octets.split_first()?;
        let kind = if flags & CONTEXT == 0 { BindingKind::Object } else { BindingKind::Context };
        let target = match flags & !CONTEXT {
            0 => Target::Reference(rest.into()),
            LOCAL => Target::Local(ContextId(u64::from_be_bytes(rest.try_into().ok()?))),
            _ => return None,
        };
        Some(Binding { kind, target })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_go_both_ways() {
        let local = Target::Local(ContextId(0x0102_0304_0506_0708));
        let reference = Target::Reference([9, 8, 7].into());
        for kind in [BindingKind::Object, BindingKind::Context] {
            for target in [local.clone(), reference.clone(), Target::Reference([].into())] {
                let binding = Binding { kind, target };
                assert_eq!(Binding::from_octets(&binding.to_octets()), Some(binding));
            }
        }
        // The format of existing files.
        assert_eq!(Binding::context(ContextId(5)).to_octets(), [3, 0, 0, 0, 0, 0, 0, 0, 5]);
        assert_eq!(Binding { kind: BindingKind::Object, target: reference }.to_octets(), [0, 9, 8, 7]);
    }

    #[test]
    fn other_octets_are_refused() {
        for octets in [&[][..], &[4], &[2, 0], &[3, 0, 0, 0, 0, 0, 0, 0, 5, 6], &[255]] {
            assert_eq!(Binding::from_octets(octets), None, "{octets:?}");
        }
    }
}
