//! The page kit: what every HTML page of isorb shares, and nothing else. It is not a template
//! engine.
//!
//! A [`Page`] needs nothing from elsewhere: styles, scripts, and data are embedded. [`Text`]
//! escapes names that come from a peer or a file. [`plot`] draws figures with uPlot.
//!
//! ```
//! use isorb_page::{Page, Text};
//!
//! let body = format!("<h1>{}</h1>\n", Text("a < b"));
//! let page = Page { title: "a < b", body: &body, ..Page::default() }.to_string();
//! assert!(page.contains("<title>a &lt; b</title>") && page.contains("<h1>a &lt; b</h1>"));
//! ```
#![forbid(unsafe_code)]

pub mod plot;

use std::fmt;

/// Colours for light and dark, and the look of text, tables, buttons and legends. All colours of
/// all pages are its variables, so that one test computes their contrast. Pages use its classes
/// `soft`, `good`, `bad`, `scroll`, `tools`, `legend` and `tip`.
pub const STYLE: &str = include_str!("../assets/style.css");

/// `gestures(element, …)`: mouse, touch, pinch and wheel as panning and zooming. `tool(…)`: a
/// button in an element of class `tools`.
pub const GESTURES: &str = include_str!("../assets/gestures.js");

/// `spark(label)`: a small plot of the latest values; its style is [`SPARK_STYLE`].
pub const SPARK: &str = include_str!("../assets/spark.js");
/// The style of [`SPARK`].
pub const SPARK_STYLE: &str = include_str!("../assets/spark.css");

/// Escaped text, for a place between tags or in a quoted attribute.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a>(pub &'a str);

/// A self-contained page. Its text is that of [`Display`](fmt::Display).
#[derive(Clone, Copy, Debug, Default)]
pub struct Page<'a> {
    /// The title, not yet escaped.
    pub title: &'a str,
    /// Styles beside [`STYLE`].
    pub styles: &'a [&'a str],
    /// The markup inside of the element `main`, which begins with an `h1`.
    pub body: &'a str,
    /// JSON for the scripts, in the element `data`.
    pub data: Option<&'a str>,
    /// Scripts, which run in this order after the markup.
    pub scripts: &'a [&'a str],
}

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

impl fmt::Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{}</title>\n<style>\n{STYLE}</style>\n",
            Text(self.title)
        )?;
        self.styles.iter().try_for_each(|style| writeln!(f, "<style>\n{style}</style>"))?;
        write!(f, "</head>\n<body>\n<main>\n{}\n</main>\n", self.body)?;
        if let Some(data) = self.data {
            // A string in JSON cannot end the script element or begin a comment: both begin with
            // '<'.
            let data = data.replace('<', "\\u003c");
            writeln!(f, "<script type=\"application/json\" id=\"data\">{data}</script>")?;
        }
        self.scripts.iter().try_for_each(|script| writeln!(f, "<script>\n{script}</script>"))?;
        f.write_str("</body>\n</html>\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        assert_eq!(Text("a<b>\"&\"").to_string(), "a&lt;b&gt;&quot;&amp;&quot;");
    }

    #[test]
    fn data_cannot_end_its_script() {
        let page = Page { data: Some(r#""</script><!--""#), scripts: &["draw()"], ..Page::default() };
        let page = page.to_string();
        assert!(page.contains(r#"id="data">"\u003c/script>\u003c!--"</script>"#), "{page}");
        assert_eq!(page.matches("</script>").count(), 2);
    }

    #[test]
    fn nothing_is_fetched() {
        let page = Page { styles: &[plot::STYLE], scripts: &[plot::UPLOT, plot::SCRIPT], ..Page::default() };
        let page = page.to_string();
        for fetched in ["<script src", "<link", "@import", "url(http"] {
            assert!(!page.contains(fetched), "{fetched}");
        }
    }
}
