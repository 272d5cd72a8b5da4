//! Runs a test with a browser and a service, and offers the steps of a scene.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::panic::AssertUnwindSafe;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::service::Service;
use crate::webdriver::Browser;

/// Maximum wait for a change on the page.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(25);

pub struct Stage {
    pub service: Service,
    pub browser: Browser,
}

/// Whether pages may run scripts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Script {
    On,
    Off,
}

/// Runs a test with a new service and browser, and stops both even if the test panics.
pub fn play(script: Script, scenes: impl FnOnce(&mut Stage)) {
    play_with(Service::start(), script, scenes);
}

/// Runs a test like [`play`], with the given service.
pub fn play_with(service: Service, script: Script, scenes: impl FnOnce(&mut Stage)) {
    let driver = Driver::start();
    let mut stage = Stage {
        service,
        browser: driver.open(script),
    };
    let played = std::panic::catch_unwind(AssertUnwindSafe(|| scenes(&mut stage)));
    if played.is_err() {
        eprintln!("the page at the end:\n{}", stage.browser.source());
        for line in stage.browser.complaints() {
            eprintln!("the browser says: {line}");
        }
    }
    stage.browser.quit();
    drop(driver);
    if let Err(panic) = played {
        std::panic::resume_unwind(panic);
    }
}

impl Stage {
    /// Signs in with the service's link and waits for the list of approvals.
    pub fn sign_in(&self) {
        self.browser.goto(&self.service.link);
        self.click("button.yes");
        self.until_address("/approvals");
    }

    pub fn goto(&self, path: &str) {
        self.browser.goto(&format!("{}{path}", self.service.base));
    }

    /// Evaluates a JavaScript expression in the page.
    pub fn js(&self, expression: &str) -> Value {
        let value = self.browser.run(&format!("return {expression};"));
        value.unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    /// Waits until a JavaScript expression is true in the page.
    #[track_caller]
    pub fn until(&self, expression: &str) {
        let begin = Instant::now();
        while self.js(&format!("!!({expression})")) != json!(true) {
            assert!(begin.elapsed() < PATIENCE, "never true: {expression}");
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Waits until the page's address ends with `end`.
    #[track_caller]
    pub fn until_address(&self, end: &str) {
        let begin = Instant::now();
        while !self.browser.address().ends_with(end) {
            assert!(
                begin.elapsed() < PATIENCE,
                "at {}, not at {end}",
                self.browser.address()
            );
            std::thread::sleep(LOOK_EVERY);
        }
    }

    pub fn click(&self, css: &str) {
        self.browser.find(css).click();
    }

    /// Types into the field found by a CSS selector.
    pub fn write(&self, css: &str, text: &str) {
        self.browser.find(css).write(text);
    }

    /// Presses keys, wherever the focus is.
    pub fn press(&self, keys: &str) {
        self.browser.press(keys);
    }

    /// Returns the visible text of an element. Looks for it again if the page was replaced in between.
    pub fn text(&self, css: &str) -> String {
        let mut texts = (0..5).filter_map(|_| self.browser.find(css).try_text());
        texts.next().expect("the element stays")
    }

    /// Starts to sum up layout shifts in `window.shift`, except those that follow an input of the person.
    pub fn watch_shifts(&self) {
        let script = "window.shift = 0; new PerformanceObserver((list) => list.getEntries().forEach((entry) => { \
                      if (!entry.hadRecentInput) window.shift += entry.value; })).observe({ type: 'layout-shift' });";
        self.browser.run(script).unwrap();
        // The browser ignores shifts within 500 ms of an input, so let that time pass.
        std::thread::sleep(Duration::from_millis(600));
    }
}

/// A running `chromedriver`. Dropping this kills it and all its browsers.
struct Driver {
    child: Child,
    port: u16,
    profile: tempfile::TempDir,
}

impl Driver {
    fn start() -> Driver {
        let program = named("COUNTERSIGN_TEST_CHROMEDRIVER", "chromedriver");
        let started = Command::new(&program)
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        let mut child = started.unwrap_or_else(|error| {
            let hint = "run scripts/test, or apt-get install chromium chromium-driver";
            panic!("`{program}` cannot be started: {error}\nhint: {hint}")
        });
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let (_, port) = line.split_once("started successfully on port ")?;
            port.trim_end_matches('.').parse().ok()
        });
        std::thread::spawn(move || lines.for_each(drop));
        Driver {
            child,
            port: port.expect("the driver says its port"),
            profile: tempfile::tempdir().unwrap(),
        }
    }

    fn open(&self, script: Script) -> Browser {
        let mut arguments: Vec<String> = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--window-size=1000,800",
        ]
        .map(str::to_owned)
        .to_vec();
        arguments.push(format!("--user-data-dir={}", self.profile.path().display()));
        if script == Script::Off {
            arguments.push("--blink-settings=scriptEnabled=false".to_owned());
        }
        let program = named("COUNTERSIGN_TEST_CHROMIUM", "/usr/bin/chromium");
        Browser::open(self.port, &program, &arguments)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // The whole process group, with any browser that is left.
        let group = format!("-{}", self.child.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.child.wait();
    }
}

fn named(variable: &str, usual: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| usual.to_owned())
}
