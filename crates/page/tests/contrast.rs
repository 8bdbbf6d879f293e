//! The contrast of the colours of all pages, computed from the style (WCAG 2.2, section 1.4).

use isorb_page::STYLE;
use std::collections::BTreeMap;

type Colours = BTreeMap<&'static str, [f64; 3]>;

/// The variables that hold a colour, in light and in dark.
fn colours() -> [Colours; 2] {
    let (light, rest) = STYLE.split_once("@media (prefers-color-scheme: dark)").expect("there is a dark one");
    let (dark, _) = rest.split_once("} }").expect("it ends");
    [light, dark].map(|text| {
        let variables = text.split("--").filter_map(|part| part.split_once(": #"));
        let channel = |hex: &str| f64::from(u8::from_str_radix(hex, 16).expect("two digits")) / 255.0;
        let rgb = |hex: &str| [0, 2, 4].map(|at| channel(&hex[at..at + 2]));
        variables.map(|(name, value)| (name, rgb(value))).collect()
    })
}

fn luminance(rgb: [f64; 3]) -> f64 {
    let linear = |c: f64| if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) };
    let [r, g, b] = rgb.map(linear);
    0.2126 * r + 0.7152 * g + 0.0722 * b
}

fn contrast(a: [f64; 3], b: [f64; 3]) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[test]
fn the_formula_is_that_of_the_guidelines() {
    assert!((contrast([0.0; 3], [1.0; 3]) - 21.0).abs() < 1e-9);
    // #777777 on white is their example of a grey that just fails for text.
    assert!((contrast([119.0 / 255.0; 3], [1.0; 3]) - 4.48).abs() < 0.01);
}

#[test]
fn text_has_a_contrast_of_four_and_a_half_and_every_state_one_of_three() {
    let [light, dark] = colours();
    assert_eq!(light.keys().collect::<Vec<_>>(), dark.keys().collect::<Vec<_>>(), "both have all colours");
    let text = ["ink", "soft", "good", "bad"];
    // Lines of a grid carry no meaning.
    let decoration = ["line", "back", "band"];
    for (scheme, colours) in [("light", &light), ("dark", &dark)] {
        assert!(colours.len() >= 20, "{scheme}: {colours:?}");
        for (name, colour) in colours.iter().filter(|(name, _)| !decoration.contains(name)) {
            let least = if text.contains(name) { 4.5 } else { 3.0 };
            for ground in ["back", "band"] {
                let found = contrast(*colour, colours[ground]);
                assert!(found >= least, "{scheme}: --{name} on --{ground} has {found:.2}, not {least}");
            }
        }
    }
}
