//! The report page in a browser without a network.
//!
//! Where there is no Chromium, the test says so and looks at the file only.

use std::path::Path;
use std::process::{Command, Stdio};

use isorb_testkit::Browser;
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
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("3 experiments, about") && said.contains("written: "), "{said}");
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
    let lines = browser.run("return document.querySelectorAll('#demux .plot .u-legend .u-series').length");
    // The axis itself and, of four subjects, two values in the first figure and one in the second.
    assert_eq!(lines, 1 + 8 + 1 + 4);
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
    assert_eq!(browser.console(), Vec::<Value>::new());
}
