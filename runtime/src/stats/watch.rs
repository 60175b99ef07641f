//! What processes do while one looks: the pages of those that run, again and again, and the last numbers of those that have ended.

use std::collections::BTreeMap;
use std::io;
use std::time::Instant;

use super::live::{Identity, Live, live};
use super::report::Report;

/// Looks at all processes again and again.
#[derive(Default)]
pub struct Watch {
    known: BTreeMap<Identity, Watched>,
    /// What those did that have ended.
    ended: Totals,
}

/// Reports by program. Anybody may start programs of any names and with any sites: those that there is no room for are left out.
#[derive(Clone, Default)]
struct Totals {
    programs: BTreeMap<String, Report>,
    /// Programs, and rows and guests of all of them.
    size: usize,
}

/// Most of these. A machine has some hundred.
const MOST: usize = 16_384;

impl Totals {
    /// Without the processes, of which there would be ever more.
    fn add(&mut self, program: &str, report: Report) {
        let is_new = !self.programs.contains_key(program);
        if is_new && self.size >= MOST {
            return;
        }
        let sum = self.programs.entry(program.to_owned()).or_default();
        let size = |report: &Report| report.rows.len() + report.guests.len();
        let before = size(sum);
        sum.merge_within(Report { processes: Vec::new(), ..report }, MOST.saturating_sub(self.size));
        self.size += usize::from(is_new) + size(sum) - before;
    }
}

/// A process and its children, as they were at the last two looks.
pub struct Watched {
    /// Where it is.
    pub live: Live,
    /// What it has counted.
    pub now: Report,
    /// When that was read.
    pub at: Instant,
    /// What it had counted at the look before, and when; `None` if it was new.
    pub before: Option<(Report, Instant)>,
}

impl Watch {
    /// Looks once more. A process that has ended since the last look is read a last time: its page is there as long as it is open here.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn look(&mut self) -> io::Result<()> {
        let mut found: BTreeMap<Identity, Live> = live()?.into_iter().map(|live| (live.identity, live)).collect();
        for (identity, mut watched) in std::mem::take(&mut self.known) {
            watched.read();
            match found.remove(&identity) {
                Some(live) => {
                    watched.live.pids = live.pids;
                    self.known.insert(identity, watched);
                }
                None => self.ended.add(&watched.live.program, watched.now),
            }
        }
        for (identity, live) in found {
            // One that ended before it could be read is not missed: it was never seen.
            if let Ok(now) = live.read() {
                self.known.insert(identity, Watched { live, now, at: Instant::now(), before: None });
            }
        }
        Ok(())
    }

    /// Those that run, the oldest first.
    pub fn running(&self) -> impl Iterator<Item = &Watched> {
        let mut all: Vec<&Watched> = self.known.values().collect();
        all.sort_unstable_by(|a, b| a.live.pids.cmp(&b.live.pids));
        all.into_iter()
    }

    /// What all programs did that ran at any look, those that have ended among them, by program. No number in it goes back while there is room for
    /// all programs and their sites: 16,384 together.
    pub fn totals(&self) -> BTreeMap<String, Report> {
        let mut totals = self.ended.clone();
        for watched in self.known.values() {
            totals.add(&watched.live.program, watched.now.clone());
        }
        totals.programs
    }
}

impl Watched {
    /// Reads the page again. What cannot be read leaves the numbers as they were.
    fn read(&mut self) {
        if let Ok(now) = self.live.read() {
            self.before = Some((std::mem::replace(&mut self.now, now), self.at));
            self.at = Instant::now();
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
    fn totals_have_an_end_and_what_is_in_them_is_counted_on() {
        let mut totals = Totals::default();
        (0..MOST).for_each(|program| totals.add(&program.to_string(), report(0..3)));
        assert_eq!(totals.programs.len(), MOST / 4);
        totals.add("0", report(0..5));
        totals.add("other", report(0..1));
        let first = &totals.programs["0"].rows;
        assert_eq!((first.len(), first[0].requests, totals.programs.len()), (3, 2, MOST / 4));
    }
}
