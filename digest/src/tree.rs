//! KT128 (RFC 9861, section 3) on lanes, with an empty customization string.
//!
//! A message, and a zero behind it, are cut into chunks. All but the first are leaves, which are hashed side by side, those of one
//! message as those of many; and the node digests the first chunk, beside them, and then what came of the leaves. A message of one
//! chunk is digested by itself.

use core::ops::Range;

use zeroize::Zeroize;

use crate::kernel::keccak::Keccak;
use crate::kernel::wide::Kernels;
use crate::sponge::{self, Start, Stream};

/// TurboSHAKE128, which all of it is made of.
pub type Turbo = Keccak<168, 12>;

/// Bytes of a chunk.
const CHUNK: usize = 8192;
/// Bytes that come of a leaf.
const VALUE: usize = 32;
/// Between the first chunk and the values.
const BEFORE: [u8; 8] = [3, 0, 0, 0, 0, 0, 0, 0];
/// Bytes behind the values, at most: how many leaves there were, how many bytes that takes, and two more.
const BEHIND: usize = size_of::<u64>() + 3;

static SINGLE: Start<Turbo> = Start::xof(usize::MAX, 1, 0x07);
static LEAF: Start<Turbo> = Start::xof(VALUE, 0, 0x0b);
static LAST_LEAF: Start<Turbo> = Start::xof(VALUE, 1, 0x0b);
static NODE: Start<Turbo> = Start::xof(usize::MAX, 0, 0x06);

/// A message that arrives in pieces.
#[derive(Clone)]
pub struct Tree {
    node: Stream<Turbo>,
    /// The leaf that is begun.
    leaf: Stream<Turbo>,
    /// Bytes of the message so far.
    length: u64,
}

impl Tree {
    /// The beginning of a message.
    #[allow(clippy::new_without_default, reason = "streams of other functions begin with a start")]
    pub fn new() -> Self {
        Tree { node: Stream::new(&NODE), leaf: Stream::new(&LEAF), length: 0 }
    }
}

/// One request: `input` is the next piece of `tree`, or the whole message where there is none. With an `output` the message ends
/// here, its digest goes there, and the tree is at its beginning again.
pub struct Job<'a> {
    pub tree: Option<&'a mut Tree>,
    pub input: &'a [u8],
    pub output: Option<&'a mut [u8]>,
}

impl<'a> Job<'a> {
    /// The same for the sponge, if the message does not go beyond its first chunk with it.
    fn within_a_chunk(self) -> Result<sponge::Job<'a, Turbo>, Self> {
        let end = self.tree.as_ref().map_or(0, |tree| tree.length) + self.input.len() as u64;
        if end >= CHUNK as u64 {
            return Err(self);
        }
        let Job { tree, input, output } = self;
        let start = if output.is_some() { &SINGLE } else { &NODE };
        let stream = tree.map(|tree| {
            tree.length = if output.is_some() { 0 } else { end };
            &mut tree.node
        });
        Ok(sponge::Job { start, stream, input, output })
    }
}

/// Runs a job by itself: what it has of chunks goes side by side.
pub fn run_one(kernels: Kernels, job: Job<'_>) {
    match job.within_a_chunk() {
        Ok(job) => sponge::run_one(kernels, job),
        Err(job) => run(kernels, core::iter::once(job)),
    }
}

/// Messages of several chunks that are worked on at a time.
const TASKS: usize = 8;
/// Chunks, and messages of one chunk, that go side by side: the lanes fill up again and again, and between are the nodes.
const TOGETHER: usize = 64;

/// Runs jobs side by side.
pub fn run<'a>(kernels: Kernels, jobs: impl Iterator<Item = Job<'a>>) {
    let mut jobs = jobs.fuse();
    let mut tasks = [const { None }; TASKS];
    let mut room = [0; TOGETHER * VALUE + TASKS * (BEFORE.len() + BEHIND)];
    loop {
        let mut together = Together { jobs: [const { None }; TOGETHER], count: 0, room: &mut room, used: 0 };
        let mut is_idle = true;
        for task in &mut tasks {
            while task.is_none() && !together.is_full() {
                let Some(job) = jobs.next() else { break };
                match job.within_a_chunk() {
                    Ok(job) => together.add(job),
                    Err(job) => *task = Some(Task::new(job)),
                }
            }
            if let Some(task) = task {
                is_idle = false;
                task.go_on(&mut together);
            }
        }
        let (count, used) = (together.count, together.used);
        sponge::run(kernels, false, together.jobs[..count].iter_mut().filter_map(Option::take));
        if is_idle && count < TOGETHER {
            return;
        }
        sponge::run(kernels, false, tasks.iter_mut().flatten().filter_map(|task| task.node(&room)));
        room[..used].zeroize();
        for task in &mut tasks {
            if task.as_ref().is_some_and(|task| task.is_over) {
                // Dropped where it is: it leaves nothing there.
                *task = None;
            }
        }
    }
}

/// What goes side by side.
struct Together<'r> {
    jobs: [Option<sponge::Job<'r, Turbo>>; TOGETHER],
    count: usize,
    /// For what nodes digest.
    room: &'r mut [u8],
    /// Bytes of it that are given away.
    used: usize,
}

impl<'r> Together<'r> {
    fn is_full(&self) -> bool {
        self.count == TOGETHER
    }

    fn add(&mut self, job: sponge::Job<'r, Turbo>) {
        self.jobs[self.count] = Some(job);
        self.count += 1;
    }

    /// A chunk that ends, and with it a leaf.
    fn add_leaf(&mut self, start: &'r Start<Turbo>, stream: Option<&'r mut Stream<Turbo>>, input: &'r [u8]) {
        let output = Some(self.room(VALUE));
        self.add(sponge::Job { start, stream, input, output });
    }

    fn room(&mut self, bytes: usize) -> &'r mut [u8] {
        let (room, rest) = core::mem::take(&mut self.room).split_at_mut(bytes);
        self.room = rest;
        self.used += bytes;
        room
    }
}

/// A job of several chunks.
struct Task<'a> {
    /// That of a whole message.
    own: Tree,
    tree: Option<&'a mut Tree>,
    /// What is left.
    input: &'a [u8],
    output: Option<&'a mut [u8]>,
    /// Where the node finds what it digests next.
    part: Range<usize>,
    /// All of the input went into leaves and the node.
    is_over: bool,
}

impl<'a> Task<'a> {
    fn new(job: Job<'a>) -> Self {
        let Job { tree, input, output } = job;
        Task { own: Tree::new(), tree, input, output, part: 0..0, is_over: false }
    }

    /// The next chunks, as many as there is room for.
    fn go_on<'r>(&'r mut self, together: &mut Together<'r>) {
        let Task { own, tree, input, output, part, is_over } = self;
        let tree = if let Some(tree) = tree { &mut **tree } else { own };
        let (mut begun, is_first) = ((tree.length % CHUNK as u64) as usize, tree.length < CHUNK as u64);
        let Tree { node, leaf, length } = tree;
        let mut leaf = Some(leaf);
        let mut take = |input: &mut &'a [u8], bytes: usize| {
            let piece = input.split_off(..input.len().min(bytes)).unwrap_or_default();
            *length += piece.len() as u64;
            piece
        };
        part.start = together.used;
        if is_first {
            // It fills up: what does not is no task.
            let piece = take(input, CHUNK - begun);
            together.add(sponge::Job { start: &NODE, stream: Some(node), input: piece, output: None });
            together.room(BEFORE.len()).copy_from_slice(&BEFORE);
            begun = 0;
        }
        while !*is_over && !together.is_full() {
            let goes_on = output.is_none() && input.len() < CHUNK - begun;
            if goes_on && input.is_empty() {
                *is_over = true;
                break;
            }
            let stream = if begun > 0 || goes_on { leaf.take() } else { None };
            if goes_on && stream.is_none() {
                // The leaf ends before another one begins: in the next round.
                break;
            }
            let piece = take(input, CHUNK - begun);
            if goes_on {
                together.add(sponge::Job { start: &LEAF, stream, input: piece, output: None });
            } else if begun + piece.len() == CHUNK {
                together.add_leaf(&LEAF, stream, piece);
            } else {
                together.add_leaf(&LAST_LEAF, stream, piece);
                *is_over = true;
            }
            begun = 0;
        }
        if *is_over && output.is_some() {
            let leaves = *length / CHUNK as u64;
            let bytes = (u64::BITS - leaves.leading_zeros()).div_ceil(8) as usize;
            let behind = together.room(bytes + 3);
            behind[..bytes].copy_from_slice(&leaves.to_be_bytes()[size_of::<u64>() - bytes..]);
            behind[bytes..].copy_from_slice(&[bytes as u8, 0xff, 0xff]);
        }
        part.end = together.used;
    }

    /// What the node digests next, if there is something.
    fn node<'r>(&'r mut self, room: &'r [u8]) -> Option<sponge::Job<'r, Turbo>> {
        let Task { own, tree, output, part, is_over, .. } = self;
        let tree = if let Some(tree) = tree { &mut **tree } else { own };
        let output = if *is_over { output.take() } else { None };
        if output.is_some() {
            tree.length = 0;
        }
        let input = &room[part.clone()];
        (!input.is_empty()).then_some(sponge::Job { start: &NODE, stream: Some(&mut tree.node), input, output })
    }
}

#[cfg(test)]
mod tests;
