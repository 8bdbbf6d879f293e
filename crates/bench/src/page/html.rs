//! Text in HTML.

use std::fmt;

/// Text that stands between tags or in a quoted attribute.
pub struct Text<'a>(pub &'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '&' => f.write_str("&amp;"),
            '"' => f.write_str("&quot;"),
            c => write!(f, "{c}"),
        })
    }
}

/// JSON that may stand in a script element: no string in it can end the element.
pub fn script_safe(json: &str) -> String {
    json.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        assert_eq!(Text("a<b>\"&\"").to_string(), "a&lt;b&gt;&quot;&amp;&quot;");
        assert_eq!(script_safe(r#""</script>""#), r#""\u003c/script>""#);
    }
}
