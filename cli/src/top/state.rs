//! What is shown, and what keys change about it.

use std::time::Duration;

use super::columns::PROCESSES;
use super::keys::Key;
use super::model::{Process, Sample, Summary};

/// Seconds between two looks that keys lead to.
const INTERVALS: [f64; 9] = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0];

/// What keys do, for people; those that sort are in the table of columns.
pub(super) const KEYS: [(&str, &str); 8] = [
    ("q Esc", "quit"),
    ("up down", "select a process"),
    ("Enter a", "what one process does, or all"),
    ("left right", "sort by another column"),
    ("i", "the other way round"),
    ("space", "pause"),
    ("+ -", "look less often, more often"),
    ("?", "these keys"),
];

/// The whole of it.
pub(super) struct State {
    sample: Sample,
    /// The column that processes are sorted by, and whether the other way round.
    sort: (usize, bool),
    /// The selected process: its place, and its page, by which it is found when places change.
    selected: usize,
    page: Option<(u64, u64)>,
    /// The lower table is about the selected process.
    one: bool,
    pub(super) paused: bool,
    pub(super) help: bool,
    interval: f64,
    /// Said until a key is pressed.
    pub(super) note: &'static str,
}

/// What a key asks for that is more than another view.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Nothing,
    /// To look at once.
    Look,
    Quit,
    Interrupt,
    Stop,
}

impl State {
    pub(super) fn new(sample: Sample, interval: f64, note: &'static str) -> Self {
        let sort = PROCESSES.iter().position(|column| column.title == "REQ/S").unwrap_or(0);
        let (sort, selected, page, one) = ((sort, false), 0, None, false);
        let mut state = Self { sample, sort, selected, page, one, paused: false, help: false, interval, note };
        state.arrange();
        state
    }

    /// There are new numbers.
    pub(super) fn show(&mut self, sample: Sample) {
        self.sample = sample;
        self.arrange();
    }

    pub(super) fn processes(&self) -> &[Process] {
        &self.sample.processes
    }

    pub(super) fn all(&self) -> &Summary {
        &self.sample.all
    }

    /// The place of the selected process.
    pub(super) fn selected(&self) -> usize {
        self.selected
    }

    /// The process that the lower table is about; `None` for all together.
    pub(super) fn one(&self) -> Option<&Process> {
        self.sample.processes.get(self.selected).filter(|_| self.one)
    }

    /// The place of the column that processes are sorted by.
    pub(super) fn sort(&self) -> usize {
        self.sort.0
    }

    pub(super) fn interval(&self) -> Duration {
        Duration::from_secs_f64(self.interval)
    }

    pub(super) fn key(&mut self, key: Key) -> Ask {
        self.note = "";
        match key {
            Key::Char('q') | Key::Escape => return Ask::Quit,
            Key::Interrupt => return Ask::Interrupt,
            Key::Stop => return Ask::Stop,
            Key::Char(' ') => {
                self.paused = !self.paused;
                return if self.paused { Ask::Nothing } else { Ask::Look };
            }
            Key::Char('?') => self.help = !self.help,
            Key::Char('a') | Key::Enter => self.one = !self.one && !self.sample.processes.is_empty(),
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
        self.arrange();
        Ask::Nothing
    }

    fn select(&mut self, place: usize) {
        self.selected = place.min(self.sample.processes.len().saturating_sub(1));
        self.page = self.sample.processes.get(self.selected).map(|process| process.key);
    }

    /// Sorts, and finds the selected process again.
    fn arrange(&mut self) {
        let (column, reversed) = self.sort;
        if let Some((_, order)) = PROCESSES[column].sort {
            self.sample.processes.sort_by(|a, b| {
                let order = order(a, b);
                if reversed { order.reverse() } else { order }.then(a.pid.cmp(&b.pid))
            });
        }
        let page = self.page;
        if let Some(place) = self.sample.processes.iter().position(|process| Some(process.key) == page) {
            self.selected = place;
        } else {
            // It has ended: the one in its place is another.
            self.one = false;
            self.select(self.selected);
        }
    }
}

/// The next longer interval, if there is one.
fn longer(interval: f64) -> f64 {
    INTERVALS.into_iter().find(|longer| *longer > interval).unwrap_or(interval)
}

/// The next shorter interval, if there is one.
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
    fn the_busiest_is_first_and_letters_and_arrows_sort() {
        let mut state = state(&[(1, 10), (2, 30), (3, 20)]);
        assert_eq!(pids(&state), [2, 3, 1]);
        state.key(Key::Char('p'));
        assert_eq!(pids(&state), [1, 2, 3]);
        state.key(Key::Char('p'));
        assert_eq!(pids(&state), [3, 2, 1]);
        state.key(Key::Char('r'));
        assert_eq!(pids(&state), [2, 3, 1]);
        state.key(Key::Char('i'));
        assert_eq!(pids(&state), [1, 3, 2]);
        for _ in 0..PROCESSES.len() {
            state.key(Key::Left);
        }
        assert_eq!(pids(&state), [1, 3, 2], "once around");
    }

    #[test]
    fn a_selected_process_stays_selected_where_it_goes() {
        let mut state = state(&[(1, 10), (2, 30), (3, 20)]);
        state.key(Key::Down);
        state.key(Key::Enter);
        assert_eq!(state.one().unwrap().pid, 3);
        state.show(sample(&[(1, 10), (2, 30), (3, 40)]));
        assert_eq!((state.selected(), state.one().unwrap().pid), (0, 3));
        // It ends.
        state.show(sample(&[(1, 10), (2, 30)]));
        assert!(state.one().is_none() && state.selected() == 0);
        state.show(sample(&[]));
        state.key(Key::Down);
        state.key(Key::Char('a'));
        assert!(state.one().is_none());
    }

    #[test]
    fn selecting_ends_at_both_ends() {
        let mut state = state(&[(1, 1), (2, 2)]);
        for (key, place) in [(Key::Up, 0), (Key::PageDown, 1), (Key::Down, 1), (Key::Home, 0), (Key::End, 1)] {
            state.key(key);
            assert_eq!(state.selected(), place);
        }
    }

    #[test]
    fn pausing_going_on_and_ending_are_asked_for() {
        let mut state = state(&[]);
        assert_eq!(state.key(Key::Char(' ')), Ask::Nothing);
        assert!(state.paused);
        assert_eq!(state.key(Key::Char(' ')), Ask::Look);
        for (key, ask) in [
            (Key::Char('q'), Ask::Quit),
            (Key::Escape, Ask::Quit),
            (Key::Interrupt, Ask::Interrupt),
            (Key::Stop, Ask::Stop),
            (Key::Char('x'), Ask::Nothing),
        ] {
            assert_eq!(state.key(key), ask);
        }
    }

    #[test]
    fn intervals_have_a_shortest_and_a_longest() {
        let mut state = state(&[]);
        let mut press = |key, times| {
            for _ in 0..times {
                state.key(Key::Char(key));
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
