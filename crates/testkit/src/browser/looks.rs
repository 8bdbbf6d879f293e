//! How a page looks at other sizes, in the dark, and under fingers; and whether all people can use
//! it.

use super::Browser;
use crate::{TempFolder, wait_until};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The widths that pages are made for: a phone, a tablet, a screen, a large screen.
const WIDTHS: [u32; 4] = [360, 820, 1400, 2560];

/// Rules beside those of axe, as the body of a function.
const AUDIT: &str = include_str!("audit.js");

/// The version of axe-core.
const AXE: &str = "axe-core@4.10.3";

impl Browser {
    /// Sets the width of the window in pixels, and the colours that the user prefers.
    pub fn look(&mut self, width: u32, dark: bool) {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600});
        self.command("Emulation.setDeviceMetricsOverride", &size);
        let scheme = if dark { "dark" } else { "light" };
        let feature = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.command("Emulation.setEmulatedMedia", &feature);
        // The page has laid itself out, and has drawn. `innerWidth` is no measure: a phone zooms
        // out where a page is too wide.
        let settled = format!(
            "await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
             return matchMedia('(width: {width}px)').matches"
        );
        wait_until("the page has the width", || self.run_async(&settled) == true);
    }

    /// Checks the page at each width, in light and in dark: it does not scroll sideways, its text
    /// has contrast, its controls have names, and more (`audit.js`). axe finds nothing either; its
    /// script is the file `ISORB_AXE`, or comes from npm, and without it that part is skipped with
    /// a sentence. Writes pictures into the folder `ISORB_SCREENSHOTS`, if there is one.
    ///
    /// # Panics
    /// With all breaches.
    pub fn check_looks(&mut self, page: &str) {
        let axe = axe_script();
        let mut breaches = Vec::new();
        for width in WIDTHS {
            for dark in [false, true] {
                self.look(width, dark);
                let scheme = if dark { "dark" } else { "light" };
                if let Some(folder) = std::env::var_os("ISORB_SCREENSHOTS") {
                    self.screenshot(&Path::new(&folder).join(format!("{page}-{width}-{scheme}.png")));
                }
                let mut found = self.audit();
                found.extend(axe.iter().flat_map(|script| self.axe(script)));
                breaches
                    .extend(found.iter().map(|breach| format!("{page}, {width} pixels, {scheme}: {breach}")));
            }
        }
        assert!(breaches.is_empty(), "{}", breaches.join("\n"));
    }

    /// The breaches of our own rules.
    pub fn audit(&mut self) -> Vec<String> {
        let found = self.run(AUDIT);
        found.as_array().into_iter().flatten().map(|text| text.as_str().unwrap_or("?").to_owned()).collect()
    }

    fn axe(&mut self, script: &str) -> Vec<String> {
        if self.run("return typeof axe") != "object" {
            self.run(script);
        }
        let found = self.run_async(
            "const { violations } = await axe.run(document, { resultTypes: ['violations'] });
             return violations.map((v) => `axe ${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 150)).join(' ')}`)",
        );
        found.as_array().into_iter().flatten().map(|text| text.as_str().unwrap_or("?").to_owned()).collect()
    }

    /// Writes a picture of the whole page.
    ///
    /// # Panics
    /// Where the file cannot be written.
    pub fn screenshot(&mut self, file: &Path) {
        let taken = self.command("Page.captureScreenshot", &json!({"captureBeyondViewport": true}));
        let picture = base64(taken["data"].as_str().expect("the picture is base64"));
        std::fs::write(file, picture).expect("the picture can be written");
    }

    /// Puts fingers on the page, moves them, and takes them away: one list of places of all fingers
    /// for each step, in pixels of the window.
    pub fn touch(&mut self, steps: &[&[(f64, f64)]]) {
        self.command("Emulation.setTouchEmulationEnabled", &json!({"enabled": true, "maxTouchPoints": 2}));
        for (number, fingers) in steps.iter().enumerate() {
            let kind = if number == 0 { "touchStart" } else { "touchMove" };
            let points: Vec<Value> =
                fingers.iter().enumerate().map(|(id, (x, y))| json!({"x": x, "y": y, "id": id})).collect();
            self.command("Input.dispatchTouchEvent", &json!({"type": kind, "touchPoints": points}));
        }
        self.command("Input.dispatchTouchEvent", &json!({"type": "touchEnd", "touchPoints": []}));
    }

    /// Presses a key, such as `Tab`, `ArrowLeft` or `n`.
    pub fn key(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "ArrowLeft" => 37,
            "ArrowUp" => 38,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            other => other.chars().next().map_or(0, |c| u32::from(c.to_ascii_uppercase())),
        };
        let text = if key.len() == 1 { key } else { "" };
        let press = json!({"type": "keyDown", "key": key, "text": text, "windowsVirtualKeyCode": code});
        self.command("Input.dispatchKeyEvent", &press);
        self.command(
            "Input.dispatchKeyEvent",
            &json!({"type": "keyUp", "key": key, "windowsVirtualKeyCode": code}),
        );
    }

    /// Runs the body of an asynchronous JavaScript function in the page and returns its result.
    ///
    /// # Panics
    /// Where the script throws.
    pub fn run_async(&mut self, script: &str) -> Value {
        self.run(&format!("return (async () => {{ {script} }})()"))
    }

    /// A command of the Chrome DevTools protocol.
    fn command(&mut self, name: &str, params: &Value) -> Value {
        let mut answer = self.post("/goog/cdp/execute", &json!({"cmd": name, "params": params}));
        assert!(answer["value"]["error"].is_null(), "{name}: {answer}");
        answer["value"].take()
    }
}

/// The script of axe, which is no part of the repository: from the file `ISORB_AXE`, or from npm,
/// once for a target folder. Where the registry does not answer, prints a line that begins with
/// `skipped` and returns `None`.
fn axe_script() -> Option<String> {
    let file = std::env::var_os("ISORB_AXE").map(PathBuf::from).or_else(|| {
        let test = std::env::current_exe().ok()?;
        Some(test.parent()?.join(format!("{AXE}.js")))
    })?;
    if !file.exists() {
        let folder = TempFolder::new();
        let run = |program: &str, arguments: &[&str]| {
            let mut command = Command::new("timeout");
            command.args(["60", program]).args(arguments).current_dir(folder.path());
            command
                .stdin(Stdio::null())
                .stderr(Stdio::null())
                .output()
                .ok()
                .filter(|ran| ran.status.success())
        };
        let archive = run("npm", &["pack", AXE, "--silent", "--fetch-retries=0"]);
        let archive = archive.map(|ran| String::from_utf8_lossy(&ran.stdout).trim().to_owned());
        let script = archive.and_then(|name| run("tar", &["-xzOf", &name, "package/axe.min.js"]));
        let Some(script) = script else {
            println!("skipped: npm does not give {AXE}; set ISORB_AXE to its axe.min.js");
            return None;
        };
        // Another test may do so at the same time.
        let new = file.with_extension(format!("{}", std::process::id()));
        std::fs::write(&new, script.stdout).and_then(|()| std::fs::rename(&new, &file)).ok()?;
    }
    Some(std::fs::read_to_string(file).expect("the script of axe can be read"))
}

fn base64(text: &str) -> Vec<u8> {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = text.bytes().filter(|c| *c != b'=').map(digit).collect();
    let octets = |four: &[u8]| {
        let bits = four.iter().fold(0, |bits, digit| bits << 6 | u32::from(*digit)) << (6 * (4 - four.len()));
        bits.to_be_bytes()[1..four.len()].to_vec()
    };
    digits.chunks(4).flat_map(octets).collect()
}

#[cfg(test)]
mod tests {
    use crate::{Browser, TempFolder};

    /// The audit can fail: a page with one breach of each kind, and one without.
    #[test]
    fn the_audit_finds_what_is_wrong() {
        let Some(mut browser) = Browser::start_or_skip() else { return };
        let folder = TempFolder::new();
        let file = folder.file("page.html");
        let mut audit = |page: &str| {
            std::fs::write(&file, page).unwrap();
            browser.open(&format!("file://{}", file.display()));
            browser.look(360, false);
            browser.audit().join("\n")
        };
        let found = audit(
            "<!DOCTYPE html><meta name=viewport content='width=device-width'><h1 id=a>t</h1><h3>u</h3><p id=a>outside</p>\
             <main><button style='width:20px;height:20px'></button><a href=x style='color:#aaa'>pale</a>\
             <table><tr><td>1</td></tr></table><table><tr><th>1</th></tr></table>\
             <div style='overflow-x:auto'><div style='width:900px'>far</div></div>\
             <div style='width:500px'>wide</div><p tabindex=3>p</p></main>",
        );
        for breach in [
            "no language",
            "no title",
            "level 3 after one of level 1",
            "p#a is outside of the landmarks",
            "have the id a",
            "button has no name",
            "20 by 20 pixels",
            "contrast of 2.32: pale",
            "table has no headings",
            "th (1) has no scope",
            "the keyboard cannot reach it",
            "pixels too wide: div",
            "changes the order of the keyboard",
        ] {
            assert!(found.contains(breach), "{breach} is not in:\n{found}");
        }
        let good = "<!DOCTYPE html><html lang=en><title>t</title><meta name=viewport content='width=device-width'>\
            <main><h1>t</h1><button style='width:40px;height:40px'>go</button></main></html>";
        assert_eq!(audit(good), "");
    }

    /// Processes that name this folder among their arguments.
    fn processes_in(folder: &std::path::Path) -> usize {
        let folder = folder.display().to_string();
        let arguments = |process: std::fs::DirEntry| std::fs::read(process.path().join("cmdline")).ok();
        let processes = std::fs::read_dir("/proc").unwrap().flatten().filter_map(arguments);
        processes.filter(|arguments| String::from_utf8_lossy(arguments).contains(&folder)).count()
    }

    #[test]
    fn a_browser_ends_with_a_test_that_panics() {
        let Some(browser) = Browser::start_or_skip() else { return };
        let profile = browser._profile.path().to_owned();
        assert!(processes_in(&profile) > 0);
        let test = std::thread::spawn(move || {
            let _browser = browser;
            panic!("on purpose");
        });
        assert!(test.join().is_err());
        crate::wait_until("the browser has ended", || processes_in(&profile) == 0);
    }

    #[test]
    fn pictures_are_decoded() {
        let pairs = [("", ""), ("TQ==", "M"), ("TWE=", "Ma"), ("TWFu", "Man"), ("TWFuTQ==", "ManM")];
        for (text, octets) in pairs {
            assert_eq!(super::base64(text), octets.as_bytes());
        }
    }
}
