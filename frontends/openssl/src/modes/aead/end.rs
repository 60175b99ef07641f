//! The end of a message: its tag is computed, or compared with the expected one.

use gantry_core::{Error, Outcome};

use super::{AeadState, Phase, TAG_LEN};
use crate::libcrypto::{DefaultProviderCipherCtx, Io, with_enough_stack};
use crate::provider::WrappedAlgorithm;

impl AeadState {
    pub(crate) fn finish(
        &mut self,
        wrapped: &WrappedAlgorithm,
        default_ctx: &DefaultProviderCipherCtx,
        io: &mut Io<'_>,
    ) -> i32 {
        self.restart_message();
        if self.record_header.take().is_some() {
            // The default provider has the header, and refuses to end a message before the record of this header.
            self.phase = Phase::DefaultProvider;
        }
        let is_flushed = self.phase != Phase::Begun || self.flush_aad(default_ctx);
        let result = match self.phase {
            _ if !is_flushed => io.fail(),
            Phase::DefaultProvider | Phase::Begun => {
                let result = default_ctx.finish(io);
                self.has_computed_tag &= result != 1;
                result
            }
            Phase::Device | Phase::Ended | Phase::Broken => self.finish_on_device(wrapped, default_ctx, io),
        };
        self.message_has_ended |= result == 1;
        result
    }

    /// Ends a message that a device serves.
    pub(super) fn finish_on_device(
        &mut self,
        wrapped: &WrappedAlgorithm,
        default_ctx: &DefaultProviderCipherCtx,
        io: &mut Io<'_>,
    ) -> i32 {
        let Some(stream) = self.stream.as_mut().filter(|_| self.phase == Phase::Device) else { return io.fail() };
        if !self.seal && self.tag_len == 0 {
            // There is no expected tag here. The default provider has none either, and refuses the call.
            return default_ctx.finish(io);
        }
        self.phase = Phase::Ended;
        let result = if self.seal {
            self.tag_len = TAG_LEN;
            with_enough_stack(|| stream.seal(&mut self.tag))
        } else {
            with_enough_stack(|| stream.open(&self.tag[..self.tag_len]))
        };
        match result {
            Some(Ok(())) => {
                self.has_computed_tag |= self.seal;
                io.succeed(0)
            }
            // The default provider gives no reason.
            Some(Err(Error::Refused(Outcome::BadTag))) => io.fail(),
            _ => self.break_message(wrapped, io),
        }
    }
}
