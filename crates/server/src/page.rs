//! Live page of a run, and page of a report about runs, as one file: `page/body.html` in the common frame, with its
//! style sheet and scripts.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, PreEscaped, html};
use report::html::frame;
use sha2::{Digest, Sha256};

const BODY: &str = include_str!("../page/body.html");
const STYLE: &str = include_str!("../page/page.css");

/// Scripts in the order in which they are concatenated.
const SCRIPTS: &[&str] = &[
    include_str!("../page/text.js"),
    include_str!("../page/columns.js"),
    include_str!("../page/event-text.js"),
    include_str!("../page/event-source.js"),
    include_str!("../page/scale.js"),
    include_str!("../page/view.js"),
    include_str!("../page/chart.js"),
    include_str!("../page/chart-interaction.js"),
    include_str!("../page/chart-export.js"),
    include_str!("../page/report-charts.js"),
    include_str!("../page/plots.js"),
    include_str!("../page/timeline.js"),
    include_str!("../page/event-list.js"),
    include_str!("../page/overlay.js"),
    include_str!("../page/pipeline-diagram.js"),
    include_str!("../page/ranks.js"),
    include_str!("../page/rows.js"),
    include_str!("../page/configuration.js"),
    include_str!("../page/controls.js"),
    include_str!("../page/prepared.js"),
    include_str!("../page/header.js"),
    include_str!("../page/page.js"),
];

/// Live page and its content security policy.
pub(crate) struct LivePage {
    pub(crate) html: String,
    pub(crate) policy: String,
}

/// Live page of a run.
pub(crate) static LIVE: LazyLock<LivePage> = LazyLock::new(|| {
    // Only the compiled-in scripts run, and data is fetched only from this server, also if a text is injected into the
    // page.
    let policy = format!(
        "default-src 'none'; script-src {}; style-src {}; connect-src 'self'; img-src data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
        hash(&SCRIPTS.concat()),
        hash(STYLE)
    );
    LivePage { html: whole(&html! {}), policy }
});

/// Returns the page of a report with the data `json`.
pub(crate) fn of_report(json: &str) -> String {
    // HTML decodes no entities in a script element, so characters that could end it are escaped in JSON.
    let json =
        json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026").replace('\u{2028}', "\\u2028");
    whole(&html! { script type="application/json" id="report" { (PreEscaped(json)) } })
}

fn whole(report: &Markup) -> String {
    let body = html! { (report) (PreEscaped(BODY)) script { (PreEscaped(SCRIPTS.concat())) } };
    frame("cloze", STYLE, None, &body).into_string()
}

/// Returns the hash source of a script or style element for the policy.
fn hash(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the text between the tags of an element.
    fn inside<'a>(page: &'a str, open: &str, close: &str) -> &'a str {
        let (_, rest) = page.split_once(open).unwrap_or_else(|| panic!("no {open}"));
        rest.split_once(close).map_or_else(|| panic!("no {close}"), |(inside, _)| inside)
    }

    #[test]
    fn the_policy_allows_the_content_of_the_page() {
        let LivePage { html, policy } = &*LIVE;
        for (open, close) in [("<style>", "</style>"), ("<script>", "</script>")] {
            assert!(policy.contains(&hash(inside(html, open, close))), "{open}");
        }
    }

    /// `make keys` regenerates the file.
    #[test]
    fn generated_charts_script_is_current() {
        let generated = format!(
            "// Written by `make keys` from crates/telemetry/src/report_metrics.rs. Do not edit.\n\nconst REPORT_CHARTS = {};\n",
            telemetry::report_metrics::charts_json()
        );
        let page =
            store::Store::existing(concat!(env!("CARGO_MANIFEST_DIR"), "/page")).expect("the folder of the page");
        if std::env::var_os("UPDATE").is_some() {
            page.put("report-charts.js", generated.as_bytes()).expect("the source tree is writable");
        }
        let present = page.get("report-charts.js").expect("a generated file");
        let present = String::from_utf8_lossy(&present);
        assert_eq!(present, generated, "run `make keys`");
    }

    #[test]
    fn the_page_loads_nothing_from_other_hosts() {
        for part in [BODY, STYLE].into_iter().chain(SCRIPTS.iter().copied()) {
            for foreign in ["src=\"http", "href=\"http", "url(http", "@import", "innerHTML", "eval(", " onclick="] {
                assert!(!part.contains(foreign), "{foreign}");
            }
        }
    }

    #[test]
    fn a_text_cannot_end_its_element() {
        let hostile = serde_json::to_string("</script><img src=x onerror=alert(1)>\u{2028}<!--").expect("a text");
        let page = of_report(&hostile);
        let inside = inside(&page, "id=\"report\">", "</script>");
        assert!(!inside.contains(['<', '>']), "{inside}");
        let read: String = serde_json::from_str(inside).expect("still JSON");
        assert_eq!(read, "</script><img src=x onerror=alert(1)>\u{2028}<!--");
    }
}
