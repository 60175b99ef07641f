//! Draws a line with totals, the processes, their work, and a line about keys.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use super::columns::{COLUMN_GAP, Column, GUESTS, PROCESSES, WORK, fitting_columns, rate};
use super::model::{Activity, NOTABLE_EVENTS, Process};
use super::state::{KEY_HELP, State};

/// Draws everything into `area`.
pub(super) fn draw(state: &State, colours: bool, area: Rect, buffer: &mut Buffer) {
    let mut lines = Lines { area, next: 0, colours, buffer };
    lines.print(&header_line(state), BOLD);
    let summary = state.shown_process().map_or(state.totals(), |process| &process.summary);
    // Each table gets the height that it needs. If the two tables do not fit, the lower one gets two fifths.
    let room = area.height.saturating_sub(2);
    let upper = to_u16(state.processes().len().max(1)).saturating_add(1);
    let guests = if summary.guests.is_empty() { 0 } else { summary.guests.len() + 1 };
    let lower = to_u16(if state.shows_help { KEY_HELP.len() + 4 } else { summary.work.len() + 3 + guests });
    let lower = lower.min((room * 2 / 5).max(room.saturating_sub(upper)));
    print_processes(state, &mut lines, upper.min(room - lower));
    lines.print("", Style::new());
    if state.shows_help {
        print_help(&mut lines);
    } else {
        let title = state
            .shown_process()
            .map_or_else(|| "total".to_owned(), |process| format!("{} ({})", process.program, process.pid));
        lines.print(&title, BOLD);
        lines.print_titles(WORK, None);
        for work in &summary.work {
            lines.print_row(WORK, work, lines.style(work.activity.worst_event()));
        }
        if !summary.guests.is_empty() {
            lines.print_titles(GUESTS, None);
            for guest in &summary.guests {
                lines.print_row(GUESTS, guest, Style::new());
            }
        }
    }
    lines.print_last(if state.note.is_empty() { "q quit  ? keys" } else { state.note });
}

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const TITLE: Style = Style::new().add_modifier(Modifier::UNDERLINED);

/// Formats the first line.
fn header_line(state: &State) -> String {
    let Activity { requests_per_s, bytes_per_s, .. } = state.totals().activity;
    let every = format!("every {} s", state.interval().as_secs_f64());
    let pace = if state.is_paused { "paused" } else { &every };
    format!(
        "gantry top: {} req/s, {} MB/s, by {}, {pace}",
        rate(requests_per_s),
        rate(bytes_per_s / 1e6),
        PROCESSES[state.sort_column()].title,
    )
}

/// Draws the upper table in `height` lines, around the selected process.
fn print_processes(state: &State, lines: &mut Lines<'_>, height: u16) {
    if state.processes().is_empty() {
        return lines.print("No process uses Gantry now.", Style::new());
    }
    lines.print_titles(PROCESSES, Some(state.sort_column()));
    let room = usize::from(height.saturating_sub(1));
    let first = (state.selected() + 1).saturating_sub(room);
    for (index, process) in state.processes().iter().enumerate().skip(first).take(room) {
        let style = lines.style(process.summary.worst_event());
        let selected = if index == state.selected() { Modifier::REVERSED } else { Modifier::empty() };
        lines.print_row(PROCESSES, process, style.add_modifier(selected));
    }
}

fn print_help(lines: &mut Lines<'_>) {
    for (keys, what) in KEY_HELP {
        lines.print(&format!("{keys:<11}{what}"), Style::new());
    }
    let sorts = |column: &Column<Process>| column.sort.map(|(key, _)| format!("{key} {}", column.title));
    for letters in PROCESSES.iter().filter_map(sorts).collect::<Vec<_>>().chunks(4) {
        lines.print(&letters.join(", "), Style::new());
    }
}

/// The lines of the screen, filled from the top. Longer content is cut.
struct Lines<'a> {
    area: Rect,
    next: u16,
    colours: bool,
    buffer: &'a mut Buffer,
}

impl Lines<'_> {
    /// Returns the style of a row: red for errors, yellow for full rings.
    fn style(&self, worst_event: Option<usize>) -> Style {
        match worst_event.filter(|_| self.colours) {
            None => Style::new(),
            Some(index) if index + 1 == NOTABLE_EVENTS.len() => Style::new().fg(Color::Yellow),
            Some(_) => Style::new().fg(Color::Red),
        }
    }

    fn print(&mut self, text: &str, style: Style) {
        // The last line is reserved.
        if self.next + 1 < self.area.height {
            let y = self.area.y + self.next;
            self.buffer.set_stringn(self.area.x, y, text, self.area.width.into(), style);
            self.next += 1;
        }
    }

    fn print_last(&mut self, text: &str) {
        if let Some(last) = self.area.height.checked_sub(1) {
            self.buffer.set_stringn(self.area.x, self.area.y + last, text, self.area.width.into(), Style::new());
        }
    }

    /// Draws the titles of the columns, and marks the sorted one.
    fn print_titles<T>(&mut self, columns: &'static [Column<T>], sort: Option<usize>) {
        let sorting = sort.map(|sort| columns[sort].title);
        let style = |column: &Column<T>| {
            if sorting == Some(column.title) { TITLE.add_modifier(Modifier::BOLD) } else { TITLE }
        };
        self.print_cells(columns, |column| (column.title.to_owned(), style(column)), Style::new());
    }

    fn print_row<T>(&mut self, columns: &'static [Column<T>], of: &T, style: Style) {
        self.print_cells(columns, |column| ((column.cell)(of), style), style);
    }

    fn print_cells<T>(
        &mut self,
        columns: &'static [Column<T>],
        cell: impl Fn(&Column<T>) -> (String, Style),
        line: Style,
    ) {
        if self.next + 1 >= self.area.height {
            return;
        }
        let y = self.area.y + self.next;
        self.buffer.set_style(Rect { y, height: 1, ..self.area }, line);
        let mut x = 0;
        for (column, width) in fitting_columns(columns, self.area.width) {
            let (text, style) = cell(column);
            let width = width.min(self.area.width.saturating_sub(x));
            let indent = if column.right_aligned { width.saturating_sub(to_u16(text.chars().count())) } else { 0 };
            self.buffer.set_stringn(self.area.x + x + indent, y, text, (width - indent).into(), style);
            x = (x + width + COLUMN_GAP).min(self.area.width);
        }
        self.next += 1;
    }
}

fn to_u16(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::keys::Key;
    use super::super::model::Sample;
    use super::super::model::tests::{process, row};
    use super::*;

    fn drawn(state: &State, colours: bool, width: u16, height: u16) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(state, colours, frame.area(), frame.buffer_mut())).unwrap();
        terminal.backend().buffer().clone()
    }

    /// Returns the lines without trailing spaces.
    fn lines(state: &State, width: u16, height: u16) -> Vec<String> {
        let buffer = drawn(state, true, width, height);
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(line).collect()
    }

    fn example_state() -> State {
        let rows = [row("lanes", "sha256", 1200, &[]), row("host", "aes-128-cbc-hmac-sha256", 400, &[])];
        let processes = vec![
            process(1730, "nginx", rows),
            process(19211, "gantry", [row("lanes", "sha256", 2000, &[("full", 3), ("copied", 10)])]),
            process(4_000_000, "a-program-with-a-very-long-name", [row("dpdk", "sha512", 7, &[("quarantined", 1)])]),
        ];
        State::new(Sample::new(processes), 1.0, "")
    }

    #[test]
    fn forty_columns_are_readable() {
        assert_eq!(
            lines(&example_state(), 40, 13),
            [
                "gantry top: 3607 req/s, 3.6 MB/s, by REQ",
                "    PID  PROGRAM                   REQ/S",
                "  19211  gantry                     2000",
                "   1730  nginx                      1600",
                "4000000  a-program-with-a-very       7.0",
                "",
                "total",
                "DEVICE    ALGORITHM                REQ/S",
                "lanes     sha256                    3200",
                "host      aes-128-cbc-hmac-sha       400",
                "dpdk      sha512                     7.0",
                "",
                "q quit  ? keys",
            ]
        );
    }

    #[test]
    fn eighty_columns_show_devices_rates_and_events() {
        assert_eq!(
            lines(&example_state(), 80, 12),
            [
                "gantry top: 3607 req/s, 3.6 MB/s, by REQ/S, every 1 s",
                "    PID  PROGRAM           REQ/S     MB/S   HOST  DEVICES      P99  EVENTS",
                "  19211  gantry             2000      2.0    0 %    100 %  2.00 us  full 3",
                "   1730  nginx              1600      1.6   25 %     75 %  2.00 us",
                "4000000  a-program-wit       7.0      0.0    0 %    100 %  2.00 us  dpdk in quar",
                "",
                "total",
                "DEVICE    ALGORITHM                 OPERATION     REQ/S     MB/S  SHARE      P99",
                "lanes     sha256                    digest         3200      3.2   89 %  2.00 us",
                "host      aes-128-cbc-hmac-sha256   digest          400      0.4   11 %  2.00 us",
                "dpdk      sha512                    digest          7.0      0.0    0 %  2.00 us",
                "q quit  ? keys",
            ]
        );
    }

    #[test]
    fn a_hundred_and_twenty_columns_show_everything() {
        assert_eq!(
            lines(&example_state(), 120, 12),
            [
                "gantry top: 3607 req/s, 3.6 MB/s, by REQ/S, every 1 s",
                "    PID  PROCS  USER      PROGRAM                      REQ/S     MB/S   HOST  DEVICES      P99  EVENTS",
                "  19211      1  alice     gantry                        2000      2.0    0 %    100 %  2.00 us  full 3",
                "   1730      1  alice     nginx                         1600      1.6   25 %     75 %  2.00 us",
                "4000000      1  alice     a-program-with-a-very-lo       7.0      0.0    0 %    100 %  2.00 us  dpdk in quarantine",
                "",
                "total",
                "DEVICE       ALGORITHM                 OPERATION     REQ/S     MB/S  SHARE      P50      P99  QUEUED    BUSY  EVENTS",
                "lanes        sha256                    digest         3200      3.2   89 %  2.00 us  2.00 us       0     0.0  full 3, co",
                "host         aes-128-cbc-hmac-sha256   digest          400      0.4   11 %  2.00 us  2.00 us       0     0.0",
                "dpdk         sha512                    digest          7.0      0.0    0 %  2.00 us  2.00 us       0     0.0  quarantine",
                "q quit  ? keys",
            ]
        );
    }

    #[test]
    fn one_process_is_shown_alone() {
        let mut state = example_state();
        state.handle_key(Key::Down);
        state.handle_key(Key::Enter);
        let lines = lines(&state, 80, 12);
        assert!(lines.contains(&"nginx (1730)".to_owned()), "{lines:#?}");
        assert!(!lines.iter().any(|line| line.contains("sha512")), "{lines:#?}");
    }

    #[test]
    fn errors_are_red_full_rings_yellow_and_the_selection_reversed() {
        let buffer = drawn(&example_state(), true, 80, 12);
        let colours = [2, 3, 4].map(|y| buffer[(79, y)].fg);
        assert_eq!(colours, [Color::Yellow, Color::Reset, Color::Red]);
        let reversed = [2, 3, 4].map(|y| buffer[(10, y)].modifier.contains(Modifier::REVERSED));
        assert_eq!(reversed, [true, false, false]);
        let plain = drawn(&example_state(), false, 80, 12);
        assert!(plain.content.iter().all(|cell| (cell.fg, cell.bg) == (Color::Reset, Color::Reset)));
        assert!(plain[(10, 2)].modifier.contains(Modifier::REVERSED));
    }

    #[test]
    fn shows_a_message_without_processes() {
        let state = State::new(Sample::new(Vec::new()), 2.0, "a note");
        let lines = lines(&state, 80, 10);
        assert_eq!(lines[..2], ["gantry top: 0 req/s, 0 MB/s, by REQ/S, every 2 s", "No process uses Gantry now."]);
        assert_eq!(lines[9], "a note");
    }

    #[test]
    fn the_selected_process_of_500_is_visible_at_any_size() {
        let processes = (1..=500).map(|pid| process(pid, "server", [row("lanes", "sha256", pid.into(), &[])]));
        let mut state = State::new(Sample::new(processes.collect()), 1.0, "");
        for key in [Key::Home, Key::PageDown, Key::Down, Key::End, Key::Up] {
            state.handle_key(key);
            let pid = state.processes()[state.selected()].pid.to_string();
            for (width, height) in [(40, 12), (80, 24), (120, 50), (300, 600)] {
                let lines = lines(&state, width, height);
                assert!(lines.iter().any(|line| line.split_whitespace().next() == Some(&pid)), "{lines:#?}");
            }
        }
    }

    #[test]
    fn help_lists_the_keys_at_any_terminal_size() {
        let mut state = example_state();
        state.handle_key(Key::Char('?'));
        let lines = lines(&state, 80, 24);
        for word in ["quit", "pause", "sort", "p PID", "e EVENTS"] {
            assert!(lines.iter().any(|line| line.contains(word)), "{word}: {lines:#?}");
        }
        for help in [true, false] {
            state.shows_help = help;
            for (width, height) in (0..20).flat_map(|width| (0..20).map(move |height| (width, height))) {
                drawn(&state, true, width, height);
            }
        }
    }
}
