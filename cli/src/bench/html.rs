//! The report as a page that needs nothing else: no script, no font, no other file.

use std::fmt::Write;

use super::score::{Bench, PartScore, percent, short};
use crate::plot::bars::{self, Bar, Group};
use crate::plot::escape;
use crate::units::duration;

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;background:#fff;color:#24292f}\
table{border-collapse:collapse;margin:1rem 0}\
th,td{padding:.25rem .75rem;text-align:right;border-bottom:1px solid #80889060}\
th:first-child,td:first-child,td.t{text-align:left}\
.doubt{border-left:4px solid #d55e00;padding-left:.75rem}\
svg{max-width:100%;height:auto}\
@media(prefers-color-scheme:dark){body{background:#16191d;color:#d0d7de}}";

pub(super) fn page(bench: &Bench) -> String {
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width\"/>\n<title>gantry bench</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <h1>gantry bench</h1>\n"
    );
    // Writing to a string does not fail.
    let _ = write(&mut page, bench);
    page + "</body>\n</html>\n"
}

fn write(page: &mut String, bench: &Bench) -> std::fmt::Result {
    let class = if bench.trusted { "" } else { " class=\"doubt\"" };
    writeln!(page, "<p{class}>{}</p>", escape(&bench.verdict()))?;
    let [cpu, gantry] = bench.machine.lines();
    let mut lines = vec![cpu, gantry, format!("{} s, policy {}", bench.seconds, bench.policy)];
    lines.extend(bench.about_baseline());
    let lines: Vec<String> = lines.iter().map(|line| escape(line)).collect();
    writeln!(page, "<p>{}</p>", lines.join("<br/>\n"))?;

    let compared = bench.baseline.is_some();
    let more = if compared { "<th>Before</th><th>Change</th>" } else { "" };
    writeln!(
        page,
        "<h2>Scores</h2>\n<table>\n<tr><th>Use</th><th>Score</th><th></th><th>Noise</th><th>Software alone</th><th>Ratio</th>{more}</tr>"
    )?;
    for score in &bench.scores {
        let change = match &score.change {
            Some(change) if change.differs => {
                format!("<td>{}</td><td>{:.2}x</td>", short(change.baseline), change.ratio)
            }
            Some(change) => format!("<td>{}</td><td>same</td>", short(change.baseline)),
            None if compared => "<td>-</td><td>-</td>".to_owned(),
            None => String::new(),
        };
        writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td class=\"t\">{}</td><td>{}</td><td>{}</td><td>{:.2}x</td>{change}</tr>",
            score.title,
            short(score.score),
            score.unit,
            percent(score.noise),
            short(score.software),
            score.ratio
        )?;
    }
    writeln!(page, "</table>\n{}", scores(bench))?;

    writeln!(page, "<h2>What the scores are</h2>\n<p>Per core, by CPU time, for one thread.</p>\n<ul>")?;
    for score in &bench.scores {
        writeln!(page, "<li><b>{}</b>: {}.</li>", score.title, escape(score.formula))?;
    }
    writeln!(
        page,
        "</ul>\n<h2>What they are made of</h2>\n<table>\n<tr><th>Request</th><th>Bytes</th><th>At a time</th><th>Time</th><th>Software alone</th><th>Rounds</th><th>Spread</th></tr>"
    )?;
    for part in parts(bench) {
        writeln!(
            page,
            "<tr><td>{} {}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            part.algorithm,
            part.operation,
            part.bytes,
            part.batch,
            duration(part.ns),
            duration(part.software_ns),
            part.rounds,
            percent(part.spread)
        )?;
    }
    writeln!(page, "</table>\n{}", requests(bench))
}

/// Each part once.
fn parts(bench: &Bench) -> Vec<&PartScore> {
    let key = |part: &PartScore| (part.algorithm, part.operation, part.bytes, part.batch);
    let mut parts: Vec<&PartScore> = Vec::new();
    for part in bench.scores.iter().flat_map(|score| &score.parts) {
        if !parts.iter().any(|known| key(known) == key(part)) {
            parts.push(part);
        }
    }
    parts
}

fn scores(bench: &Bench) -> String {
    let group = |score: &super::score::Score| {
        let bar =
            |name: &'static str, value: f64| Bar { name, value, text: format!("{} {}", short(value), score.unit) };
        let mut bars = vec![bar("gantry", score.score), bar("software alone", score.software)];
        bars.extend(score.change.map(|change| bar("before", change.baseline)));
        Group { name: score.title.to_owned(), bars }
    };
    bars::draw("Scores", &bench.scores.iter().map(group).collect::<Vec<_>>(), &bench.machine)
}

fn requests(bench: &Bench) -> String {
    let group = |part: &&PartScore| {
        let bar = |name, ns: f64| Bar { name, value: 1.0 / ns.max(f64::MIN_POSITIVE), text: duration(ns) };
        Group {
            name: format!("{} {}", part.algorithm, part.operation),
            bars: vec![bar("gantry", part.ns), bar("software alone", part.software_ns)],
        }
    };
    bars::draw(
        "Time for a request: longer bars are faster",
        &parts(bench).iter().map(group).collect::<Vec<_>>(),
        &bench.machine,
    )
}
