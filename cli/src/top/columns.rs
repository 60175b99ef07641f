//! The tables as data: cells, sort order, and columns that fit into a terminal.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use gantry_core::stats::Event;

use super::guests::Guest;
use super::model::{Activity, NOTABLE_EVENTS, Process, Work};
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
    pub(super) right_aligned: bool,
    pub(super) sort: Option<Sort<T>>,
}

/// Sorting by a column: the key to press, and the order, most interesting first.
pub(super) type Sort<T> = (char, fn(&T, &T) -> Ordering);

/// Characters between two columns.
pub(super) const COLUMN_GAP: u16 = 2;

/// The width of a column that uses all remaining room.
const UNBOUNDED_WIDTH: u16 = u16::MAX;

pub(super) const PROCESSES: &[Column<Process>] = &[
    sortable_by('p', |a, b| a.pid.cmp(&b.pid), number_column("PID", 7, 0, |p| p.pid.to_string())),
    sortable_by(
        'n',
        |a, b| b.process_count.cmp(&a.process_count),
        number_column("PROCS", 5, 9, |p| p.process_count.to_string()),
    ),
    sortable_by('u', |a, b| a.user.cmp(&b.user), text_column("USER", (8, 12), 8, |p| p.user.clone())),
    sortable_by('c', |a, b| a.program.cmp(&b.program), text_column("PROGRAM", (10, 24), 1, |p| p.program.clone())),
    sortable_by(
        'r',
        |a, b| larger_first(a, b, |p| Some(activity_of(p).requests_per_s)),
        number_column("REQ/S", 8, 2, |p| rate(activity_of(p).requests_per_s)),
    ),
    sortable_by(
        'm',
        |a, b| larger_first(a, b, |p| Some(activity_of(p).bytes_per_s)),
        number_column("MB/S", 7, 4, |p| rate(activity_of(p).bytes_per_s / 1e6)),
    ),
    sortable_by(
        'h',
        |a, b| larger_first(a, b, |p| p.summary.host),
        number_column("HOST", 5, 6, |p| percent(p.summary.host)),
    ),
    sortable_by(
        'd',
        |a, b| larger_first(a, b, |p| p.summary.devices),
        number_column("DEVICES", 7, 7, |p| percent(p.summary.devices)),
    ),
    sortable_by(
        'l',
        |a, b| activity_of(b).quantile(990).cmp(&activity_of(a).quantile(990)),
        number_column("P99", 7, 5, |p| time(activity_of(p), 990)),
    ),
    sortable_by('e', worse_first, text_column("EVENTS", (12, UNBOUNDED_WIDTH), 3, notable_events)),
];

/// Columns of the work of one process, or of all processes; the most work is first.
pub(super) const WORK: &[Column<Work>] = &[
    text_column("DEVICE", (8, 12), 2, |w| w.device.clone().unwrap_or_else(|| "-".to_owned())),
    text_column("ALGORITHM", (14, 24), 0, |w| w.algorithm.clone()),
    text_column("OPERATION", (9, 11), 6, |w| w.operation.clone()),
    number_column("REQ/S", 8, 1, |w| rate(w.activity.requests_per_s)),
    number_column("MB/S", 7, 3, |w| rate(w.activity.bytes_per_s / 1e6)),
    number_column("SHARE", 5, 5, |w| percent(w.share)),
    number_column("P50", 7, 8, |w| time(&w.activity, 500)),
    number_column("P99", 7, 4, |w| time(&w.activity, 990)),
    number_column("QUEUED", 6, 10, |w| rate(w.activity.queued)),
    number_column("BUSY", 6, 9, |w| rate(w.activity.busy)),
    text_column("EVENTS", (10, UNBOUNDED_WIDTH), 7, |w| all_events(&w.activity.events)),
];

/// Columns of the guests of servers.
pub(super) const GUESTS: &[Column<Guest>] = &[
    text_column("GUEST", (8, 24), 0, |g| g.name.clone()),
    number_column("REQ/S", 8, 1, |g| rate(g.requests_per_s)),
    number_column("MB/S", 7, 2, |g| rate(g.bytes_per_s / 1e6)),
    number_column("BURST", 6, 4, |g| g.burst.map_or_else(|| "-".to_owned(), rate)),
    number_column("SESSIONS", 8, 3, |g| g.sessions.to_string()),
    number_column("REFUSED", 7, 5, |g| g.refused.to_string()),
    number_column("BROKEN", 6, 6, |g| g.broken.to_string()),
];

pub(super) const fn text_column<T>(
    title: &'static str,
    width: (u16, u16),
    rank: u8,
    cell: fn(&T) -> String,
) -> Column<T> {
    Column { title, width, rank, cell, right_aligned: false, sort: None }
}

pub(super) const fn number_column<T>(title: &'static str, width: u16, rank: u8, cell: fn(&T) -> String) -> Column<T> {
    Column { title, width: (width, width), rank, cell, right_aligned: true, sort: None }
}

/// Makes a column by which processes can be sorted.
#[allow(clippy::needless_pass_by_value, reason = "a constant is made of it")]
const fn sortable_by<T>(key: char, order: fn(&T, &T) -> Ordering, column: Column<T>) -> Column<T> {
    Column { sort: Some((key, order)), ..column }
}

/// Returns the columns that fit into `width` characters, in order, with their widths.
pub(super) fn fitting_columns<T>(columns: &'static [Column<T>], width: u16) -> Vec<(&'static Column<T>, u16)> {
    let ranked = |rank| columns.iter().position(|column| usize::from(column.rank) == rank);
    let by_rank = || (0..columns.len()).filter_map(ranked);
    let mut widths = vec![0; columns.len()];
    let mut left = width;
    for column in by_rank() {
        // Show the first column in any case, cut if necessary.
        let gap = if left == width { 0 } else { COLUMN_GAP };
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
pub(super) fn render_table<'a, T>(
    columns: &'static [Column<T>],
    rows: impl IntoIterator<Item = &'a T>,
    width: Option<u16>,
) -> String {
    let columns = fitting_columns(columns, width.unwrap_or(UNBOUNDED_WIDTH));
    let titles: Vec<&str> = columns.iter().map(|(column, _)| column.title).collect();
    let right_aligned: Vec<usize> = (0..columns.len()).filter(|index| columns[*index].0.right_aligned).collect();
    let mut table = Table::new(&titles, &right_aligned);
    for row in rows {
        let cell = |(column, width): &(&Column<T>, u16)| {
            let cell = (column.cell)(row);
            cell.chars().take(usize::from(*width)).collect()
        };
        table.add_row(columns.iter().map(cell));
    }
    table.render()
}

fn activity_of(process: &Process) -> &Activity {
    &process.summary.activity
}

/// Orders larger numbers first, and missing ones last.
fn larger_first<T>(a: &T, b: &T, value: fn(&T) -> Option<f64>) -> Ordering {
    let [a, b] = [a, b].map(|of| value(of).unwrap_or(f64::NEG_INFINITY));
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
fn notable_events(process: &Process) -> String {
    let out = process.summary.quarantined.iter().map(|device| format!("{device} in quarantine"));
    // A device that is still in quarantine has been named already.
    let is_listed = |event: &Event| *event == Event::Quarantined && !process.summary.quarantined.is_empty();
    let notable = NOTABLE_EVENTS
        .iter()
        .filter(|event| !is_listed(event))
        .map(|event| (event, activity_of(process).event_count(*event)));
    out.chain(notable.filter(|(_, times)| *times > 0).map(|(event, times)| format!("{} {times}", event.code())))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Orders the most severe event first, and then the most frequent.
fn worse_first(a: &Process, b: &Process) -> Ordering {
    let severity = |process: &Process| process.summary.worst_event().unwrap_or(NOTABLE_EVENTS.len());
    let times = |process: &Process| {
        NOTABLE_EVENTS.get(severity(process)).map_or(0, |event| activity_of(process).event_count(*event))
    };
    severity(a).cmp(&severity(b)).then_with(|| times(b).cmp(&times(a)))
}

/// Formats all events, notable ones first.
fn all_events(events: &BTreeMap<String, u64>) -> String {
    let is_notable = |event: &str| NOTABLE_EVENTS.iter().any(|notable| notable.code() == event);
    let of_kind = |notable| events.iter().filter(move |(event, _)| is_notable(event) == notable);
    let texts = of_kind(true).chain(of_kind(false)).map(|(event, times)| format!("{event} {times}"));
    texts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::model::tests::{process, row};
    use super::*;

    fn titles(width: u16) -> String {
        let titles: Vec<&str> = fitting_columns(PROCESSES, width).iter().map(|(column, _)| column.title).collect();
        titles.join(" ")
    }

    #[test]
    fn columns_are_left_out_by_rank_and_the_others_fit() {
        assert_eq!(titles(1), "PID");
        assert_eq!(titles(40), "PID PROGRAM REQ/S");
        assert_eq!(titles(80), "PID PROGRAM REQ/S MB/S HOST DEVICES P99 EVENTS");
        assert_eq!(titles(120), "PID PROCS USER PROGRAM REQ/S MB/S HOST DEVICES P99 EVENTS");
        for width in 7..300 {
            let columns = fitting_columns(PROCESSES, width);
            let gaps = COLUMN_GAP * (u16::try_from(columns.len()).unwrap() - 1);
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
        let text_of = |width| render_table(PROCESSES, &rows, width);
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
        rows.sort_by(worse_first);
        assert_eq!(
            rows.map(|process| notable_events(&process)),
            ["lanes in quarantine", "fault 2", "fault 1, full 1", "full 9", ""]
        );
    }
}
