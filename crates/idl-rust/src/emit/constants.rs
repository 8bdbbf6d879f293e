//! Constants and constant values.

use crate::docs;
use crate::module::{Module, ident};
use crate::shape::Shape;
use isorb_idl::model::{Const, ConstValue, DefId};
use proc_macro2::{Literal, TokenStream};
use quote::quote;

impl Module<'_, '_> {
    pub(super) fn constant(&self, id: DefId, definition: &Const) -> TokenStream {
        let spec = self.r#gen.spec;
        let name = ident(&self.r#gen.names.item(id).name);
        let ty = docs::type_name(spec, &definition.ty);
        let signature = format!("const {ty} {} = {}", spec[id].name, spec.value_name(&definition.value));
        let doc = docs::doc(&docs::item(spec, id, &signature));
        let shape = self.shape(&definition.ty);
        let value = self.literal(&shape, &definition.value);
        let ty = match shape {
            Shape::Text { .. } => quote!(&str),
            _ => self.owned(&definition.ty),
        };
        // A value near to a constant of mathematics is intended.
        let allow = match definition.value {
            ConstValue::Float(f) if looks_known(f) => Some(quote!(#[allow(clippy::approx_constant)])),
            _ => None,
        };
        quote!(#doc #allow pub const #name: #ty = #value;)
    }

    /// A value as an expression. For a label it is a pattern, too.
    pub(super) fn literal(&self, shape: &Shape, value: &ConstValue) -> TokenStream {
        match value {
            ConstValue::Integer(n) => {
                let digits = Literal::u128_unsuffixed(n.unsigned_abs());
                if *n < 0 { quote!(-#digits) } else { quote!(#digits) }
            }
            ConstValue::Boolean(b) => quote!(#b),
            ConstValue::Char(c) | ConstValue::WChar(c) => {
                let c = Literal::character(*c);
                quote!(#c)
            }
            ConstValue::String(s) | ConstValue::WString(s) => {
                let s = Literal::string(s);
                quote!(#s)
            }
            ConstValue::Float(f) => self.float(shape, *f),
            ConstValue::Fixed(f) => {
                // The value may have fewer digits after the point than the type.
                let scale = match shape {
                    Shape::Fixed(_, scale) => scale.saturating_sub(f.scale),
                    _ => 0,
                };
                let unscaled = f.unscaled * 10i128.pow(u32::from(scale));
                let digits = Literal::u128_unsuffixed(unscaled.unsigned_abs());
                let sign = (unscaled < 0).then(|| quote!(-));
                let fixed = self.rt("Fixed");
                quote!(#fixed::from_unscaled(#sign #digits).unwrap())
            }
            ConstValue::Enumerator(id) => self.item(*id),
        }
    }

    fn float(&self, shape: &Shape, f: f64) -> TokenStream {
        if *shape == Shape::LongDouble {
            let long_double = self.rt("LongDouble");
            let bits = Literal::u128_unsuffixed(quadruple(f));
            return quote!(#long_double(#bits));
        }
        let text = match shape {
            Shape::Number("f32") => format!("{:?}", (f as f32).abs()),
            _ => format!("{:?}", f.abs()),
        };
        let literal: TokenStream = text.parse().unwrap_or_else(|_| quote!(0.0));
        if f.is_sign_negative() { quote!(-#literal) } else { literal }
    }

    /// The discriminator values of a union case as patterns; three or more consecutive ones as a
    /// range.
    pub(super) fn patterns(&self, shape: &Shape, labels: &[ConstValue]) -> TokenStream {
        let mut labels = labels.to_vec();
        labels.sort_by_key(ordinal);
        let runs = labels.chunk_by(|a, b| ordinal(a).zip(ordinal(b)).is_some_and(|(a, b)| a + 1 == b));
        let patterns = runs.flat_map(|run| match run {
            [first, _, .., last] => {
                let (first, last) = (self.literal(shape, first), self.literal(shape, last));
                vec![quote!(#first..=#last)]
            }
            run => run.iter().map(|label| self.literal(shape, label)).collect(),
        });
        quote!(#(#patterns)|*)
    }

    /// The condition that `label` is one of `labels`, or not; `None` if it is always false.
    pub(super) fn is_among(
        &self,
        shape: &Shape,
        label: &TokenStream,
        labels: &[ConstValue],
        wanted: bool,
    ) -> Option<TokenStream> {
        match labels {
            [] => (!wanted).then(|| quote!(true)),
            // Clippy requires a boolean to be its own condition.
            [ConstValue::Boolean(value)] if *value == wanted => Some(label.clone()),
            [ConstValue::Boolean(_)] => Some(quote!(!#label)),
            [ConstValue::Boolean(_), ..] => wanted.then(|| quote!(true)),
            labels => {
                let patterns = self.patterns(shape, labels);
                Some(if wanted {
                    quote!(matches!(#label, #patterns))
                } else {
                    quote!(!matches!(#label, #patterns))
                })
            }
        }
    }

    /// A statement that writes a constant discriminator to `e`.
    pub(super) fn encode_label(&self, shape: &Shape, label: &ConstValue) -> TokenStream {
        let value = self.literal(shape, label);
        match shape {
            Shape::Number(name) => {
                let name = ident(name);
                quote!(e.put::<#name>(#value);)
            }
            shape => {
                let e = ident("e");
                self.encode(shape, &crate::codec::Operand::view(value), &e)
            }
        }
    }
}

/// The number of a label that can be in a range.
fn ordinal(label: &ConstValue) -> Option<i128> {
    match label {
        ConstValue::Integer(n) => Some(*n),
        ConstValue::Char(c) | ConstValue::WChar(c) => Some(u32::from(*c).into()),
        _ => None,
    }
}

/// Whether clippy would warn of an inexact mathematical constant.
fn looks_known(f: f64) -> bool {
    use std::f64::consts::*;
    let known = [
        E,
        FRAC_1_PI,
        FRAC_1_SQRT_2,
        FRAC_2_PI,
        FRAC_2_SQRT_PI,
        FRAC_PI_2,
        FRAC_PI_3,
        FRAC_PI_4,
        FRAC_PI_6,
        FRAC_PI_8,
        LN_2,
        LN_10,
        LOG10_2,
        LOG10_E,
        LOG2_10,
        LOG2_E,
        PI,
        SQRT_2,
        TAU,
        1.618_033_988_749_895,
        0.577_215_664_901_532_9,
    ];
    known.iter().any(|k| (f.abs() - k).abs() < 0.01)
}

/// The bits of the IEEE 754 quadruple that equals a finite double.
fn quadruple(f: f64) -> u128 {
    let bits = f.to_bits();
    let sign = u128::from(bits >> 63) << 127;
    let exponent = (bits >> 52) & 0x7ff;
    let fraction = bits & ((1 << 52) - 1);
    if exponent == 0 && fraction == 0 {
        return sign;
    }
    // A subnormal double is a normal quadruple: its leading bit becomes the implicit one.
    let (exponent, fraction) = if exponent == 0 {
        let shift = fraction.leading_zeros() - 11;
        (16383 - 1022 - u128::from(shift), (fraction << shift) & ((1 << 52) - 1))
    } else {
        (u128::from(exponent) + 16383 - 1023, fraction)
    };
    sign | exponent << 112 | u128::from(fraction) << 60
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quadruples_have_the_value_of_the_double() {
        assert_eq!(quadruple(0.0), 0);
        assert_eq!(quadruple(1.0), 0x3fff << 112);
        assert_eq!(quadruple(-2.0), 0xc000 << 112);
        assert_eq!(quadruple(1.5), (0x3fff << 112) | (1 << 111));
        assert_eq!(quadruple(f64::from_bits(1)), (16383 - 1074) << 112);
    }
}
