//! The report page in a browser without a network.
//!
//! Where there is no Chromium, the test says so and looks at the file only.

use std::path::Path;
use std::process::{Command, Stdio};

use isorb_testkit::{Browser, wait_until};
use serde_json::Value;

#[test]
fn a_report_is_one_page_with_a_plot_for_each_figure() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report.html");
    let output = Command::new(env!("CARGO_BIN_EXE_isorb-bench"))
        .args(["report", "--quick", "--output"])
        .arg(&file)
        .args(["scope", "demux", "tao-dispatch-cost"])
        .stdin(Stdio::null())
        .output()
        .expect("the binary was built for this test");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    assert!(printed.contains("3 experiments, about") && printed.contains("written: "), "{printed}");
    let text = std::fs::read_to_string(&file).expect("it was written");
    // Scopes have a tail.
    assert!(text.contains("id=\"worst-cases\""));
    assert!(text.contains("id=\"scope\"") && text.contains("id=\"demux\"") && !text.contains("not run"));

    let Some(mut browser) = Browser::start_or_skip() else { return };
    let path = file.canonicalize().expect("it was written");
    browser.open(&format!("file://{}", path.display()));
    // Three figures, two, and one of bars; what was drawn, not only placed.
    let plots = browser.run("return document.querySelectorAll('.plot').length");
    assert_eq!(plots, 6, "{text}");
    let drawn = browser.run(
        "return [...document.querySelectorAll('.plot canvas')].filter((canvas) => {
           const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
           return pixels.some((value, i) => i % 4 === 3 && value > 0);
         }).length",
    );
    assert_eq!(drawn, 5);
    // Of four subjects two values in the first figure and one in the second, and no entry besides.
    let legend =
        "return [...document.querySelectorAll('#demux .plot-legend button')].map((b) => b.textContent)";
    let lines = browser.run(legend);
    assert_eq!(lines.as_array().map(Vec::len), Some(8 + 4), "{lines}");
    assert!(!lines.to_string().contains("--"), "{lines}");
    assert_eq!(browser.run("return document.querySelectorAll('.u-legend .u-series').length"), 0);
    // A line can be hidden and shown.
    let pressed = "const all = [...document.querySelectorAll('#demux .plot-legend button')]; all[1].click();
                   return all.map((b) => b.getAttribute('aria-pressed')).filter((p) => p === 'false').length";
    assert_eq!((browser.run(pressed), browser.run(pressed)), (1.into(), 0.into()));
    // The axes of an experiment are linked: what zooms one figure zooms the other.
    let parts = "return [...document.querySelectorAll('#demux .plot')].map((plot) => plot.dataset.part)";
    let whole = browser.run(parts);
    assert_eq!(whole[0], whole[1], "{whole}");
    browser.run("document.querySelector('#demux .tools button').click()");
    wait_until("both are zoomed", || {
        let zoomed = browser.run(parts);
        zoomed[0] != whole[0] && zoomed[0] == zoomed[1]
    });
    browser.run(
        "[...document.querySelectorAll('#demux .tools button')].find((b) => b.textContent === 'All').click()",
    );
    wait_until("both show all again", || browser.run(parts) == whole);
    // Four subjects, two values each, the longest as long as may be.
    let bars = browser.run(
        "const all = [...document.querySelectorAll('#tao-dispatch-cost .bar')];
         return all.length === 8 && all.some((bar) => bar.clientWidth > 100 && bar.firstChild.clientWidth === bar.clientWidth)",
    );
    assert_eq!(bars, true);
    let wide = browser.run("return document.documentElement.scrollWidth <= window.innerWidth");
    assert_eq!(wide, true, "nothing sticks out");
    assert!(
        browser
            .run("return document.getElementById('when').textContent")
            .as_str()
            .is_some_and(|t| t.ends_with("UTC"))
    );
    assert_eq!(
        browser.run("return performance.getEntriesByType('resource').length"),
        0,
        "nothing is fetched"
    );
    browser.check_looks("report");
    assert_eq!(browser.console(), Vec::<Value>::new());
}

/// Two subjects with the same values, a third beside them.
#[test]
fn coincident_lines_are_told_apart() {
    use isorb_page::{Page, plot};
    let row = |subject: &str, x: u32, value: f64| serde_json::json!({"figure": "f", "subject": subject, "x": x, "value": value});
    let lines = [("below", 0.0), ("above", 0.001), ("apart", 5.0)];
    let rows: Vec<Value> = lines
        .iter()
        .flat_map(|(subject, more)| (1..=4).map(move |x| row(subject, x, f64::from(x) + more)))
        .collect();
    let figure = serde_json::json!({"id": "f", "title": "t", "x": "x", "y": "y", "draw": ["value"], "divide": 1, "log": false});
    let data = serde_json::json!([{"figures": [figure], "rows": rows, "verdict": {"experiment": "e"}}]);
    let page = Page {
        title: "coincident",
        styles: &[plot::STYLE],
        body: "<h1>t</h1><p><span id=\"when\" data-seconds=\"0\"></span></p><div class=\"plot\" data-experiment=\"e\" data-figure=\"0\"></div>",
        data: Some(&data.to_string()),
        scripts: &[plot::UPLOT, plot::SCRIPT],
    };
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("coincident.html");
    std::fs::write(&file, page.to_string()).expect("it can be written");
    let Some(mut browser) = Browser::start_or_skip() else { return };
    browser.open(&format!("file://{}", file.display()));
    let names =
        browser.run("return [...document.querySelectorAll('.plot-legend button')].map((b) => b.textContent)");
    assert_eq!(names, serde_json::json!(["below (the same as above)", "above (the same as below)", "apart"]));
    let look = "return [...document.querySelectorAll('.plot-legend svg')].map((svg) =>
        [svg.querySelector('line').getAttribute('stroke-width'), svg.querySelector('polygon').getAttribute('points').split(' ').length])";
    // The one below is wider, and each has a marker of its own.
    assert_eq!(browser.run(look), serde_json::json!([["6", 12], ["2", 4], ["2", 3]]));
    browser.check_looks("coincident");
    assert_eq!(browser.console(), Vec::<Value>::new());
}
