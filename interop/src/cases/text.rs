//! Strings and wide characters.

use crate::check::{Check, Run};
use crate::echo;
use crate::generated::interop::*;

fn owned<const N: usize>(texts: [&str; N]) -> [String; N] {
    texts.map(str::to_owned)
}

/// The texts as views.
pub(super) fn views(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

pub(super) fn strings(run: &Run<'_>) -> Check {
    let o: NarrowStringsRef = run.group()?;
    echo!(o.echo_string, owned(["", "a", "hello, world", "café", &"x".repeat(1000)]));
    echo!(o.echo_short_string, owned(["", "12345678", "café"]));
    Ok(())
}

pub(super) fn utf8_strings(run: &Run<'_>) -> Check {
    let o: NarrowStringsRef = run.group()?;
    echo!(o.echo_string, owned(["", "α€\u{1f600}", "café"]));
    Ok(())
}

/// A surrogate pair in UTF-16.
const EMOJI: &str = "x\u{1f600}y";

pub(super) fn wides(run: &Run<'_>) -> Check {
    let o: WidesRef = run.group()?;
    echo!(o.echo_wstring, owned(["", "wide", "cé", "€", EMOJI, &"中".repeat(300)]));
    echo!(o.echo_wstrings via |a| &views(a), [vec![], owned(["", EMOJI, "end"]).to_vec()]);
    Ok(())
}

pub(super) fn bounded_wides(run: &Run<'_>) -> Check {
    let o: BoundedWidesRef = run.group()?;
    echo!(o.echo_short_wstring, owned(["", "12345678", "cé"]));
    Ok(())
}

pub(super) fn wide_chars(run: &Run<'_>) -> Check {
    let o: WideCharsRef = run.group()?;
    echo!(o.echo_wchar copied, ['w', 'é', '€']);
    let wide = |w, text: &str| Wide { narrow: 'n', w, text: text.to_owned(), tail: 7 };
    echo!(o.echo_wide, [wide('w', ""), wide('€', EMOJI), wide('é', "odd")]);
    echo!(o.echo_wchars, [vec![], vec!['a', '€', 'é']]);
    echo!(o.echo_three_wchars copied, [['一', '丁', '丂'], ['七', '丄', '丅'], ['丆', '万', '丈']]);
    echo!(o.echo_over_wide, [OverWide::One('€'), OverWide::Many(EMOJI.to_owned())]);
    Ok(())
}
