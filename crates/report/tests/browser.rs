//! The page in a real browser: marks are drawn where they can be seen, nothing is asked of a network.
//!
//! Needs chromium (`apt-get install chromium`). With `UNRACK_SCREENSHOTS=DIR` it also leaves pictures
//! of the page there, to be looked at.

mod synthetic;

use std::path::Path;
use std::process::Command;

use synthetic::Scratch;
use unrack_report::Report;

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

/// Appended to a copy of the page: measures, and writes what it found where `--dump-dom` shows it.
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

fn measured(scratch: &Path, page: &str, window: &str) -> serde_json::Value {
    let copy = scratch.join("measured.html");
    std::fs::write(&copy, page.replace("</body>", &format!("{MEASURE}</body>"))).unwrap();
    let dom = chromium(scratch, &[window, "--dump-dom"], &copy);
    // The script's own text comes first in the page.
    let (_, after) = dom.rsplit_once("MEASURED").expect("the measuring script has run");
    serde_json::from_str(after.split_once("END").unwrap().0).unwrap()
}

fn every_kind(scratch: &Scratch) -> Report {
    let folders = [
        synthetic::compare_folder(scratch, "compare"),
        synthetic::map_folder(scratch, "map"),
        synthetic::sim_folder(scratch, "edm", 1.2),
        synthetic::sim_folder(scratch, "dctcp", 14.0),
    ];
    Report::read(&folders).unwrap()
}

#[test]
fn marks_are_drawn_and_seen_at_every_width() {
    let scratch = Scratch::new("browser");
    let page = every_kind(&scratch).html();
    for window in ["--window-size=1200,900", "--window-size=500,900"] {
        let found = measured(&scratch, &page, window);
        assert_eq!(found["requests"], 0, "the page loads nothing");
        assert_eq!(found["owned"], "", "a script from the scenario has run");
        assert_eq!(found["overflow"], 0, "the page is as wide as the window at {window}");
        let figures = found["figures"].as_object().unwrap();
        assert_eq!(figures.len(), 10);
        for (id, figure) in figures {
            assert_eq!(figure["shown"], 1, "{id} is shown in one width at {window}");
            assert!(figure["marks"].as_u64().unwrap() >= 2, "{id} at {window}: {figure}");
            assert_eq!(figure["marks"], figure["drawn"], "{id} has marks without extent at {window}");
            assert_eq!(figure["outside"], serde_json::json!([]), "{id} at {window}");
        }
    }
}

#[test]
fn pictures_of_the_page() {
    let Some(folder) = std::env::var_os("UNRACK_SCREENSHOTS") else { return };
    let scratch = Scratch::new("screenshots");
    let compare = Report::read(&[synthetic::compare_folder(&scratch, "run")]).unwrap();
    for (name, report) in [("compare", compare), ("all", every_kind(&scratch))] {
        let page = scratch.join(format!("{name}.html"));
        report.write(&page).unwrap();
        for (size, window) in [("wide", "1100,5200"), ("narrow", "500,6400")] {
            let picture = Path::new(&folder).join(format!("{name}-{size}.png"));
            let arguments =
                [format!("--screenshot={}", picture.display()), format!("--window-size={window}")];
            chromium(&scratch, &arguments.each_ref().map(String::as_str), &page);
        }
    }
}
