//! DynAny and IOP::Codec: values from octets are taken apart, changed by a script of operations,
//! and made again; encapsulations of all versions are read.
#![no_main]

use isorb_any::{Any, Codec, DynAny, Encoding, TypeCode};
use libfuzzer_sys::fuzz_target;

/// Operations of a script.
const STEPS: usize = 64;

/// Changes a value by octets.
fn change(value: &mut DynAny, script: &[u8]) {
    for (step, argument) in script.chunks_exact(2).map(|pair| (pair[0], pair[1])).take(STEPS) {
        let _ = match step % 16 {
            0 => value.insert(&i32::from(argument)),
            1 => value.insert(&String::from(char::from(argument % 128))),
            2 => value.insert(&(argument % 2 == 0)),
            3 => value.insert(&vec![argument]),
            4 => value.set_length(usize::from(argument)),
            5 => value.set_ordinal(argument.into()),
            6 => value.set_to_default_member(),
            7 => value.set_to_no_active_member(),
            8 => value.set_to_null(),
            9 => value.set_to_value(),
            10 => value.set_fixed(&format!("{argument}.{step}")).map(|_| ()),
            11 => value.insert(&Any::from(i16::from(argument))),
            12 => value.current_component().map(|component| {
                if let Some(component) = component {
                    change(component, &[argument, step]);
                }
            }),
            13 => {
                value.seek(argument.into());
                Ok(())
            }
            14 => value.get::<String>().map(|_| ()),
            _ => {
                value.next();
                Ok(())
            }
        };
    }
}

fuzz_target!(|data: &[u8]| {
    let [minor, cut, rest @ ..] = data else { return };
    let codec = Codec::new(Encoding { minor: minor % 3, ..Encoding::CDR_1_2 }).expect("a known version");
    let (octets, script) = rest.split_at(rest.len().min((*cut).into()));
    let Ok(any) = codec.decode(octets) else { return };
    let Ok(mut value) = DynAny::from_any(&any) else { return };
    assert_eq!(value.to_any().as_ref(), Ok(&any), "the components make the value again");
    // Text that the reader accepted may still be outside of what the code set can express.
    if let Ok(again) = codec.encode(&any) {
        assert_eq!(codec.decode(&again).as_ref(), Ok(&any));
    }
    let _ = codec.decode_value(octets, &TypeCode::STRING);
    let _ = DynAny::from_type(any.type_code());
    change(&mut value, script);
    if let Ok(changed) = value.to_any() {
        // What was made by a script is a value of the type.
        let components = DynAny::from_any(&changed).expect("a value of its type");
        assert_eq!(components.to_any(), Ok(changed));
    }
});
