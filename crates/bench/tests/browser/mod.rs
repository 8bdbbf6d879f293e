//! Chromium, spoken to through its driver in the WebDriver protocol (W3C). Tests of other crates use it as well.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

/// What a test says that cannot have one.
pub const MISSING: &str =
    "skipped: chromium or chromedriver is not installed (apt-get install chromium chromium-driver)";

/// A browser without a window, which ends with this.
pub struct Browser {
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
    /// None where a part of it is not installed.
    pub fn start() -> Option<Browser> {
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
        // Tests of one program run side by side, and two browsers in one folder end each other.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("browser-{}-{number}", std::process::id());
        let profile = Profile(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
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

    /// Opens a page and waits until it is loaded.
    pub fn open(&mut self, url: &str) {
        let answer = self.within("/url", &json!({"url": url}));
        assert!(answer["value"].is_null(), "{answer}");
    }

    /// What a function body in the page's language returns.
    pub fn run(&mut self, script: &str) -> Value {
        let mut answer = self.within("/execute/sync", &json!({"script": script, "args": []}));
        assert!(answer["value"]["error"].is_null(), "{answer}");
        answer["value"].take()
    }

    /// What the page's scripts wrote to the console, errors included.
    pub fn complaints(&mut self) -> Vec<Value> {
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
