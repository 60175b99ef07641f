//! Repeated observation of processes: the pages of running ones, and the last counters of ended ones.

use std::collections::BTreeMap;
use std::io;
use std::time::Instant;

use super::live_page::{FileIdentity, LivePage, live_pages};
use super::report::Report;

/// Observes all processes repeatedly.
#[derive(Default)]
pub struct Watcher {
    /// The processes at the last observation.
    watched: BTreeMap<FileIdentity, WatchedProcess>,
    /// The totals of processes that have ended.
    ended: Totals,
}

/// Reports by program. Any user may start programs with any name and sites, so the size is limited and the excess is left out.
#[derive(Clone, Default)]
struct Totals {
    programs: BTreeMap<String, Report>,
    /// The number of programs, plus the number of rows and guests of all programs.
    size: usize,
}

/// Maximum of `size`. Real machines have a few hundred entries.
const MAX_ENTRIES: usize = 16_384;

impl Totals {
    /// Adds a report without its processes, whose number would grow without limit.
    fn add(&mut self, program: &str, report: Report) {
        let is_new = !self.programs.contains_key(program);
        if is_new && self.size >= MAX_ENTRIES {
            return;
        }
        let sum = self.programs.entry(program.to_owned()).or_default();
        let size = |report: &Report| report.rows.len() + report.guests.len();
        let before = size(sum);
        sum.merge_within(Report { processes: Vec::new(), ..report }, MAX_ENTRIES.saturating_sub(self.size));
        self.size += usize::from(is_new) + size(sum) - before;
    }
}

/// A process and its children, at the last two observations.
pub struct WatchedProcess {
    /// The page.
    pub page: LivePage,
    /// The present counters.
    pub now: Report,
    /// The time of reading `now`.
    pub read_at: Instant,
    /// The previous counters and their time; `None` if the process is new.
    pub before: Option<(Report, Instant)>,
}

impl Watcher {
    /// Observes all processes. If a process has ended since the last observation, reads its page a last time: the page exists as long as it
    /// is open here.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn observe(&mut self) -> io::Result<()> {
        let mut found: BTreeMap<FileIdentity, LivePage> =
            live_pages()?.into_iter().map(|page| (page.identity, page)).collect();
        for (identity, mut watched) in std::mem::take(&mut self.watched) {
            watched.read();
            match found.remove(&identity) {
                Some(page) => {
                    watched.page.pids = page.pids;
                    self.watched.insert(identity, watched);
                }
                None => self.ended.add(&watched.page.program, watched.now),
            }
        }
        for (identity, page) in found {
            // Ignore a process that ended before it could be read: it was never seen.
            if let Ok(now) = page.read() {
                self.watched.insert(identity, WatchedProcess { page, now, read_at: Instant::now(), before: None });
            }
        }
        Ok(())
    }

    /// Returns the running processes, oldest first.
    pub fn running(&self) -> impl Iterator<Item = &WatchedProcess> {
        let mut all: Vec<&WatchedProcess> = self.watched.values().collect();
        all.sort_unstable_by(|a, b| a.page.pids.cmp(&b.page.pids));
        all.into_iter()
    }

    /// Returns the totals by program of all processes seen so far, including ended ones. Totals never decrease as long as there is room for
    /// all programs and their sites: 16,384 together.
    pub fn totals(&self) -> BTreeMap<String, Report> {
        let mut totals = self.ended.clone();
        for watched in self.watched.values() {
            totals.add(&watched.page.program, watched.now.clone());
        }
        totals.programs
    }
}

impl WatchedProcess {
    /// Reads the page again. If that fails, keeps the old counters.
    fn read(&mut self) {
        if let Ok(now) = self.page.read() {
            self.before = Some((std::mem::replace(&mut self.now, now), self.read_at));
            self.read_at = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::report::Row;

    fn report(sites: std::ops::Range<usize>) -> Report {
        let row = |site: usize| Row { requests: 1, ..Row::new(None, None, site.to_string(), String::new()) };
        Report { rows: sites.map(row).collect(), ..Report::default() }
    }

    #[test]
    fn totals_are_bounded_and_known_entries_still_count() {
        let mut totals = Totals::default();
        (0..MAX_ENTRIES).for_each(|program| totals.add(&program.to_string(), report(0..3)));
        assert_eq!(totals.programs.len(), MAX_ENTRIES / 4);
        totals.add("0", report(0..5));
        totals.add("other", report(0..1));
        let first = &totals.programs["0"].rows;
        assert_eq!((first.len(), first[0].requests, totals.programs.len()), (3, 2, MAX_ENTRIES / 4));
    }
}
