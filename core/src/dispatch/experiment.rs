//! Measures whether batches of several threads raise throughput.
//!
//! What a wait costs is measured in CPU time of the thread that waits (`Waits`). Yielding may also give the CPU to an unrelated
//! process, which per-thread CPU time cannot reveal. (Since 6.18 Linux takes from a thread that yields what was left of its
//! slice.) So there are stretches of time in which every thread works alone, or, where that was found to be better, waits for
//! others. A stretch is compared with its neighbours on both sides, and the way in which more work was done holds.

use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, try_lock};

/// Nanoseconds of a stretch.
const STRETCH: u64 = 25_000_000;
/// So many stretches lie between two that are tried at least, so that of what is as good either way most goes the way that takes less
/// CPU time.
const OFTEN: u32 = 8;
/// And so many that what is lost by trying is no more than one part in this many.
const LOSS: f32 = 100.0;
/// The share of a new comparison in what is thought.
const SHARE: f32 = 0.25;
/// How many times as much has to be done alone as in batches, which take less CPU time, before every thread works alone.
const MARGIN: f32 = 1.05;

/// Of one place where requests meet.
#[derive(Default)]
pub(crate) struct Experiment {
    /// Bytes of requests in this stretch.
    bytes: AtomicU64,
    /// When it is over.
    end: AtomicU64,
    /// Every thread works alone in it.
    alone: AtomicBool,
    course: Mutex<Course>,
}

impl Experiment {
    /// Counts a request that could wait for others. Whether it does.
    pub(crate) fn waits_for_others(&self, bytes: usize, now: u64) -> bool {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        if now >= self.end.load(Ordering::Relaxed) {
            self.turn(now);
        }
        !self.alone.load(Ordering::Relaxed)
    }

    #[cold]
    fn turn(&self, now: u64) {
        let Some(mut course) = try_lock(&self.course) else { return };
        let end = self.end.load(Ordering::Relaxed);
        if now < end {
            return; // somebody else was faster
        }
        let (bytes, took) = (self.bytes.swap(0, Ordering::Relaxed), now - course.began);
        // Before the first one there was nothing, and where nobody came for a while, it is not known why.
        #[allow(clippy::cast_precision_loss, reason = "for a comparison in percents")]
        let rate = (end > 0 && now - end < STRETCH / 2).then(|| bytes as f32 / took as f32);
        course.began = now;
        self.alone.store(course.next(rate), Ordering::Relaxed);
        self.end.store(now.saturating_add(STRETCH), Ordering::Relaxed);
    }
}

/// What was found out, and where in a comparison it stands.
#[derive(Debug)]
struct Course {
    /// When the stretch began.
    began: u64,
    /// What is thought to be better.
    alone: bool,
    /// Work done in the other way over that done in the better one.
    other: f32,
    /// Stretches until the other way is tried.
    left: u32,
    step: Step,
}

/// The stretch that is running.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// As is thought to be better.
    Usual,
    /// In the other way, after one of this rate.
    Tried { before: f32 },
    /// As usual, after one in the other way, and one before that.
    After { before: f32, tried: f32 },
}

impl Default for Course {
    fn default() -> Self {
        Self { began: 0, alone: false, other: 1.0, left: 1, step: Step::Usual }
    }
}

impl Course {
    /// Ends a stretch of so many bytes per nanosecond, if that says something. Whether threads stay alone in the next one.
    fn next(&mut self, rate: Option<f32>) -> bool {
        let step = std::mem::replace(&mut self.step, Step::Usual);
        let Some(rate) = rate.filter(|rate| *rate > 0.0) else { return self.alone };
        match step {
            Step::Usual => {
                self.left = self.left.saturating_sub(1);
                if self.left == 0 {
                    self.step = Step::Tried { before: rate };
                    return !self.alone;
                }
            }
            Step::Tried { before } => self.step = Step::After { before, tried: rate },
            Step::After { before, tried } => self.compare(2.0 * tried / (before + rate)),
        }
        self.alone
    }

    fn compare(&mut self, other: f32) {
        // One stretch in which the machine was busy with something else is no more than that.
        self.other += SHARE * (other.clamp(0.25, 4.0) - self.other);
        if self.other > if self.alone { 1.0 } else { MARGIN } {
            (self.alone, self.other) = (!self.alone, self.other.recip());
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to LOSS")]
        let seldom = ((1.0 - self.other).max(0.0) * LOSS) as u32;
        self.left = seldom.max(OFTEN);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Stretches in which so many bytes get done in batches, where 1000 get done alone. Returns how many of them were spent alone.
    fn stretches(experiment: &Experiment, now: &mut u64, count: u32, batched: usize) -> u32 {
        const REQUESTS: u64 = 10;
        let mut alone = 0;
        for _ in 0..count {
            for _ in 0..REQUESTS {
                *now += STRETCH / REQUESTS;
                let stays = experiment.alone.load(Ordering::Relaxed);
                experiment.waits_for_others(if stays { 1000 } else { batched }, *now);
            }
            alone += u32::from(experiment.alone.load(Ordering::Relaxed));
        }
        alone
    }

    #[test]
    fn the_better_way_is_the_usual_one_and_the_other_is_tried_seldom() {
        for (batched, better) in [(4000, false), (1750, false), (1000, false), (980, false), (900, true), (400, true)] {
            let (experiment, mut now) = (Experiment::default(), 0);
            assert!(experiment.waits_for_others(1000, now), "there is nothing yet that speaks against it");
            stretches(&experiment, &mut now, 500, batched);
            let alone = stretches(&experiment, &mut now, 1000, batched);
            let other = if better { 1000 - alone } else { alone };
            let (less, more) = (batched.min(1000), batched.max(1000));
            let lost = other as usize * (more - less) / more;
            assert!(other > 0 && lost <= 12, "batches get {batched} done: alone in {alone} of 1000");
        }
    }

    #[test]
    fn who_was_wrong_learns_it() {
        let (experiment, mut now) = (Experiment::default(), 0);
        for (batched, better) in [(1750, false), (500, true), (1750, false), (250, true), (1200, false)] {
            stretches(&experiment, &mut now, 300, batched);
            let alone = stretches(&experiment, &mut now, 100, batched);
            assert_eq!(alone > 50, better, "batches get {batched} done: alone in {alone} of 100");
        }
    }

    #[test]
    fn one_stretch_that_was_disturbed_changes_little() {
        let (experiment, mut now) = (Experiment::default(), 0);
        stretches(&experiment, &mut now, 1000, 1750);
        let mut alone = 0;
        for place in 0..200 {
            alone += stretches(&experiment, &mut now, 1, if place % 40 == 0 { 100 } else { 1750 });
        }
        assert!(alone < 20, "alone in {alone} of 200");
    }

    #[test]
    fn where_nobody_came_for_a_while_nothing_is_learned() {
        let (experiment, mut now) = (Experiment::default(), 0);
        for _ in 0..1000 {
            // Now much, now little, and in between nothing.
            for bytes in [1, 1_000_000, 10] {
                experiment.waits_for_others(bytes, now);
                now += STRETCH / 3;
            }
            now += 10 * STRETCH;
            assert!(!experiment.alone.load(Ordering::Relaxed));
        }
    }

    #[test]
    fn a_clock_that_stands_still_teaches_nothing() {
        let experiment = Experiment::default();
        assert!((0..10_000).all(|_| experiment.waits_for_others(5000, 0)));
    }
}
