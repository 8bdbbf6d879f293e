//! Expressions that are refused: the sentence, and the part that it points at.

use super::image;
use crate::content::{ContentFilter, ContentLimits};
use isorb_any::TypeCode;

#[test]
fn a_refusal_points_at_the_offending_part() {
    for (text, part, sentence) in [
        ("position.altitud > 3", "altitud", "struct Position has no member `altitud`"),
        ("id = 7", "=", "a sign without a meaning"),
        ("id == ", "", "lacks an operand"),
        ("id == 7 ok", "ok", "ends before this"),
        ("(id == 7", "", "a `)` is missing"),
        ("id", "id", "a condition is true or false, and this is an integer"),
        ("name && ok", "name", "a condition is true or false, and this is text"),
        ("name == 7", "name == 7", "text is compared with an integer"),
        ("valve == 1", "valve == 1", "an enum Valve is compared with an integer"),
        ("valve == ajar", "ajar", "has no member `ajar`"),
        ("1 < id < 7", "<", "comparisons cannot be chained"),
        ("ok < true", "ok < true", "truth values have no order"),
        ("name + 1 == 2", "name", "the operator takes a number, and this is text"),
        ("position.km & 1 == 1", "position.km", "the operator takes an integer, and this is a float"),
        ("position == 1", "position", "a struct Position cannot be compared"),
        ("points == 1", "points", "cannot be compared"),
        ("points.x == 1", "x", "has no members"),
        ("id[0] == 1", "0", "a long has no elements"),
        ("matrix[2][0] == 1", "2", "has no element 2"),
        ("points[-1].x == 1", "-", "an index is a number from 0 on"),
        ("len(id) == 1", "id", "`len` takes a sequence or text"),
        ("size(id) == 1", "size", "there is no function `size`"),
        ("starts_with(id, \"a\")", "id", "`starts_with` takes text"),
        ("name == \"GPS", "\"", "the quote is not closed"),
        (r#"name == "\q""#, "\\", "a backslash is followed by another sign"),
        ("mark == 'xy'", "'xy'", "single quotes hold one character"),
        ("mark == 'ü'", "'ü'", "is an ASCII character"),
        ("id == 99999999999999999999", "99999999999999999999", "no number of 64 bits"),
        ("id == 1e999", "1e999", "no number of 64 bits"),
        ("id == 0x", "0x", "no number of 64 bits"),
        ("id. == 1", "==", "a member is missing after the dot"),
        ("reading.other == 1", "other", "union Reading has no member `other`"),
    ] {
        let refused = ContentFilter::new(text, &image()).expect_err(text);
        assert!(refused.message().contains(sentence), "{text}: {}", refused.message());
        let range = refused.range();
        assert_eq!(text.get(range), Some(part), "{text}: {refused}");
    }
}

#[test]
fn the_caret_stands_under_the_offending_part() {
    let refused = ContentFilter::new("ok && position.altitud > 3", &image()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "\
error: struct Position has no member `altitud`
 --> filter:1:16
  |
1 | ok && position.altitud > 3
  |                ^^^^^^^
  |
  = help: its members are altitude, km"
    );
}

#[test]
fn limits_are_named() {
    let tc = image();
    let long = format!("id == {}7", " ".repeat(3000));
    let chain = vec!["ok"; 500].join("||");
    let deep = format!("{}ok{}", "(".repeat(40), ")".repeat(40));
    let not = format!("{}ok", "!".repeat(40));
    let sum = format!("{} == 1", vec!["id"; 40].join("+"));
    for (text, limit) in [
        (long.as_str(), "ContentLimits::octets"),
        (chain.as_str(), "ContentLimits::instructions"),
        (deep.as_str(), "ContentLimits::depth"),
        (not.as_str(), "ContentLimits::depth"),
        (sum.as_str(), "ContentLimits::depth"),
    ] {
        let refused = ContentFilter::new(text, &tc).unwrap_err();
        assert!(refused.to_string().contains(limit), "{refused}");
    }
    // Long chains of terms are not deep.
    let chain = vec!["ok"; 200].join(" || ");
    assert!(ContentFilter::new(&chain, &tc).is_ok());
    let operands = format!("{}id{} == 1", "id-(".repeat(20), ")".repeat(20));
    assert!(ContentFilter::new(&operands, &tc).unwrap_err().to_string().contains("16 values"));
    let none = ContentLimits { octets: 0, depth: 0, instructions: 0, steps: 0 };
    assert!(ContentFilter::within(none, "ok", &tc).is_err());
}

#[test]
fn members_behind_values_that_cannot_be_passed_are_refused() {
    let members = [("id", TypeCode::LONG), ("more", TypeCode::ANY), ("late", TypeCode::LONG)];
    let tc = TypeCode::new_struct("IDL:Odd:1.0", "Odd", &members).unwrap();
    assert!(ContentFilter::new("id == 7", &tc).is_ok());
    let refused = ContentFilter::new("id == 7 && late == 1", &tc).unwrap_err();
    assert!(refused.message().contains("behind a value of type any"), "{refused}");
    assert_eq!(refused.range(), 11..15);
}
