//! State of the view, and its changes by keys.

use std::time::Duration;

use super::columns::PROCESSES;
use super::keys::Key;
use super::model::{Process, Sample, Summary};

/// Intervals that keys select, in seconds.
const INTERVALS: [f64; 9] = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0];

/// Help about keys. The keys for sorting are in the table of columns.
pub(super) const KEY_HELP: [(&str, &str); 8] = [
    ("q Esc", "quit"),
    ("up down", "select a process"),
    ("Enter a", "show one process, or all"),
    ("left right", "sort by another column"),
    ("i", "reverse the order"),
    ("space", "pause"),
    ("+ -", "longer, shorter interval"),
    ("?", "these keys"),
];

pub(super) struct State {
    sample: Sample,
    /// The index of the column that sorts processes, and true if the order is reversed.
    sort: (usize, bool),
    /// The row of the selected process. `selected_page` is the identity of its statistics page, which finds the process when rows move.
    selected: usize,
    selected_page: Option<(u64, u64)>,
    /// True if the lower table shows only the selected process.
    shows_selected: bool,
    pub(super) is_paused: bool,
    pub(super) shows_help: bool,
    interval: f64,
    /// A message that is shown until a key is pressed.
    pub(super) note: &'static str,
}

/// An action that a key requests.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    Nothing,
    /// Take a sample now.
    TakeSample,
    Quit,
    Interrupt,
    Stop,
}

impl State {
    pub(super) fn new(sample: Sample, interval: f64, note: &'static str) -> Self {
        let sort = PROCESSES.iter().position(|column| column.title == "REQ/S").unwrap_or(0);
        let (sort, selected, selected_page, shows_selected) = ((sort, false), 0, None, false);
        let mut state = Self {
            sample,
            sort,
            selected,
            selected_page,
            shows_selected,
            is_paused: false,
            shows_help: false,
            interval,
            note,
        };
        state.sort_and_reselect();
        state
    }

    pub(super) fn set_sample(&mut self, sample: Sample) {
        self.sample = sample;
        self.sort_and_reselect();
    }

    pub(super) fn processes(&self) -> &[Process] {
        &self.sample.processes
    }

    pub(super) fn totals(&self) -> &Summary {
        &self.sample.totals
    }

    /// Returns the row of the selected process.
    pub(super) fn selected(&self) -> usize {
        self.selected
    }

    /// Returns the process in the lower table; `None` if the table shows all processes in total.
    pub(super) fn shown_process(&self) -> Option<&Process> {
        self.sample.processes.get(self.selected).filter(|_| self.shows_selected)
    }

    /// Returns the index of the column that sorts processes.
    pub(super) fn sort_column(&self) -> usize {
        self.sort.0
    }

    pub(super) fn interval(&self) -> Duration {
        Duration::from_secs_f64(self.interval)
    }

    pub(super) fn handle_key(&mut self, key: Key) -> Action {
        self.note = "";
        match key {
            Key::Char('q') | Key::Escape => return Action::Quit,
            Key::Interrupt => return Action::Interrupt,
            Key::Stop => return Action::Stop,
            Key::Char(' ') => {
                self.is_paused = !self.is_paused;
                return if self.is_paused { Action::Nothing } else { Action::TakeSample };
            }
            Key::Char('?') => self.shows_help = !self.shows_help,
            Key::Char('a') | Key::Enter => {
                self.shows_selected = !self.shows_selected && !self.sample.processes.is_empty();
            }
            Key::Char('i') => self.sort.1 = !self.sort.1,
            Key::Char('+') => self.interval = longer(self.interval),
            Key::Char('-') => self.interval = shorter(self.interval),
            Key::Char(letter) => {
                if let Some(column) =
                    PROCESSES.iter().position(|column| column.sort.is_some_and(|(key, _)| key == letter))
                {
                    self.sort = (column, column == self.sort.0 && !self.sort.1);
                }
            }
            Key::Left => self.sort.0 = (self.sort.0 + PROCESSES.len() - 1) % PROCESSES.len(),
            Key::Right => self.sort.0 = (self.sort.0 + 1) % PROCESSES.len(),
            Key::Up => self.select(self.selected.saturating_sub(1)),
            Key::Down => self.select(self.selected + 1),
            Key::PageUp => self.select(self.selected.saturating_sub(10)),
            Key::PageDown => self.select(self.selected + 10),
            Key::Home => self.select(0),
            Key::End => self.select(usize::MAX),
        }
        self.sort_and_reselect();
        Action::Nothing
    }

    fn select(&mut self, index: usize) {
        self.selected = index.min(self.sample.processes.len().saturating_sub(1));
        self.selected_page = self.sample.processes.get(self.selected).map(|process| process.page_id);
    }

    /// Sorts, and finds the selected process again.
    fn sort_and_reselect(&mut self) {
        let (column, reversed) = self.sort;
        if let Some((_, order)) = PROCESSES[column].sort {
            self.sample.processes.sort_by(|a, b| {
                let order = order(a, b);
                if reversed { order.reverse() } else { order }.then(a.pid.cmp(&b.pid))
            });
        }
        let selected_page = self.selected_page;
        if let Some(index) = self.sample.processes.iter().position(|process| Some(process.page_id) == selected_page) {
            self.selected = index;
        } else {
            // The process has ended, or none has been selected yet.
            self.shows_selected = false;
            self.select(self.selected);
        }
    }
}

/// Returns the next longer interval, or `interval` if there is none.
fn longer(interval: f64) -> f64 {
    INTERVALS.into_iter().find(|longer| *longer > interval).unwrap_or(interval)
}

/// Returns the next shorter interval, or `interval` if there is none.
fn shorter(interval: f64) -> f64 {
    INTERVALS.into_iter().rfind(|shorter| *shorter < interval).unwrap_or(interval)
}

#[cfg(test)]
mod tests {
    use super::super::model::tests::{process, row};
    use super::*;

    fn sample(requests: &[(u32, u64)]) -> Sample {
        let process = |(pid, requests): &(u32, u64)| process(*pid, "p", [row("lanes", "sha256", *requests, &[])]);
        Sample::new(requests.iter().map(process).collect())
    }

    fn state(requests: &[(u32, u64)]) -> State {
        State::new(sample(requests), 1.0, "")
    }

    fn pids(state: &State) -> Vec<u32> {
        state.processes().iter().map(|process| process.pid).collect()
    }

    #[test]
    fn the_busiest_is_first_and_keys_change_the_order() {
        let mut state = state(&[(1, 10), (2, 30), (3, 20)]);
        assert_eq!(pids(&state), [2, 3, 1]);
        state.handle_key(Key::Char('p'));
        assert_eq!(pids(&state), [1, 2, 3]);
        state.handle_key(Key::Char('p'));
        assert_eq!(pids(&state), [3, 2, 1]);
        state.handle_key(Key::Char('r'));
        assert_eq!(pids(&state), [2, 3, 1]);
        state.handle_key(Key::Char('i'));
        assert_eq!(pids(&state), [1, 3, 2]);
        for _ in 0..PROCESSES.len() {
            state.handle_key(Key::Left);
        }
        assert_eq!(pids(&state), [1, 3, 2], "once around");
    }

    #[test]
    fn the_selected_process_stays_selected() {
        let mut state = state(&[(1, 10), (2, 30), (3, 20)]);
        state.handle_key(Key::Down);
        state.handle_key(Key::Enter);
        assert_eq!(state.shown_process().unwrap().pid, 3);
        state.set_sample(sample(&[(1, 10), (2, 30), (3, 40)]));
        assert_eq!((state.selected(), state.shown_process().unwrap().pid), (0, 3));
        // Process 3 ends.
        state.set_sample(sample(&[(1, 10), (2, 30)]));
        assert!(state.shown_process().is_none() && state.selected() == 0);
        state.set_sample(sample(&[]));
        state.handle_key(Key::Down);
        state.handle_key(Key::Char('a'));
        assert!(state.shown_process().is_none());
    }

    #[test]
    fn selection_stops_at_both_ends() {
        let mut state = state(&[(1, 1), (2, 2)]);
        for (key, index) in [(Key::Up, 0), (Key::PageDown, 1), (Key::Down, 1), (Key::Home, 0), (Key::End, 1)] {
            state.handle_key(key);
            assert_eq!(state.selected(), index);
        }
    }

    #[test]
    fn pause_resume_and_quit_are_actions() {
        let mut state = state(&[]);
        assert_eq!(state.handle_key(Key::Char(' ')), Action::Nothing);
        assert!(state.is_paused);
        assert_eq!(state.handle_key(Key::Char(' ')), Action::TakeSample);
        for (key, ask) in [
            (Key::Char('q'), Action::Quit),
            (Key::Escape, Action::Quit),
            (Key::Interrupt, Action::Interrupt),
            (Key::Stop, Action::Stop),
            (Key::Char('x'), Action::Nothing),
        ] {
            assert_eq!(state.handle_key(key), ask);
        }
    }

    #[test]
    fn intervals_have_limits() {
        let mut state = state(&[]);
        let mut press = |key, times| {
            for _ in 0..times {
                state.handle_key(Key::Char(key));
            }
            state.interval().as_millis()
        };
        assert_eq!(press('+', 1), 2000);
        assert_eq!(press('+', 20), 60_000);
        assert_eq!(press('-', 20), 100);
        let between = State::new(sample(&[]), 0.3, "").interval;
        assert_eq!((longer(between), shorter(between), longer(600.0), shorter(600.0)), (0.5, 0.2, 600.0, 60.0));
    }
}
