//! Object ids of contexts and iterators.

use crate::binding::ContextId;

/// The root's id does not contain the store's stamp: it always means the root of the current store.
const ROOT: &str = "root";

/// The id of a context: the stamp of its store and its number, in hexadecimal digits.
pub fn of_context(stamp: u64, context: ContextId) -> String {
    match context {
        ContextId::ROOT => ROOT.into(),
        ContextId(number) => format!("{stamp:016x}.{number:x}"),
    }
}

/// The context of an id; `None` for an id of a store with another stamp.
pub fn context(stamp: u64, id: &[u8]) -> Option<ContextId> {
    if id == ROOT.as_bytes() {
        return Some(ContextId::ROOT);
    }
    let (of, number) = std::str::from_utf8(id).ok()?.split_once('.')?;
    let number = u64::from_str_radix(number, 16).ok()?;
    // Only ids that `of_context` makes, so that no context has several.
    let context = ContextId(number);
    let same = of_context(stamp, context).as_bytes() == id && !of.is_empty();
    same.then_some(context)
}

/// The id of an iterator.
pub fn of_iterator(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// The iterator of an id.
pub fn iterator(id: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(id.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_both_ways() {
        for id in [0, 1, 77, u64::MAX].map(ContextId) {
            assert_eq!(context(5, of_context(5, id).as_bytes()), Some(id));
        }
        // The format of existing references.
        assert_eq!(of_context(0xabc, ContextId(0x1f)), "0000000000000abc.1f");
        assert_eq!(iterator(&of_iterator(9)), Some(9));
    }

    #[test]
    fn others_are_refused() {
        let far = of_context(6, ContextId(1));
        for id in
            [&b""[..], b".", b"5.1", b"0000000000000005.01", b"0000000000000005.0", b"\xff", far.as_bytes()]
        {
            assert_eq!(context(5, id), None, "{id:?}");
        }
        assert_eq!(context(5, b"0000000000000005.+1"), None);
        assert_eq!(iterator(b"1234567"), None);
    }
}
