//! The tables as data: cells, sort order, and columns that fit into a terminal.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use gantry_core::stats::Event;

use super::guests::Guest;
use super::model::{Activity, NOTABLE, Process, Work};
use crate::table::Table;
use crate::units::duration;

/// A column of a table with rows of type `T`.
pub(super) struct Column<T: 'static> {
    pub(super) title: &'static str,
    /// Least and most characters.
    width: (u16, u16),
    /// The column with the highest rank is left out first.
    rank: u8,
    pub(super) cell: fn(&T) -> String,
    /// True if the cells are aligned to the right, as numbers are.
    pub(super) right: bool,
    pub(super) sort: Option<Sort<T>>,
}

/// Sorting by a column: the key to press, and the order, most interesting first.
pub(super) type Sort<T> = (char, fn(&T, &T) -> Ordering);

/// Characters between two columns.
pub(super) const GAP: u16 = 2;

/// The width of a column that uses all remaining room.
const REST: u16 = u16::MAX;

pub(super) const PROCESSES: &[Column<Process>] = &[
    by('p', |a, b| a.pid.cmp(&b.pid), number("PID", 7, 0, |p| p.pid.to_string())),
    by('n', |a, b| b.family.cmp(&a.family), number("PROCS", 5, 9, |p| p.family.to_string())),
    by('u', |a, b| a.user.cmp(&b.user), words("USER", (8, 12), 8, |p| p.user.clone())),
    by('c', |a, b| a.program.cmp(&b.program), words("PROGRAM", (10, 24), 1, |p| p.program.clone())),
    by('r', |a, b| more(a, b, |p| Some(of(p).requests_per_s)), number("REQ/S", 8, 2, |p| rate(of(p).requests_per_s))),
    by('m', |a, b| more(a, b, |p| Some(of(p).bytes_per_s)), number("MB/S", 7, 4, |p| rate(of(p).bytes_per_s / 1e6))),
    by('h', |a, b| more(a, b, |p| p.summary.host), number("HOST", 5, 6, |p| percent(p.summary.host))),
    by('d', |a, b| more(a, b, |p| p.summary.devices), number("DEVICES", 7, 7, |p| percent(p.summary.devices))),
    by('l', |a, b| of(b).quantile(990).cmp(&of(a).quantile(990)), number("P99", 7, 5, |p| time(of(p), 990))),
    by('e', worse, words("EVENTS", (12, REST), 3, alarms)),
];

/// Columns of the work of one process, or of all processes; the most work is first.
pub(super) const WORK: &[Column<Work>] = &[
    words("DEVICE", (8, 12), 2, |w| w.device.clone().unwrap_or_else(|| "-".to_owned())),
    words("ALGORITHM", (14, 24), 0, |w| w.algorithm.clone()),
    words("OPERATION", (9, 9), 6, |w| w.operation.clone()),
    number("REQ/S", 8, 1, |w| rate(w.activity.requests_per_s)),
    number("MB/S", 7, 3, |w| rate(w.activity.bytes_per_s / 1e6)),
    number("SHARE", 5, 5, |w| percent(w.share)),
    number("P50", 7, 8, |w| time(&w.activity, 500)),
    number("P99", 7, 4, |w| time(&w.activity, 990)),
    number("QUEUED", 6, 10, |w| rate(w.activity.queued)),
    number("BUSY", 6, 9, |w| rate(w.activity.busy)),
    words("EVENTS", (10, REST), 7, |w| happened(&w.activity.events)),
];

/// Columns of the guests of servers.
pub(super) const GUESTS: &[Column<Guest>] = &[
    words("GUEST", (8, 24), 0, |g| g.name.clone()),
    number("REQ/S", 8, 1, |g| rate(g.requests_per_s)),
    number("MB/S", 7, 2, |g| rate(g.bytes_per_s / 1e6)),
    number("BURST", 6, 4, |g| g.burst.map_or_else(|| "-".to_owned(), rate)),
    number("SESSIONS", 8, 3, |g| g.sessions.to_string()),
    number("REFUSED", 7, 5, |g| g.refused.to_string()),
    number("BROKEN", 6, 6, |g| g.broken.to_string()),
];

pub(super) const fn words<T>(title: &'static str, width: (u16, u16), rank: u8, cell: fn(&T) -> String) -> Column<T> {
    Column { title, width, rank, cell, right: false, sort: None }
}

pub(super) const fn number<T>(title: &'static str, width: u16, rank: u8, cell: fn(&T) -> String) -> Column<T> {
    Column { title, width: (width, width), rank, cell, right: true, sort: None }
}

/// Makes a column that processes can be sorted by.
#[allow(clippy::needless_pass_by_value, reason = "a constant is made of it")]
const fn by<T>(key: char, order: fn(&T, &T) -> Ordering, column: Column<T>) -> Column<T> {
    Column { sort: Some((key, order)), ..column }
}

/// Returns the columns that fit into `width` characters, in order, with their widths.
pub(super) fn fit<T>(columns: &'static [Column<T>], width: u16) -> Vec<(&'static Column<T>, u16)> {
    let ranked = |rank| columns.iter().position(|column| usize::from(column.rank) == rank);
    let by_rank = || (0..columns.len()).filter_map(ranked);
    let mut widths = vec![0; columns.len()];
    let mut left = width;
    for column in by_rank() {
        // Show the first column in any case, cut if necessary.
        let gap = if left == width { 0 } else { GAP };
        let needed = columns[column].width.0 + gap;
        if needed > left && gap > 0 {
            break;
        }
        left = left.saturating_sub(needed);
        widths[column] = columns[column].width.0;
    }
    // Give the remaining room to the same columns in the same order.
    for column in by_rank().filter(|column| widths[*column] > 0).collect::<Vec<_>>() {
        let more = left.min(columns[column].width.1 - widths[column]);
        left -= more;
        widths[column] += more;
    }
    columns.iter().zip(widths).filter(|(_, width)| *width > 0).collect()
}

/// Formats a table as text, at most `width` wide.
pub(super) fn text<'a, T>(
    columns: &'static [Column<T>],
    rows: impl IntoIterator<Item = &'a T>,
    width: Option<u16>,
) -> String {
    let columns = fit(columns, width.unwrap_or(REST));
    let titles: Vec<&str> = columns.iter().map(|(column, _)| column.title).collect();
    let right: Vec<usize> = (0..columns.len()).filter(|index| columns[*index].0.right).collect();
    let mut table = Table::new(&titles, &right);
    for row in rows {
        let cell = |(column, width): &(&Column<T>, u16)| {
            let cell = (column.cell)(row);
            cell.chars().take(usize::from(*width)).collect()
        };
        table.row(columns.iter().map(cell));
    }
    table.render()
}

fn of(process: &Process) -> &Activity {
    &process.summary.activity
}

/// Orders larger numbers first, and missing ones last.
fn more<T>(a: &T, b: &T, number: fn(&T) -> Option<f64>) -> Ordering {
    let [a, b] = [a, b].map(|of| number(of).unwrap_or(f64::NEG_INFINITY));
    b.total_cmp(&a)
}

/// Formats a number, with one decimal if it is small.
pub(super) fn rate(number: f64) -> String {
    let places = usize::from(number != 0.0 && number < 99.95);
    format!("{number:.places$}")
}

fn percent(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{:.0} %", ratio * 100.0))
}

#[allow(clippy::cast_precision_loss, reason = "a time for people")]
fn time(activity: &Activity, per_mille: u64) -> String {
    activity.quantile(per_mille).map_or_else(|| "-".to_owned(), |ns| duration(ns as f64))
}

/// Formats the events that need attention.
fn alarms(process: &Process) -> String {
    let out = process.summary.quarantined.iter().map(|device| format!("{device} in quarantine"));
    // A device that is still in quarantine has been named already.
    let is_listed = |event: &Event| *event == Event::Quarantined && !process.summary.quarantined.is_empty();
    let notable = NOTABLE.iter().filter(|event| !is_listed(event)).map(|event| (event, of(process).times(*event)));
    out.chain(notable.filter(|(_, times)| *times > 0).map(|(event, times)| format!("{} {times}", event.code())))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Orders the most severe event first, and then the most frequent.
fn worse(a: &Process, b: &Process) -> Ordering {
    let place = |process: &Process| process.summary.worst_event().unwrap_or(NOTABLE.len());
    let times = |process: &Process| NOTABLE.get(place(process)).map_or(0, |event| of(process).times(*event));
    place(a).cmp(&place(b)).then_with(|| times(b).cmp(&times(a)))
}

/// Formats all events, notable ones first.
fn happened(events: &BTreeMap<String, u64>) -> String {
    let is_notable = |event: &str| NOTABLE.iter().any(|notable| notable.code() == event);
    let of_kind = |notable| events.iter().filter(move |(event, _)| is_notable(event) == notable);
    let texts = of_kind(true).chain(of_kind(false)).map(|(event, times)| format!("{event} {times}"));
    texts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::model::tests::{process, row};
    use super::*;

    fn titles(width: u16) -> String {
        let titles: Vec<&str> = fit(PROCESSES, width).iter().map(|(column, _)| column.title).collect();
        titles.join(" ")
    }

    #[test]
    fn columns_are_left_out_by_rank_and_the_others_fit() {
        assert_eq!(titles(1), "PID");
        assert_eq!(titles(40), "PID PROGRAM REQ/S");
        assert_eq!(titles(80), "PID PROGRAM REQ/S MB/S HOST DEVICES P99 EVENTS");
        assert_eq!(titles(120), "PID PROCS USER PROGRAM REQ/S MB/S HOST DEVICES P99 EVENTS");
        for width in 7..300 {
            let columns = fit(PROCESSES, width);
            let gaps = GAP * (u16::try_from(columns.len()).unwrap() - 1);
            let all: u16 = columns.iter().map(|(_, width)| width).sum::<u16>() + gaps;
            assert!(all <= width, "{all} of {width}");
        }
    }

    #[test]
    fn every_column_has_a_rank_of_its_own() {
        for ranks in [
            PROCESSES.iter().map(|c| c.rank).collect::<Vec<_>>(),
            WORK.iter().map(|c| c.rank).collect(),
            GUESTS.iter().map(|c| c.rank).collect(),
        ] {
            assert!((0..ranks.len()).all(|rank| ranks.iter().any(|other| usize::from(*other) == rank)), "{ranks:?}");
        }
    }

    #[test]
    fn every_key_sorts_by_one_column() {
        let mut keys: Vec<char> = PROCESSES.iter().map(|column| column.sort.unwrap().0).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), PROCESSES.len());
        assert!(!keys.contains(&'q') && !keys.contains(&'a'), "q and a have other meanings");
    }

    #[test]
    fn text_has_every_column_and_fits_a_terminal() {
        let rows = [process(17, "a-program-with-a-very-long-name", [row("lanes", "sha256", 12, &[("full", 3)])])];
        let wide = "    PID";
        let text_of = |width| text(PROCESSES, &rows, width);
        assert_eq!(
            text_of(None),
            "PID  PROCS  USER   PROGRAM                   REQ/S  MB/S  HOST  DEVICES      P99  EVENTS\n \
             17      1  alice  a-program-with-a-very-lo   12.0   0.0   0 %    100 %  2.00 us  full 3\n"
        );
        assert!(!text_of(Some(40)).contains(wide));
        assert!(text_of(Some(40)).lines().all(|line| line.chars().count() <= 40));
    }

    #[test]
    fn the_worst_comes_first() {
        let mut rows = [
            process(1, "full", [row("lanes", "sha256", 1, &[("full", 9)])]),
            process(2, "well", [row("lanes", "sha256", 1, &[])]),
            process(3, "out", [row("lanes", "sha256", 1, &[("quarantined", 1)])]),
            process(4, "fault", [row("lanes", "sha256", 1, &[("fault", 1), ("full", 1)])]),
            process(5, "faults", [row("lanes", "sha256", 1, &[("fault", 2)])]),
        ];
        rows.sort_by(worse);
        assert_eq!(
            rows.map(|process| alarms(&process)),
            ["lanes in quarantine", "fault 2", "fault 1, full 1", "full 9", ""]
        );
    }
}
