//! Pipelines (OpenSSL 3.5 and later): up to 32 AES-CBC messages under one key, each with its own nonce. Data for all messages
//! becomes one batch, if a device takes it; everything else goes message by message, as without pipelines.

use gantry_core::Request;

use crate::libcrypto::{CipherCall, DefaultProviderCipherCtx, Io};
use crate::modes::chain::{ChainState, WholeBlocks};
use crate::provider::WrappedAlgorithm;

/// The messages of a context. The context itself keeps their key and parameters, and has no message of its own.
#[derive(Default)]
pub(crate) struct Pipes(Vec<Pipe>);

struct Pipe {
    default_ctx: DefaultProviderCipherCtx,
    message: ChainState,
    /// Bytes of the message so far.
    offset: usize,
}

/// The result for the whole blocks of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlocksResult {
    /// The blocks were not processed: they go message by message.
    NotDone,
    Done,
    /// The content of the buffer is unknown.
    Damaged,
}

impl Clone for Pipes {
    /// Returns no pipes if the default provider cannot make more contexts: data for them is then refused.
    fn clone(&self) -> Self {
        Self(collect_pipes(self.0.iter().map(Pipe::duplicate)).unwrap_or_default())
    }
}

impl Pipe {
    fn duplicate(&self) -> Option<Self> {
        Some(Self { default_ctx: self.default_ctx.duplicate()?, message: self.message.clone(), offset: self.offset })
    }
}

impl Pipes {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[inline(always)]
    pub(crate) fn close(&mut self) {
        if !self.0.is_empty() {
            self.0.clear();
        }
    }

    /// Opens a message for each nonce, with the key and padding of a context. Existing pipes already have this key and padding.
    pub(crate) fn open<'c>(
        &mut self,
        wrapped: &WrappedAlgorithm,
        (default_ctx, message): (&DefaultProviderCipherCtx, &ChainState),
        ivs: impl ExactSizeIterator<Item = &'c [u8]>,
    ) -> bool {
        if self.0.len() != ivs.len() {
            self.close();
            let pipe = || Some(Pipe { default_ctx: default_ctx.duplicate()?, message: message.clone(), offset: 0 });
            self.0 = collect_pipes((0..ivs.len()).map(|_| pipe())).unwrap_or_default();
        }
        let encrypt = message.encrypts();
        let good = self.0.len() == ivs.len()
            && self.0.iter_mut().zip(ivs).all(|(pipe, iv)| {
                pipe.offset = 0;
                pipe.message.init_accepted(wrapped, encrypt, None, Some(iv));
                pipe.default_ctx.set_iv(encrypt, iv) == 1
            });
        if !good {
            self.close();
        }
        good
    }

    /// Calls `repeat` for each message with the number of its bytes so far, to repeat parameters that the default provider accepted for the
    /// messages' context.
    pub(crate) fn repeat_params(
        &mut self,
        repeat: impl Fn(&DefaultProviderCipherCtx, &mut ChainState, usize) -> bool,
    ) -> bool {
        self.0.iter_mut().all(|pipe| repeat(&pipe.default_ctx, &mut pipe.message, pipe.offset))
    }

    /// Processes the next data of each message. `parent` is the state of the messages' context, which has the session.
    pub(crate) fn update(&mut self, wrapped: &WrappedAlgorithm, parent: &mut ChainState, ios: &mut [Io<'_>]) -> bool {
        let bytes: usize = ios.iter().map(Io::len).sum();
        if !wrapped.initial_sizes().has(bytes / ios.len().max(1)) {
            return self.update_each(wrapped, ios);
        }
        let blocks: Vec<Option<WholeBlocks>> = (self.0.iter_mut().zip(&*ios))
            .map(|(pipe, io)| pipe.message.whole_blocks(&pipe.default_ctx, CipherCall::Update, io, pipe.offset))
            .collect();
        let are_disjoint = Io::are_disjoint(ios);
        let data =
            ios.iter_mut().zip(&blocks).map(|(io, blocks)| Some((io, blocks.as_ref().filter(|_| are_disjoint)?)));
        let results = run_blocks_as_batch(parent.encrypts(), data, |requests| parent.run_batch(wrapped, requests));
        let each = self.0.iter_mut().zip(ios).zip(blocks).zip(results);
        // Continues after a failure: each message must keep pace with the others.
        each.fold(true, |good, (((pipe, io), blocks), result)| {
            let Pipe { default_ctx, message, offset } = pipe;
            let bytes = io.len();
            let done = match (result, blocks) {
                (BlocksResult::Done, Some(blocks)) => message.complete(default_ctx, CipherCall::Update, io, &blocks),
                (BlocksResult::Damaged, _) => 0,
                _ if bytes == 0 => io.succeed(0),
                _ => message.process(wrapped, default_ctx, CipherCall::Update, io, *offset),
            };
            *offset = offset.wrapping_add(bytes);
            good && done == 1
        })
    }

    /// Processes data message by message. The data is too short to gain from a batch, or stays with the default provider.
    fn update_each(&mut self, wrapped: &WrappedAlgorithm, ios: &mut [Io<'_>]) -> bool {
        self.0.iter_mut().zip(ios).fold(true, |good, (pipe, io)| {
            let Pipe { default_ctx, message, offset } = pipe;
            let bytes = io.len();
            let stays_with_default_provider = message.default_ctx_is_current()
                && !wrapped.examines_all_calls()
                && !message.device_sizes(wrapped).has(bytes);
            let done = match bytes {
                0 => io.succeed(0),
                _ if stays_with_default_provider => default_ctx.forward(CipherCall::Update, io),
                _ => message.process(wrapped, default_ctx, CipherCall::Update, io, *offset),
            };
            *offset = offset.wrapping_add(bytes);
            good && done == 1
        })
    }

    pub(crate) fn finish(&mut self, ios: &mut [Io<'_>]) -> bool {
        let each = self.0.iter_mut().zip(ios);
        each.fold(true, |good, (pipe, io)| good & (pipe.message.finish(&pipe.default_ctx, io) == 1))
    }
}

/// Collects the pipes without reallocation: each holds a key, of which a growing vector would leave copies.
fn collect_pipes(pipes: impl ExactSizeIterator<Item = Option<Pipe>>) -> Option<Vec<Pipe>> {
    let mut collected = Vec::with_capacity(pipes.len());
    for pipe in pipes {
        collected.push(pipe?);
    }
    Some(collected)
}

/// Makes a batch of the messages' whole blocks, if any, and returns a result for each message. `run` runs the batch, and returns false if
/// no device takes it.
pub(crate) fn run_blocks_as_batch<'b, 'c: 'b>(
    encrypt: bool,
    data: impl ExactSizeIterator<Item = Option<(&'b mut Io<'c>, &'b WholeBlocks)>>,
    run: impl FnOnce(&mut [Request<'_>]) -> bool,
) -> Vec<BlocksResult> {
    let mut results = vec![BlocksResult::NotDone; data.len()];
    let (mut requests, mut pipe_indices) = (Vec::with_capacity(data.len()), Vec::with_capacity(data.len()));
    for (index, data) in data.enumerate() {
        if let Some((io, blocks)) = data {
            let is_in_place = io.is_in_place();
            if let Some(data) = io.buffers_of(blocks.len) {
                let request = if encrypt { Request::encrypt } else { Request::decrypt };
                requests.push(request(blocks.iv(), data));
                pipe_indices.push((index, is_in_place));
            }
        }
    }
    if !run(&mut requests) {
        return results;
    }
    for ((index, is_in_place), request) in pipe_indices.into_iter().zip(&requests) {
        results[index] = match request.outcome() {
            Some(gantry_core::Outcome::Done) => BlocksResult::Done,
            // A device that fails leaves the data unchanged, but a driver that panics may not. The outcome is the same for both.
            _ if is_in_place => BlocksResult::Damaged,
            _ => BlocksResult::NotDone,
        };
    }
    results
}
