//! Any values from octets: type codes are read, values are walked by them, written and read again.
#![no_main]

use isorb_any::{Any, TypeCode};
use isorb_cdr::{Decoder, Encoder, Order, Text};
use isorb_scope::Region;
use libfuzzer_sys::fuzz_target;

/// Characters of the form as JSON.
const JSON_LIMIT: usize = 1 << 16;

/// Reads an Any from octets.
fn read(octets: &mut [u8], order: Order) -> Option<Any> {
    let mut region = Region::new(1 << 16);
    let scope = region.enter();
    Any::read(&mut Decoder::new(octets, order, Text::DEFAULT, &scope)).ok()
}

/// What a type code has, of whatever kind it is, and its members' types.
fn look_at(code: &TypeCode, depth: u32) {
    drop(format!("{code} {code:?}"));
    let _ = (code.id(), code.name(), code.length(), code.fixed_digits(), code.fixed_scale());
    let _ = (code.default_index(), code.type_modifier(), code.discriminator_type(), code.identity());
    let members = code.member_count().unwrap_or(0).min(4);
    let types = (0..members).map(|member| {
        let _ = (code.member_name(member), code.member_label(member), code.member_visibility(member));
        code.member_type(member).ok()
    });
    let types = types.chain([code.content_type().ok(), code.concrete_base_type().ok().flatten()]);
    for inner in types.flatten().filter(|_| depth < 3) {
        look_at(&inner, depth + 1);
    }
    let original = code.original();
    assert_eq!(original.is_complete(), original.clone().is_complete());
}

fuzz_target!(|data: &[u8]| {
    let [how, rest @ ..] = data else { return };
    let order = Order::from_flag(*how);
    let mut octets = rest.to_vec();
    if how & 2 != 0 {
        let mut region = Region::new(1 << 16);
        let scope = region.enter();
        let mut d = Decoder::new(&mut octets, order, Text::DEFAULT, &scope);
        let Ok(code) = TypeCode::read(&mut d) else { return };
        // Behind the type code comes a value of its type.
        let value = &rest[rest.len() - d.remaining()..];
        assert!(code.equal(&code) && code.equivalent(&code.compact()));
        look_at(&code, 0);
        let _ = Any::from_cdr(code.clone(), value, order, Text::DEFAULT);
        let _ = Any::from_json(code, &String::from_utf8_lossy(value));
        return;
    }
    let Some(any) = read(&mut octets, order) else { return };
    let json = any.to_json(JSON_LIMIT);
    let mut written = Encoder::new(Vec::new(), Text::DEFAULT);
    any.write(&mut written);
    let mut written = written.flatten().expect("what was read is written");
    let again = read(&mut written, Order::NATIVE).expect("what was written is read");
    assert!(again.holds(any.type_code()), "{any:?}");
    assert_eq!(again.value(), any.value());
    if let Ok(json) = json {
        assert_eq!(again.to_json(JSON_LIMIT).ok(), Some(json));
    }
});
