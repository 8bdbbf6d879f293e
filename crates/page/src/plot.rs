//! Plots of figures, drawn by uPlot in the page that embeds it.
//!
//! The page's data is a list of objects with `verdict.experiment`, `figures` and `rows`. An element
//! of class `plot` names its figure by the attributes `data-experiment` and `data-figure`.

/// The style of the plotting library, of legends and of bars.
pub const STYLE: &str =
    concat!(include_str!("../assets/uplot/uPlot.min.css"), "\n", include_str!("../assets/plot.css"));
/// The plotting library. A page that embeds it shows its [`LICENCE`].
pub const UPLOT: &str = include_str!("../assets/uplot/uPlot.iife.min.js");
/// The licence of the plotting library.
pub const LICENCE: &str = include_str!("../assets/uplot/LICENSE");
/// Draws the figures; runs after [`UPLOT`].
pub const SCRIPT: &str = concat!(include_str!("../assets/gestures.js"), include_str!("../assets/plot.js"));
