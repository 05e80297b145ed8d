//! Details of how a run was made, which the page shows on demand.

use unrack_record::Manifest;

use crate::markup::Markup;
use crate::words::{command_line, seconds};

/// Writes the program's command, and the description of the run in the manifest.
pub(crate) fn draw(m: &mut Markup, command: &[String], manifest: Option<&Manifest>) {
    if !command.is_empty() {
        folded(m, "The program", &command_line(command));
    }
    let Some(manifest) = manifest else { return };
    m.element("details", &[], |m| {
        m.text("summary", &[], "How this was run").element("dl", &[("class", &"pairs")], |m| {
            for (name, value) in pairs(manifest) {
                m.text("dt", &[], name).text("dd", &[], &value);
            }
        });
    });
    if let Some(scenario) = &manifest.scenario {
        folded(m, "The scenario", scenario);
    }
}

/// Writes a text verbatim, in an element that the reader can unfold.
pub(crate) fn folded(m: &mut Markup, summary: &str, text: &str) {
    m.open("details", &[]).text("summary", &[], summary).text("pre", &[], text).close("details");
}

fn pairs(manifest: &Manifest) -> Vec<(&'static str, String)> {
    let json = |value: &serde_json::Value| serde_json::to_string_pretty(value).unwrap_or_default();
    let host = serde_json::to_value(&manifest.host).unwrap_or_default();
    vec![
        ("Command", command_line(&manifest.command_line)),
        ("Version", manifest.build.version.clone()),
        ("Commit", manifest.build.commit_text()),
        ("Sources", manifest.build.sources.clone()),
        ("Seed", manifest.seed.to_string()),
        ("Started", manifest.started.clone()),
        ("Took", seconds(manifest.wall_s)),
        ("Host", json(&host)),
        ("Settings", json(&manifest.settings)),
    ]
}
