//! The report page as a reader gets it: made by the command, opened in a browser without a network.
//!
//! The browser is Chromium, spoken to through its driver in the WebDriver protocol (W3C). Where they are not installed, the test
//! says so and looks at the file only.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

#[test]
fn a_report_is_one_page_with_a_plot_for_each_figure() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report.html");
    let output = Command::new(env!("CARGO_BIN_EXE_isorb-bench"))
        .args(["report", "--quick", "--output"])
        .arg(&file)
        .args(["scope", "demux"])
        .stdin(Stdio::null())
        .output()
        .expect("the binary was built for this test");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("2 experiments, about") && said.contains("written: "), "{said}");
    let text = std::fs::read_to_string(&file).expect("it was written");
    assert!(text.contains("id=\"scope\"") && text.contains("id=\"demux\"") && !text.contains("not run"));

    let Some(mut browser) = Browser::start() else {
        println!(
            "skipped: chromium or chromedriver is not installed (apt-get install chromium chromium-driver)"
        );
        return;
    };
    browser.open(&file);
    // Two figures each; what was drawn, not only placed.
    let plots = browser.run("return document.querySelectorAll('.plot').length");
    assert_eq!(plots, 4, "{text}");
    let drawn = browser.run(
        "return [...document.querySelectorAll('.plot canvas')].filter((canvas) => {
           const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
           return pixels.some((value, i) => i % 4 === 3 && value > 0);
         }).length",
    );
    assert_eq!(drawn, 4);
    let lines = browser.run("return document.querySelectorAll('#demux .plot .u-legend .u-series').length");
    // The axis itself and, of four subjects, two values in the first figure and one in the second.
    assert_eq!(lines, 1 + 8 + 1 + 4);
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
    assert_eq!(browser.complaints(), Vec::<Value>::new());
}

/// A browser without a window, which ends with this.
struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: Profile,
}

/// The browser's own folder.
struct Profile(PathBuf);

impl Drop for Profile {
    fn drop(&mut self) {
        // Something is left in the target folder if the browser is not quite dead.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Browser {
    fn start() -> Option<Browser> {
        // The driver looks for the browser by itself.
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let output = driver.stdout.take().expect("it was asked for");
        let port = BufReader::new(output)
            .lines()
            .map_while(Result::ok)
            .find_map(|line| line.split_once("successfully on port ")?.1.trim_end_matches('.').parse().ok());
        let profile =
            Profile(Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("browser-{}", std::process::id())));
        let folder = format!("--user-data-dir={}", profile.0.display());
        let mut browser = Browser { driver, port: port?, session: String::new(), _profile: profile };
        // Tests may run as root, where Chromium has no sandbox.
        let arguments =
            ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", &folder];
        let wanted =
            json!({"goog:chromeOptions": {"args": arguments}, "goog:loggingPrefs": {"browser": "ALL"}});
        let answer = browser.ask("POST", "/session", Some(&json!({"capabilities": {"alwaysMatch": wanted}})));
        if answer["value"]["message"].as_str().is_some_and(|text| text.contains("cannot find")) {
            return None;
        }
        let session = answer["value"]["sessionId"].as_str().unwrap_or_else(|| panic!("no session: {answer}"));
        browser.session = format!("/session/{session}");
        Some(browser)
    }

    fn open(&mut self, file: &Path) {
        let file = file.canonicalize().expect("it was written");
        let answer = self.within("/url", &json!({"url": format!("file://{}", file.display())}));
        assert!(answer["value"].is_null(), "{answer}");
    }

    fn run(&mut self, script: &str) -> Value {
        let mut answer = self.within("/execute/sync", &json!({"script": script, "args": []}));
        assert!(answer["value"]["error"].is_null(), "{answer}");
        answer["value"].take()
    }

    /// What the page's scripts wrote to the console, errors included.
    fn complaints(&mut self) -> Vec<Value> {
        let answer = self.within("/se/log", &json!({"type": "browser"}));
        answer["value"].as_array().unwrap_or_else(|| panic!("no log: {answer}")).clone()
    }

    fn within(&mut self, path: &str, body: &Value) -> Value {
        let path = format!("{}{path}", self.session);
        self.ask("POST", &path, Some(body))
    }

    fn ask(&mut self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the driver listens");
        stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a time-out may be set");
        let body = body.map(ToString::to_string).unwrap_or_default();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .expect("the driver reads");
        let mut answer = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            answer.read_line(&mut line).expect("the driver answers");
            if line.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().expect("a number");
            }
        }
        let mut text = vec![0; length];
        answer.read_exact(&mut text).expect("as long as said");
        serde_json::from_slice(&text).expect("the driver answers in JSON")
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !std::thread::panicking() {
            let session = self.session.clone();
            self.ask("DELETE", &session, None);
        }
        // The browser ends with its driver.
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
