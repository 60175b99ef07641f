//! The end of a message: its tag is computed, or compared with the expected one.

use gantry_core::{Error, Outcome};

use super::{AeadState, Phase, TAG};
use crate::host::{Host, Io, with_stack};
use crate::provider::Wrapped;

impl AeadState {
    pub(crate) fn finish(&mut self, wrapped: &Wrapped, host: &Host, io: &mut Io<'_>) -> i32 {
        self.restart_message();
        if self.header.take().is_some() {
            // The host has the header, and refuses to end a message before the record of this header.
            self.phase = Phase::Host;
        }
        let is_flushed = self.phase != Phase::Begun || self.flush_aad(host);
        let result = match self.phase {
            _ if !is_flushed => io.fail(),
            Phase::Host | Phase::Begun => {
                let result = host.finish(io);
                self.has_computed &= result != 1;
                result
            }
            Phase::Device | Phase::Ended | Phase::Broken => self.finish_on_device(wrapped, host, io),
        };
        self.has_ended |= result == 1;
        result
    }

    /// Ends a message that a device serves.
    pub(super) fn finish_on_device(&mut self, wrapped: &Wrapped, host: &Host, io: &mut Io<'_>) -> i32 {
        let Some(stream) = self.stream.as_mut().filter(|_| self.phase == Phase::Device) else { return io.fail() };
        if !self.seal && self.tag_len == 0 {
            // There is no expected tag here. The host has none either, and refuses the call.
            return host.finish(io);
        }
        self.phase = Phase::Ended;
        let result = if self.seal {
            self.tag_len = TAG;
            with_stack(|| stream.seal(&mut self.tag))
        } else {
            with_stack(|| stream.open(&self.tag[..self.tag_len]))
        };
        match result {
            Some(Ok(())) => {
                self.has_computed |= self.seal;
                io.succeed(0)
            }
            // The host gives no reason.
            Some(Err(Error::Refused(Outcome::BadTag))) => io.fail(),
            _ => self.fail(wrapped, io),
        }
    }
}
