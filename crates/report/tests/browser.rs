//! The page in a real browser: marks are visible, and the page makes no network requests.
//!
//! Needs chromium (`apt-get install chromium`). After changes to the page's look, view it: `UNRACK_SCREENSHOTS=DIR
//! cargo test -p unrack-report --test browser -- --ignored`.

mod synthetic;

use std::path::Path;
use std::process::Command;

use unrack_report::Report;
use unrack_testing::{Folder, Needed, skip};

const FLAGS: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
];

/// Script appended to a copy of the page: it measures, and writes its findings where `--dump-dom` shows them.
const MEASURE: &str = r#"<script>
const visible = box => box.width > 0 || box.height > 0;
const found = {};
for (const figure of document.querySelectorAll("figure")) {
  const shown = [...figure.querySelectorAll("svg")].filter(svg => visible(svg.getBoundingClientRect()));
  const marks = shown.flatMap(svg => [...svg.querySelectorAll(".mark")]);
  const outside = shown.flatMap(svg => {
    const box = svg.getBoundingClientRect();
    return [...svg.querySelectorAll("text, .mark")].filter(part => {
      const own = part.getBoundingClientRect();
      return own.left < box.left - 2 || own.right > box.right + 2 || own.top < box.top - 2 || own.bottom > box.bottom + 2;
    }).map(part => part.textContent);
  });
  const drawn = marks.filter(mark => visible(mark.getBBox())).length;
  found[figure.id] = { shown: shown.length, marks: marks.length, drawn: drawn, outside: outside };
}
const result = document.createElement("pre");
result.id = "measured";
result.textContent = "MEASURED" + JSON.stringify({
  figures: found,
  requests: performance.getEntriesByType("resource").length,
  owned: document.body.id,
  overflow: document.documentElement.scrollWidth - window.innerWidth,
}) + "END";
document.body.append(result);
</script>"#;

fn chromium(scratch: &Path, arguments: &[&str], page: &Path) -> String {
    let profile = format!("--user-data-dir={}", scratch.join("profile").display());
    let url = format!("file://{}", page.display());
    let run = Command::new("chromium").args(FLAGS).arg(profile).args(arguments).arg(url).output();
    let output = run.expect("chromium is needed for this test: install it with `apt-get install chromium`");
    assert!(output.status.success(), "chromium: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns whether the browser is installed, and reports it if not.
fn has_chromium() -> bool {
    let found = Command::new("chromium").arg("--version").output();
    if let Err(why) = &found {
        skip(Needed::Chromium, format!("chromium cannot be run ({why}): apt-get install chromium"));
    }
    found.is_ok()
}

fn measured(scratch: &Path, page: &str, window: &str) -> serde_json::Value {
    let copy = scratch.join("measured.html");
    std::fs::write(&copy, page.replace("</body>", &format!("{MEASURE}</body>"))).unwrap();
    let dom = chromium(scratch, &[window, "--dump-dom"], &copy);
    // The script's own text comes first in the page.
    let (_, after) = dom.rsplit_once("MEASURED").expect("the measuring script has run");
    serde_json::from_str(after.split_once("END").unwrap().0).unwrap()
}

fn every_kind(scratch: &Folder) -> Report {
    let folders = [
        synthetic::compare_folder(scratch, "compare"),
        synthetic::map_folder(scratch, "map"),
        synthetic::sim_folder(scratch, "edm", 1.2),
        synthetic::sim_folder(scratch, "dctcp", 14.0),
    ];
    synthetic::observe(&folders[2]);
    Report::read(&folders).unwrap()
}

#[test]
fn marks_are_drawn_and_seen_at_every_width() {
    if !has_chromium() {
        return;
    }
    let scratch = Folder::new("browser");
    let page = every_kind(&scratch).html();
    for window in ["--window-size=1200,900", "--window-size=500,900"] {
        let found = measured(&scratch, &page, window);
        assert_eq!(found["requests"], 0, "the page loads nothing");
        assert_eq!(found["owned"], "", "a script from the scenario has run");
        assert_eq!(found["overflow"], 0, "the page is as wide as the window at {window}");
        let figures = found["figures"].as_object().unwrap();
        assert_eq!(figures.len(), 15);
        for (id, figure) in figures {
            assert_eq!(figure["shown"], 1, "{id} is shown in one width at {window}");
            assert!(figure["marks"].as_u64().unwrap() >= 2, "{id} at {window}: {figure}");
            assert_eq!(figure["marks"], figure["drawn"], "{id} has marks without extent at {window}");
            assert_eq!(figure["outside"], serde_json::json!([]), "{id} at {window}");
        }
    }
}

#[test]
#[ignore = "for people: leaves pictures of the page in the folder UNRACK_SCREENSHOTS"]
fn pictures_of_the_page() {
    let folder = std::env::var_os("UNRACK_SCREENSHOTS").expect("UNRACK_SCREENSHOTS names a folder");
    let scratch = Folder::new("screenshots");
    let compare = Report::read(&[synthetic::compare_folder(&scratch, "run")]).unwrap();
    let (light, dark) = ("preferredColorScheme=1", "preferredColorScheme=0");
    let looks = [("wide", "1100,12000", light), ("dark", "1100,12000", dark), ("narrow", "500,12000", light)];
    for (name, report) in [("compare", compare), ("all", every_kind(&scratch))] {
        let page = scratch.join(format!("{name}.html"));
        report.write(&page).unwrap();
        for (look, size, scheme) in looks {
            let picture = Path::new(&folder).join(format!("{name}-{look}.png"));
            let shot = format!("--screenshot={}", picture.display());
            let (size, scheme) = (format!("--window-size={size}"), format!("--blink-settings={scheme}"));
            chromium(&scratch, &[&shot, &size, &scheme], &page);
        }
    }
}
