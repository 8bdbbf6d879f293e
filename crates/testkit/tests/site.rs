//! The site of the documents in a browser, without another network than loopback.

use isorb_testkit::{Browser, wait_until};
use serde_json::Value;

#[test]
#[ignore = "needs the site, which packaging/site/check builds"]
fn the_site_is_read_and_searched_on_a_phone_and_on_a_screen() {
    let site = std::env::var("ISORB_SITE").expect("packaging/site/check sets ISORB_SITE");
    let Some(mut browser) = Browser::start_or_skip() else { return };
    let url = |page: &str| format!("{site}/{page}");

    // A page of each kind, at the width of a phone and of a screen, in both colours.
    let pages = [
        "index.html",
        "docs/tutorials/first-steps.html",
        "docs/guides/transports.html",
        "docs/reference/configuration.html",
        "docs/explanation/life-of-a-request.html",
        "docs/explanation/event-channels.html",
        "CHANGELOG.html",
    ];
    for page in pages {
        browser.open(&url(page));
        for (width, dark) in [(360, false), (360, true), (1400, false), (2560, true)] {
            browser.look(width, dark);
            let wide = browser
                .run("return document.documentElement.scrollWidth - document.documentElement.clientWidth");
            assert_eq!(wide, 0, "{page} sticks out at {width} pixels");
        }
        // Diagrams are there, and have words for a screen reader.
        wait_until(page, || {
            browser.run("return [...document.images].every((i) => i.complete && i.naturalWidth > 0 && i.alt)")
                == true
        });
        let headings = browser.run("return document.querySelectorAll('article h1').length");
        assert_eq!(headings, 1, "{page}");
    }
    // The colours of a first visit are those that the user prefers.
    let schemes = [false, true].map(|dark| {
        browser.look(1400, dark);
        browser.run("localStorage.clear()");
        browser.open(&url("index.html"));
        browser.run("return document.body.getAttribute('data-md-color-scheme')")
    });
    assert_eq!(schemes, ["default", "slate"].map(Value::from));

    // The search finds a word of a reference page, and its result leads there.
    browser.look(1400, false);
    browser.open(&url("index.html"));
    let search = "const field = document.querySelector('.md-search__input');
         field.focus();
         field.value = 'eviction';
         field.dispatchEvent(new Event('keyup'));
         field.dispatchEvent(new Event('input', { bubbles: true }));
         return [...document.querySelectorAll('.md-search-result__link')].map((a) => a.href).join(' ')";
    // The page looks at the field once it has loaded its index.
    wait_until("the search answers", || {
        browser.run(search).as_str().is_some_and(|found| found.contains("docs/reference/waits.html"))
    });

    // Pages that isorb wrote, and the rustdoc, work inside.
    for (page, what) in [("live/mission-computer.html", "canvas, svg"), ("live/report.html", ".plot canvas")]
    {
        browser.open(&url(page));
        wait_until(page, || {
            browser.run(&format!("return document.querySelectorAll('{what}').length")).as_u64() > Some(0)
        });
    }
    browser.open(&url("api/isorb/index.html"));
    assert_eq!(browser.run("return document.title"), "isorb - Rust");
    // Nothing came from another host.
    browser.open(&url("index.html"));
    let foreign = browser.run("return performance.getEntriesByType('resource').map((r) => r.name).filter((n) => !n.startsWith(location.origin))");
    assert_eq!(foreign, Value::Array(Vec::new()));
    // A browser asks for an icon of pages that name none.
    let is_error = |entry: &Value| entry["level"] == "SEVERE" && !entry.to_string().contains("/favicon.ico");
    let errors: Vec<Value> = browser.console().into_iter().filter(is_error).collect();
    assert_eq!(errors, Vec::<Value>::new());
}
