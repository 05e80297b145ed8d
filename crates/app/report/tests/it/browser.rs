//! The page in a real browser: marks are visible, and the page makes no network requests.
//!
//! Needs chromium (`apt-get install chromium`). After changes to the page's look, view it: `UNRACK_SCREENSHOTS=DIR
//! cargo test -p unrack-report --test browser -- --ignored`.

use crate::synthetic;
use std::path::Path;
use std::process::Command;

use unrack_report::ReportPage;
use unrack_testing::{TestFolder, TestRequirement, skip};

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

/// Script appended to a copy of the page: it measures, and sends its findings to the page around it.
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
  const boxes = shown.flatMap(svg => [...svg.querySelectorAll("text")]).map(text => [text.textContent, text.getBoundingClientRect()]);
  const covers = (a, b) => a.left + 1 < b.right && b.left + 1 < a.right && a.top + 1 < b.bottom && b.top + 1 < a.bottom;
  const covered = boxes.flatMap(([text, box], index) =>
    boxes.slice(index + 1).filter(([, other]) => covers(box, other)).map(([other]) => [text, other]));
  const drawn = marks.filter(mark => visible(mark.getBBox())).length;
  found[figure.id] = { shown: shown.length, marks: marks.length, drawn: drawn, outside: outside, covered: covered };
}
parent.postMessage("MEASURED" + JSON.stringify({
  figures: found,
  requests: performance.getEntriesByType("resource").length,
  owned: document.body.id,
  width: window.innerWidth,
  clipped: [...document.querySelectorAll("caption span")].filter(caption => {
    const own = caption.getBoundingClientRect();
    return own.left < -1 || own.right > window.innerWidth + 1;
  }).map(caption => caption.textContent),
  overflow: document.documentElement.scrollWidth - window.innerWidth,
}) + "END", "*");
</script>"#;

/// Page around the copy, which may be narrower than a browser's window: it shows the findings to `--dump-dom`.
const FRAME: &str = r#"<!DOCTYPE html><body><script>
addEventListener("message", message => { document.body.append(message.data); });
</script><iframe src="measured.html" style="border:0;height:900px;width:WIDTHpx"></iframe></body>"#;

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
        skip(TestRequirement::Chromium, format!("chromium cannot be run ({why}): apt-get install chromium"));
    }
    found.is_ok()
}

fn measured(scratch: &Path, page: &str, width: u32) -> serde_json::Value {
    let copy = scratch.join("measured.html");
    std::fs::write(&copy, page.replace("</body>", &format!("{MEASURE}</body>"))).unwrap();
    let frame = scratch.join("frame.html");
    std::fs::write(&frame, FRAME.replace("WIDTH", &width.to_string())).unwrap();
    let window = format!("--window-size={},950", width + 50);
    let dom = chromium(scratch, &[&window, "--virtual-time-budget=10000", "--dump-dom"], &frame);
    let (_, after) = dom.rsplit_once("MEASURED").expect("the measuring script has run");
    serde_json::from_str(after.split_once("END").unwrap().0).unwrap()
}

fn every_kind(scratch: &TestFolder) -> ReportPage {
    let folders = [
        synthetic::compare_folder(scratch, "compare"),
        synthetic::map_folder(scratch, "map"),
        synthetic::sim_folder(scratch, "edm", 1.2),
        synthetic::sim_folder(scratch, "dctcp", 14.0),
    ];
    synthetic::observe(&folders[2]);
    ReportPage::read(&folders).unwrap()
}

#[test]
fn marks_are_drawn_and_seen_at_every_width() {
    if !has_chromium() {
        return;
    }
    let scratch = TestFolder::new("browser");
    let page = every_kind(&scratch).html();
    for width in [400, 800, 1400] {
        let window = format!("{width} px");
        let found = measured(&scratch, &page, width);
        assert_eq!(found["width"], width, "the browser has another width");
        assert_eq!(found["requests"], 0, "the page loads nothing");
        assert_eq!(found["owned"], "", "a script from the scenario has run");
        assert_eq!(found["overflow"], 0, "the page is as wide as the window at {window}");
        assert_eq!(found["clipped"], serde_json::json!([]), "captions are cut off at {window}");
        let figures = found["figures"].as_object().unwrap();
        assert_eq!(figures.len(), 15);
        for (id, figure) in figures {
            assert_eq!(figure["shown"], 1, "{id} is shown in one width at {window}");
            assert!(figure["marks"].as_u64().unwrap() >= 2, "{id} at {window}: {figure}");
            assert_eq!(figure["marks"], figure["drawn"], "{id} has marks without extent at {window}");
            assert_eq!(figure["outside"], serde_json::json!([]), "{id} at {window}");
            assert_eq!(
                figure["covered"],
                serde_json::json!([]),
                "labels of {id} cover each other at {window}"
            );
        }
    }
}

#[test]
#[ignore = "for people: leaves pictures of the page in the folder UNRACK_SCREENSHOTS"]
fn pictures_of_the_page() {
    let folder = std::env::var_os("UNRACK_SCREENSHOTS").expect("UNRACK_SCREENSHOTS names a folder");
    let scratch = TestFolder::new("screenshots");
    let compare = ReportPage::read(&[synthetic::compare_folder(&scratch, "run")]).unwrap();
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
