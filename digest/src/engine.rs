//! Keeps the lanes full.
//!
//! A job (one request) is a chain of segments, each a run of whole blocks at one place in memory: the head block that a
//! stream has buffered, the body straight from the caller's input, the padded tail, the outer block of an HMAC. All lanes
//! advance together by the shortest segment in them; a lane whose segment is done goes on with its next one, and a lane
//! whose job is done takes the next job. When the jobs run out and too few lanes are busy to pay for the others, the
//! remaining ones are finished a few at a time, at the end one alone at single-stream speed.

/// Most lanes of any kernel for a few lanes.
pub const MAX_FEW: usize = 16;

/// A run of whole blocks: its first byte, and how many there are.
pub type Run = (*const u8, usize);

/// No blocks: the end of a job.
pub const END: Run = (core::ptr::null(), 0);

/// The lanes of one family of kernels. Segments are counted in blocks; 0 blocks stand for the end of the job.
pub trait Lanes {
    type Job;

    /// How many lanes there are.
    fn lanes(&self) -> usize;

    /// From this many busy lanes on, at least one, all lanes together are faster than a few at a time.
    fn break_even(&self) -> usize;

    /// How many lanes a few are, at most [`MAX_FEW`].
    fn few(&self) -> usize;

    /// Puts a job on a lane and answers with the length of its first segment.
    fn start(&mut self, lane: usize, job: Self::Job) -> usize;

    /// Prepares the next segment of a lane whose last one is done, and answers with its length.
    fn next(&mut self, lane: usize) -> usize;

    /// Lets an idle lane do the work of a busy one once more, so that it has something valid to read.
    fn shadow(&mut self, idle: usize, busy: usize);

    /// Advances all lanes; each has this many blocks left in its segment, and with `end` none of the busy ones has more. Then they may
    /// go through segments that follow, too, as long as [`next`](Self::next) knows.
    fn advance(&mut self, blocks: usize, end: bool);

    /// Advances these lanes only, no more than [`few`](Self::few); each has this many blocks left in its segment.
    fn advance_few(&mut self, lanes: &[usize], blocks: usize);
}

/// Runs all jobs to their end, on `MOST` lanes or fewer.
pub fn run<const MOST: usize, L: Lanes>(lanes: &mut L, jobs: impl Iterator<Item = L::Job>) {
    // Until they end. (Not `fuse`, which need not be inlined: a job that goes through memory is waited for.)
    let mut jobs = Some(jobs);
    // Blocks left in the segment of each lane; 0 for an idle one.
    let mut left = [0; MOST];
    let left = &mut left[..lanes.lanes()];
    let mut step = 0;
    loop {
        for (lane, blocks) in left.iter_mut().enumerate() {
            if *blocks > step {
                *blocks -= step;
                continue;
            }
            // The segment is done, or the lane was idle.
            *blocks = if *blocks > 0 { lanes.next(lane) } else { 0 };
            if *blocks == 0 {
                *blocks = refill(lanes, lane, &mut jobs);
            }
        }
        // A loop of its own, which the compiler keeps in registers.
        let (mut busy, mut longest) = (0, 0);
        step = usize::MAX;
        for &blocks in left.iter() {
            busy += usize::from(blocks > 0);
            longest = longest.max(blocks);
            step = step.min(if blocks > 0 { blocks } else { usize::MAX });
        }
        if busy < lanes.break_even() {
            return run_few(lanes, left);
        }
        if busy < left.len() {
            let some = left.iter().position(|blocks| *blocks > 0).unwrap_or(0);
            for (lane, _) in left.iter().enumerate().filter(|(_, blocks)| **blocks == 0) {
                lanes.shadow(lane, some);
            }
        }
        lanes.advance(step, step == longest);
    }
}

/// Runs one job alone.
pub fn run_one<L: Lanes>(lanes: &mut L, job: L::Job) {
    let blocks = lanes.start(0, job);
    run_few(lanes, &mut [blocks]);
}

/// Puts jobs on a lane until one is not already done at the start (such as a short update, which is only buffered).
#[inline(always)]
fn refill<L: Lanes>(lanes: &mut L, lane: usize, jobs: &mut Option<impl Iterator<Item = L::Job>>) -> usize {
    while let Some(some) = jobs {
        let Some(job) = some.next() else {
            *jobs = None;
            break;
        };
        let blocks = lanes.start(lane, job);
        if blocks > 0 {
            return blocks;
        }
    }
    0
}

/// Finishes the jobs in the lanes, a few at a time.
fn run_few<L: Lanes>(lanes: &mut L, left: &mut [usize]) {
    let few = lanes.few();
    loop {
        let mut group = [0; MAX_FEW];
        let mut size = 0;
        let mut step = usize::MAX;
        for (lane, &blocks) in left.iter().enumerate() {
            if blocks > 0 && size < few {
                group[size] = lane;
                size += 1;
                step = step.min(blocks);
            }
        }
        let group = &group[..size];
        if group.is_empty() {
            return;
        }
        lanes.advance_few(group, step);
        for &lane in group {
            left[lane] -= step;
            if left[lane] == 0 {
                left[lane] = lanes.next(lane);
            }
        }
    }
}
