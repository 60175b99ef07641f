//! Keeps the lanes full.
//!
//! A job (one request) is a chain of segments, each a run of whole blocks at one place in memory. They are the head block that a stream has
//! buffered, the body in the caller's input, the padded tail, and the outer block of an HMAC. All lanes advance together by the shortest of
//! their segments. A lane continues with its next segment, and after its last one with the next job. When the jobs run out and too few
//! lanes are busy, the remaining ones finish a few at a time, and the last one at single-stream speed.

/// Maximum lanes of a kernel that advances a few lanes.
pub const MAX_FEW_LANES: usize = 16;

/// A run of whole blocks: a pointer to the first byte, and the number of blocks.
pub type BlockRun = (*const u8, usize);

/// No blocks: the end of a job.
pub const NO_BLOCKS: BlockRun = (core::ptr::null(), 0);

/// The lanes of one family of kernels. Segments are counted in blocks; 0 blocks mean the end of the job.
pub trait Lanes {
    /// One request.
    type Job;

    /// Number of lanes.
    fn lanes(&self) -> usize;

    /// From this many busy lanes on, advancing all lanes is faster than a few at a time. At least 1, so that [`run`] ends when no lane is
    /// busy.
    fn break_even(&self) -> usize;

    /// Number of lanes of `advance_few`, at most [`MAX_FEW_LANES`].
    fn few_lanes(&self) -> usize;

    /// Puts a job on a lane. Returns the length of its first segment.
    fn start_job(&mut self, lane: usize, job: Self::Job) -> usize;

    /// Prepares the next segment of a lane. Returns its length.
    fn next_segment(&mut self, lane: usize) -> usize;

    /// Points an idle lane at the data of a busy one, so that it reads valid memory.
    fn shadow(&mut self, idle: usize, busy: usize);

    /// Advances all lanes by `blocks`. With `ends_segments`, this completes the segment of every busy lane; the call may then also run
    /// later segments, which [`next_segment`](Self::next_segment) must take into account.
    fn advance(&mut self, blocks: usize, ends_segments: bool);

    /// Advances only these lanes, at most [`few_lanes`](Self::few_lanes) of them, by `blocks`.
    fn advance_few(&mut self, lanes: &[usize], blocks: usize);
}

/// Runs all jobs to their end, on `MAX` lanes or fewer.
pub fn run<const MAX: usize, L: Lanes>(lanes: &mut L, jobs: impl Iterator<Item = L::Job>) {
    // Not `fuse`: the compiler does not always inline it. A job would then go through memory, which stalls.
    let mut jobs = Some(jobs);
    // Blocks left in the segment of each lane; 0 for an idle one.
    let mut left = [0; MAX];
    let left = &mut left[..lanes.lanes()];
    let mut step = 0;
    loop {
        for (lane, blocks) in left.iter_mut().enumerate() {
            if *blocks > step {
                *blocks -= step;
                continue;
            }
            // The segment is done, or the lane was idle.
            *blocks = if *blocks > 0 { lanes.next_segment(lane) } else { 0 };
            if *blocks == 0 {
                *blocks = refill(lanes, lane, &mut jobs);
            }
        }
        // A separate loop, which the compiler keeps in registers.
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
            let busy_lane = left.iter().position(|blocks| *blocks > 0).unwrap_or(0);
            for (lane, _) in left.iter().enumerate().filter(|(_, blocks)| **blocks == 0) {
                lanes.shadow(lane, busy_lane);
            }
        }
        lanes.advance(step, step == longest);
    }
}

/// Runs one job alone.
pub fn run_one<L: Lanes>(lanes: &mut L, job: L::Job) {
    let blocks = lanes.start_job(0, job);
    run_few(lanes, &mut [blocks]);
}

/// Starts jobs on a lane until one has a segment to run. A short update of a stream, for example, is only buffered.
#[inline(always)]
fn refill<L: Lanes>(lanes: &mut L, lane: usize, jobs: &mut Option<impl Iterator<Item = L::Job>>) -> usize {
    while let Some(remaining) = jobs {
        let Some(job) = remaining.next() else {
            *jobs = None;
            break;
        };
        let blocks = lanes.start_job(lane, job);
        if blocks > 0 {
            return blocks;
        }
    }
    0
}

/// Finishes the jobs in the lanes, a few at a time.
fn run_few<L: Lanes>(lanes: &mut L, left: &mut [usize]) {
    let few_lanes = lanes.few_lanes();
    loop {
        let mut group = [0; MAX_FEW_LANES];
        let mut size = 0;
        let mut step = usize::MAX;
        for (lane, &blocks) in left.iter().enumerate() {
            if blocks > 0 && size < few_lanes {
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
                left[lane] = lanes.next_segment(lane);
            }
        }
    }
}
