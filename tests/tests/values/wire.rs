//! From values to octets and back, without an ORB.

use isorb::generated::{CdrErrorKind, Decoder, Encoder, Handle};
use isorb_cdr::{Order, Text};
use isorb_scope::Region;

/// The octets of values in one message.
pub fn written<'v>(write: impl FnOnce(&mut Encoder<'v>)) -> Result<Vec<u8>, CdrErrorKind> {
    let mut e = Encoder::new(Vec::new(), Text::DEFAULT);
    write(&mut e);
    e.flatten().map_err(|error| error.kind)
}

/// Calls `read` with a decoder of these octets.
pub fn reading<R>(octets: &[u8], order: Order, read: impl FnOnce(&mut Decoder<'_>) -> R) -> R {
    let mut region = Region::new(octets.len() + 4096);
    let scope = region.enter();
    let bytes = scope.aligned_copy(octets).expect("the region is large enough");
    let mut d = Decoder::new(bytes, order, Text::DEFAULT, &scope);
    read(&mut d)
}

/// One value and nothing else.
pub fn value<V: Handle>(octets: &[u8]) -> Result<Option<V>, CdrErrorKind> {
    reading(octets, Order::NATIVE, |d| {
        let value = V::decode_handle(d).map_err(|error| error.kind)?;
        if d.remaining() > 0 { Err(CdrErrorKind::Length) } else { Ok(value) }
    })
}

/// The value that arrives when this one is sent.
pub fn arrived<V: Handle>(value: &V) -> V {
    let octets = written(|e| V::encode_handle(Some(value), e)).expect("it can be sent");
    self::value(&octets).expect("it can be read").expect("it is not null")
}

/// 32-bit numbers of a message in this machine's byte order.
pub fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}
