//! Chromium without a window, driven over the WebDriver protocol (W3C).

mod looks;

use crate::TempFolder;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A browser. Dropping it ends the browser and its driver.
#[derive(Debug)]
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
    // Browsers that share a profile end each other, and tests of one program run side by side.
    _profile: TempFolder,
}

impl Browser {
    /// Starts a browser. Where chromium or chromedriver is not installed, prints a line that begins
    /// with `skipped` and returns `None`.
    ///
    /// # Panics
    /// Where the installed browser does not start.
    pub fn start_or_skip() -> Option<Browser> {
        let browser = Browser::start();
        if browser.is_none() {
            println!(
                "skipped: chromium or chromedriver is not installed \
                 (apt-get install chromium chromium-driver)"
            );
        }
        browser
    }

    fn start() -> Option<Browser> {
        // The driver finds the browser by itself.
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let output = driver.stdout.take().expect("standard output is piped");
        let port = BufReader::new(output)
            .lines()
            .map_while(Result::ok)
            .find_map(|line| line.split_once("successfully on port ")?.1.trim_end_matches('.').parse().ok());
        let profile = TempFolder::new();
        let folder = format!("--user-data-dir={}", profile.path().display());
        let mut browser = Browser { driver, port: port?, session: String::new(), _profile: profile };
        // Tests may run as root, where Chromium has no sandbox.
        let arguments =
            ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", &folder];
        let wanted =
            json!({"goog:chromeOptions": {"args": arguments}, "goog:loggingPrefs": {"browser": "ALL"}});
        let capabilities = json!({"capabilities": {"alwaysMatch": wanted}});
        let answer = browser.request("POST", "/session", Some(&capabilities));
        if answer["value"]["message"].as_str().is_some_and(|text| text.contains("cannot find")) {
            return None;
        }
        let session = answer["value"]["sessionId"].as_str().unwrap_or_else(|| panic!("no session: {answer}"));
        browser.session = format!("/session/{session}");
        Some(browser)
    }

    /// Opens a page and waits until it is loaded.
    ///
    /// # Panics
    /// Where the page does not load.
    pub fn open(&mut self, url: &str) {
        let answer = self.post("/url", &json!({"url": url}));
        assert!(answer["value"].is_null(), "{answer}");
    }

    /// Runs the body of a JavaScript function in the page and returns its result.
    ///
    /// # Panics
    /// Where the script throws.
    pub fn run(&mut self, script: &str) -> Value {
        let mut answer = self.post("/execute/sync", &json!({"script": script, "args": []}));
        assert!(answer["value"]["error"].is_null(), "{answer}");
        answer["value"].take()
    }

    /// The entries of the page's console since the last call: errors, warnings and other output.
    ///
    /// # Panics
    /// Where the driver has no log.
    pub fn console(&mut self) -> Vec<Value> {
        let answer = self.post("/se/log", &json!({"type": "browser"}));
        answer["value"].as_array().unwrap_or_else(|| panic!("no log: {answer}")).clone()
    }

    fn post(&mut self, path: &str, body: &Value) -> Value {
        let path = format!("{}{path}", self.session);
        self.request("POST", &path, Some(body))
    }

    fn request(&mut self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the driver listens");
        stream.set_read_timeout(Some(Duration::from_secs(120))).expect("a timeout can be set");
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
        answer.read_exact(&mut text).expect("the body is complete");
        serde_json::from_slice(&text).expect("the driver answers in JSON")
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let session = self.session.clone();
            // Also where the test has panicked: the browser does not end with its driver. A driver
            // that no longer answers panics in here only.
            let ends = std::panic::AssertUnwindSafe(|| self.request("DELETE", &session, None));
            let _ = std::panic::catch_unwind(ends);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
