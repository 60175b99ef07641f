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
    /// What those did that have ended, by program.
    ended: BTreeMap<String, Report>,
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
                None => self.ended.entry(watched.live.program).or_default().merge(anonymous(watched.now)),
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

    /// What all programs did that ran at any look, those that have ended among them, by program. No number in it ever goes back.
    pub fn totals(&self) -> BTreeMap<String, Report> {
        let mut totals = self.ended.clone();
        for watched in self.known.values() {
            totals.entry(watched.live.program.clone()).or_default().merge(anonymous(watched.now.clone()));
        }
        totals
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

/// Without its process, of which there would be ever more.
fn anonymous(report: Report) -> Report {
    Report { processes: Vec::new(), ..report }
}
